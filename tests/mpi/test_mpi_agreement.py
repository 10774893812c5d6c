"""Ranks compare what they were asked for before they begin, and refuse to differ."""

from __future__ import annotations

import json
import re
from fractions import Fraction

import mpi_runs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cpms
from cpms import Graph, InputError
from cpms.backends.mpi.exchange import agreement, world
from cpms.backends.mpi.exchange.agreement import as_text, require_same
from cpms.mpi import command

needs_mpi = pytest.mark.skipif(world.missing() is not None, reason=str(world.missing()))
GRAPH = "uniform:nodes=2000,edges=8000"


class Ranks:
    """A communicator of ranks that were given these options, as one of them sees it."""

    def __init__(self, *options, changed=None):
        self.size, self.calls = len(options), 0
        self._options, self._changed = options, changed or {}

    def allgather(self, mine):
        self.calls += 1
        code = {name: json.loads(mine)[name] for name in ("version of cpms", "code of cpms")}
        texts = [code | {name: as_text(value) for name, value in each.items()} for each in self._options]
        texts[-1] |= self._changed
        return [json.dumps(each) for each in texts]


options = st.fixed_dictionaries(
    {
        "damping": st.floats(0, 1) | st.integers(0, 1),
        "norm": st.sampled_from(["l1", "l2"]),
        "personalization": st.none() | st.lists(st.integers(0, 9)) | st.dictionaries(st.text(), st.floats()),
        "start": st.none() | st.lists(st.floats(0, 1)).map(np.array),
    }
)


@given(options, st.integers(1, 5))
def test_the_same_options_pass_in_one_collective(given_options, count):
    ranks = Ranks(*[given_options] * count)
    require_same(ranks, given_options)
    assert ranks.calls == (count > 1)


@given(options, options, st.lists(st.booleans(), min_size=2, max_size=6))
def test_options_that_differ_are_named_with_their_values_and_ranks(one, other, which):
    ranks = Ranks(*[one if first else other for first in which])
    differing = [name for name in one if as_text(one[name]) != as_text(other[name])]
    if not differing or len(set(which)) == 1:
        require_same(ranks, one)
        return
    sentences = set()
    for mine in (one, other):  # Every rank says the same.
        with pytest.raises(InputError) as caught:
            require_same(ranks, mine)
        sentences.add(str(caught.value))
    (sentence,) = sentences
    assert sentence.startswith("ranks differ in ")
    for name in one:
        assert (f" {name}: " in sentence) == (name in differing)
        assert name not in differing or all(as_text(each[name]) in sentence for each in (one, other))


def test_ranks_are_named_by_stretches():
    with pytest.raises(InputError, match=re.escape("tol: 1e-06 on ranks 0, 1 and 5, 1e-08 on ranks 2 to 4; start")):
        require_same(Ranks(*[{"tol": tol} for tol in (1e-6, 1e-6, 1e-8, 1e-8, 1e-8, 1e-6)]), {"tol": 1e-6})


@pytest.mark.parametrize("what", ["version of cpms", "code of cpms"])
def test_ranks_of_other_code_are_refused(what):
    with pytest.raises(InputError, match=f"ranks differ in {what}: .* on rank 0, 'other' on rank 1"):
        require_same(Ranks({}, {}, changed={what: "'other'"}), {})


def test_the_digest_of_the_code_follows_its_files(monkeypatch, tmp_path):
    package, kernels = tmp_path / "cpms", tmp_path / "kernels"
    for folder in (package, kernels):
        folder.mkdir()
        (folder / "a.py").write_text("1")
    monkeypatch.setattr(agreement, "_code_folders", lambda: (package, kernels))
    seen = []
    changes = [
        lambda: None,
        lambda: (package / "a.pyc").write_text("compiled"),
        lambda: (package / "a.py").write_text("2"),
        lambda: (package / "a.py").rename(package / "b.py"),
        lambda: (kernels / "k.cu").write_text("1"),
    ]
    for change in changes:
        change()
        seen.append(agreement.code_digest.__wrapped__())
    assert seen[0] == seen[1]
    assert len(set(seen)) == 4


