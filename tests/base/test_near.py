"""Near misses of names are answered with the name that was meant, on the command line and in Python."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cpms
from cpms import engines
from cpms.base.text import suggestions
from cpms.cli import main
from cpms.formats.formats import NAMED
from cpms.problems.pagerank import Problem

KNOWN = {"storage": [known.name for known in NAMED], "engine": engines.names(), "command": list(main.COMMANDS)}


@given(st.sampled_from([name for names in KNOWN.values() for name in names]), st.data())
def test_other_cases_hyphens_and_blanks_name_the_same(name, data):
    names = next(names for names in KNOWN.values() if name in names)
    spelled = data.draw(st.sampled_from([name.upper(), name.replace("_", "-"), f" {name} ", name.replace("-", "_")]))
    assert suggestions.nearest(spelled, names) == name


@given(st.text() | st.none() | st.integers(), st.lists(st.text(min_size=1), max_size=4))
def test_only_possible_names_are_named(given_name, possible):
    assert suggestions.nearest(given_name, possible) in [None, *possible]


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["rank", "GRAPH", "--tolerance", "1e-6"], "--tol"),
        (["rank", "--alpha=0.9", "GRAPH"], "--damping"),
        (["rank", "GRAPH", "--dmaping", "0.9"], "--damping"),
        (["rank", "GRAPH", "--format", "fp32"], "--storage"),
        (["convert", "a.npy", "b.npz", "--format", "fp32"], "--storage"),
        (["pagerank", "GRAPH"], "rank"),
        (["plot", "table2"], "show"),
        (["rank", "GRAPH", "--storage", "CPMS4"], "cpms4"),
        (["rank", "GRAPH", "--storage", "half-scaled"], "fp16-scaled"),
        (["rank", "GRAPH", "--storage", "E6M9"], "e6m9"),
        (["rank", "GRAPH", "--engine", "gpu"], "cuda"),
        (["rank", "GRAPH", "--engine", "cup"], "cpu"),
        (["rank", "GRAPH", "--layout", "CSR"], "csr"),
        (["formats", "cpsm4"], "cpms4"),
        (["engines", "ocl"], "opencl"),
        (["datasets", "wiki_vot"], "wiki-Vote"),
        (["run", "quickstrat"], "quickstart"),
        (["show", "tabel2"], "table2"),
    ],
)
def test_the_command_line_names_what_was_meant(capsys, arguments, meant):
    given_arguments = [argument.replace("GRAPH", "grid:rows=2,columns=2") for argument in arguments]
    try:
        code = main.main(given_arguments)
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert f"did you mean {meant}?" in captured.err


def test_what_is_near_nothing_is_answered_with_what_is_possible(capsys):
    for arguments in (["fly"], ["rank", "x", "--fly"], ["rank", "grid:rows=2,columns=2", "--engine", "abacus"]):
        try:
            main.main(arguments)
        except SystemExit as stop:
            assert stop.code == 2
        error = capsys.readouterr().err
        assert "did you mean" not in error
        assert "it can be one of" in error


def test_abbreviations_and_what_follows_two_hyphens_are_no_misses(capsys):
    assert main.main(["rank", "grid:rows=2,columns=2", "--max-iter", "50", "--js"]) == 0
    assert main.main(["inspect", "--", "-0.1"]) == 0
    assert main.main(["inspect", "--", "--tolerance"]) == 2
    assert "neither a number" in capsys.readouterr().err


def test_python_names_what_was_meant_too():
    graph = cpms.Graph.from_edges([0, 1], [1, 0])
    for options, meant in [
        ({"method": "refinement"}, "refine"),
        ({"engine": "CPU"}, "cpu"),
        ({"layout": "ellpack"}, "ell"),
        ({"storage": "CPMS4"}, "cpms4"),
    ]:
        with pytest.raises(cpms.CpmsError, match=rf"did you mean {meant}\?"):
            cpms.pagerank(graph, **options)
    with pytest.raises(cpms.InputError, match=r"did you mean grid\?"):
        cpms.generate("gird:rows=2")
    assert "did you mean" not in engines.get("cpu").unsupported(Problem(graph), cpms.FP64, "diagonal")