def test_equal_values_have_one_text_and_others_another():
    same = [(0.85, Fraction(17, 20)), (1000, 1e3), (np.float64(0.5), 0.5), ((1, 2), [1, 2])]
    assert all(as_text(one) == as_text(other) for one, other in same)
    edges = ([0, 1], [1, 0])
    texts = [
        *(True, 1, "1", None, [1], "x" * 5000, "x" * 4999 + "y", 10**5000, 10**5000 + 10**4000),
        *(np.ones(3), np.ones(3, np.float32), np.zeros(3), {0: 1.0}, {0: 2.0}),
        *(Graph.from_edges(*edges), Graph.from_edges(*edges, [1.0, 2.0]), Graph.from_edges(*edges[::-1])),
        *(Graph.from_edges(*edges, names=["a", "b"]), Graph.from_edges([1, 2], [2, 1], first_id=1)),
        *(cpms.Fixed(1), cpms.Fixed(2), cpms.FixedReduction(cpms.FP16), cpms.CPMS4, cpms.FP16),
    ]
    assert len({as_text(value) for value in texts}) >= len(texts) - 2
    assert all(len(as_text(value)) < 250 for value in texts)


def test_objects_are_compared_without_their_addresses():
    assert as_text(object()) == as_text(object())


def test_a_solve_on_one_machines_engine_compares_nothing(monkeypatch):
    monkeypatch.setattr(agreement, "require_same", lambda *_: pytest.fail("compared"))
    cpms.pagerank(Graph.from_edges([0], [1]), engine="cpu")


@needs_mpi
def test_a_solve_by_ranks_compares_all_of_its_arguments_but_who_looks_on(monkeypatch):
    seen = {}
    monkeypatch.setattr(agreement, "require_same", lambda _, compared: seen.update(compared))
    cpms.pagerank(Graph.from_edges([0], [1]), engine="mpi", storage=cpms.FP64, on_step=lambda _: None)
    assert set(seen) == {
        *("graph", "method", "storage", "layout", "engine", "damping", "tol", "norm", "max_iterations", "iterations"),
        *("personalization", "dangling", "start", "controller", "certify"),
    }
    assert seen["storage"] == "fp64"


def test_the_command_compares_all_of_its_options_but_threads(tmp_path):
    file = tmp_path / "graph.txt"
    file.write_text("0 1\n")
    compared = command._compared(
        command.parser().parse_args([str(file), "--output", "ranks.npy", "--threads", "3"]), None
    )
    assert compared["files of GRAPH"] == "4 bytes"
    assert compared["--output"] == "ranks.npy"
    options = {string for action in command.parser()._actions for string in action.option_strings[-1:]}
    assert options - {"--help", "--threads"} <= set(compared)


# Real ranks


@needs_mpi
@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (["--tol", "1e-6"], ["--tol", "1e-8"], "--tol: 1e-06 on rank 0, 1e-08 on rank 1; start"),
        (["--repeat", "2"], ["--help"], "command line: 'right' on rank 0, 'for help' on rank 1; start"),
        (["--no-such"], ["--repeat", "2"], "command line: 'wrong' on rank 0, 'right' on rank 1; start"),
    ],
    ids=["options", "help", "usage"],
)
def test_ranks_with_other_options_end_with_one_sentence(one, other, said):
    program = ["-m", "cpms.mpi", GRAPH, "--threads", "1"]
    code, output, errors = mpi_runs.run_apart([*program, *one], [*program, *other])
    assert code == 2
    assert f"cpms: error: ranks differ in {said}" in errors
    assert "Traceback" not in errors
    assert "2,000 nodes" not in output


SOLVE = """
import cpms
from cpms.backends.mpi.exchange.world import world
first = world().rank == 0
graph = cpms.load("rmat:scale=6")
try:
    cpms.pagerank(graph, engine="mpi", damping=0.85 if first else 2, norm="l1" if first else "l2")
except cpms.InputError as error:
    print(error, flush=True)
    raise SystemExit(2)
"""


@needs_mpi
def test_solves_with_other_arguments_are_refused_on_every_rank_also_wrong_ones():
    # A traceback is no evidence: mpiexec may lose the end of what a rank writes before it aborts.
    code, output, _ = mpi_runs.run(2, "-c", SOLVE)
    assert code == 2
    said = "ranks differ in damping: 0.85 on rank 0, 2 on rank 1; in norm: 'l1' on rank 0, 'l2' on rank 1"
    assert output.count(said) == 2
