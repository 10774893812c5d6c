"""The command line is a contract: JSON fields, exit codes, one-line errors, no half-written files."""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_runs import TRIANGLE, refused, run

from cpms.cli import doctor, main

FIELDS = [
    *("graph", "nodes", "edges", "dangling", "method", "storage", "layout", "engine", "damping", "tol"),
    *("converged", "status", "iterations", "iterations_by_bits", "residual_l1", "error_bound", "mass"),
    *("solve_s", "load_s", "top", "norm", "weighted", "lower_triangle", "prepare_s", "certify_s", "compile_s"),
    "read",
]


@pytest.mark.quick
def test_json_is_one_object_with_the_contract_fields(capsys, triangle):
    code, out, _ = run(capsys, "rank", triangle, "--json", "--top", 2)
    report = json.loads(out)
    assert code == 0
    assert list(report) == FIELDS
    assert report["converged"] is True
    assert (report["nodes"], report["edges"], report["dangling"]) == (3, 4, 0)
    assert [node for node, _ in report["top"]] == [3, 1]
    assert sum(report["iterations_by_bits"].values()) == report["iterations"]
    assert report["error_bound"] == pytest.approx(report["residual_l1"] / 0.15, rel=1e-3)


def test_what_was_read_is_said(capsys, tmp_path):
    path = tmp_path / "links.csv"
    path.write_text("# by hand\nid,from,to,kg\n7,ann,bob,2\n# x\n8,bob,ann,0\nid,from,to,kg\n9,bob,cid,1\n")
    options = ("--columns", "from,to,kg", "--comments", "#", "--zero-weights", "drop", "--symmetric", "expand")
    code, out, _ = run(capsys, "rank", path, "--json", "--ids", "compact", *options)
    assert code == 0
    assert json.loads(out)["read"] == {
        "form": "edge list of names",
        "delimiter": "comma",
        "columns": [2, 3, 4],
        "header": ["id", "from", "to", "kg"],
        "comment_lines": 1,
        "skipped_lines": 1,
        "repeated_headers": 1,
        "weights": "column 4 (kg)",
        "zero_weights": 1,
        "symmetric": "expand",
        "ids": "compact",
    }
    _, out, _ = run(capsys, "rank", path, *options)
    assert out.splitlines()[1] == (
        "read as edge list of names: comma between fields, columns 2 ('from'), 3 ('to'), 4 ('kg'), weights from "
        "column 4 (kg), 1 comment line, both directions; 1 comment line below the first edge was skipped; "
        "1 repeated header below the first edge was skipped; 1 entry of weight 0 dropped"
    )
    assert json.loads(run(capsys, "rank", "grid:rows=2,columns=2", "--json")[1])["read"] is None


def test_what_a_file_repeats_is_counted_but_not_in_json(capsys, tmp_path):
    path = tmp_path / "ids.csv"
    path.write_text("src,dst\n1,2\n1,2\n1,2\n3,3\n2,3\n3,1\n3,4\n5,1\n")
    _, out, _ = run(capsys, "rank", path)
    assert out.splitlines()[2] == (
        "2 repeated edges and 1 self-loop kept; 1 id without an edge, which --ids compact leaves out"
    )
    _, out, _ = run(capsys, "rank", path, "--duplicates", "drop", "--self-loops", "drop", "--ids", "compact")
    assert "kept" not in out
    assert "without an edge" not in out
    assert json.loads(run(capsys, "rank", path, "--json")[1])["edges"] == 8


def test_a_web_graph_of_site_names_is_answered_with_names(capsys, tmp_path):
    path = tmp_path / "sites.txt"
    sites = [
        ("a.org", "hub.net"),
        ("b.org", "hub.net"),
        ("c.org", "hub.net"),
        ("hub.net", "c.org"),
        ("hub.net", "b.org"),
    ]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in sites))
    code, out, _ = run(capsys, "rank", path, "--json", "--top", 9)
    assert code == 0
    # b.org and c.org tie; b.org comes first in the file. Of more than there are, all are listed.
    assert [site for site, _ in json.loads(out)["top"]] == ["hub.net", "b.org", "c.org", "a.org"]


@pytest.mark.quick
def test_not_converged_is_exit_code_1(capsys, triangle):
    code, out, _ = run(capsys, "rank", triangle, "--json", "--max-iterations", 3)
    assert code == 1
    assert json.loads(out)["converged"] is False


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet"])
def test_output_holds_all_ranks(capsys, triangle, tmp_path, suffix):
    path = tmp_path / f"ranks{suffix}"
    assert run(capsys, "rank", triangle, "--output", path)[0] == 0
    if suffix == ".npy":
        ranks = np.load(path)
    else:
        table = pd.read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
        assert table.columns.tolist() == ["node", "rank"]
        assert table.node.tolist() == [1, 2, 3]
        ranks = table["rank"].to_numpy()
    assert ranks.sum() == pytest.approx(1.0, abs=1e-15)


def test_trace_has_a_line_an_iteration(capsys, triangle, tmp_path):
    _, out, _ = run(capsys, "rank", triangle, "--json", "--trace", tmp_path / "t.csv", "--storage", "cpms4")
    trace = pd.read_csv(tmp_path / "t.csv")
    assert len(trace) == json.loads(out)["iterations"]
    assert trace.columns.tolist() == ["iteration", "residual", "bits", "read", "write", "mass", "seconds"]


def test_personalize_moves_mass_to_the_node(capsys, triangle):
    plain = json.loads(run(capsys, "rank", triangle, "--json", "--top", 3)[1])
    moved = json.loads(run(capsys, "rank", triangle, "--json", "--top", 3, "--personalize", "2")[1])
    assert dict(moved["top"])[2] > dict(plain["top"])[2]


def test_a_node_whose_name_has_a_comma_is_named_between_quotes(capsys, tmp_path):
    path = tmp_path / "names.csv"
    path.write_text('"x, y",b\nb,c\nc,"x, y"\n')
    ranked = json.loads(run(capsys, "rank", path, "--json", "--top", 1, "--personalize", '"x, y"')[1])
    assert ranked["top"][0][0] == "x, y"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--damping", "1"], "damping"),
        (["--damping", "nan"], "damping"),
        (["--tol", "0"], "tol"),
        (["--tol", "nan"], "tol"),
        (["--max-iterations", "0"], "max_iterations"),
        (["--personalize", "9"], "9"),
        (["--personalize", ""], "node ''"),
        (["--personalize", "1,1"], "twice"),
        (["--storage", "fp63"], "fp63"),
        (["--layout", "csc"], "csc"),
        (["--engine", "abacus"], "abacus"),
        (["--top", "-1"], "--top"),
        (["--method", "refine", "--layout", "csr"], "refine"),
    ],
)
def test_bad_options_are_one_line_and_code_2(capsys, triangle, tmp_path, options, says):
    output = tmp_path / "ranks.npy"
    assert says in refused(capsys, "rank", triangle, "--output", output, *options)
    assert not output.exists()


@pytest.mark.parametrize("name", ["ranks.txt", "nowhere/ranks.npy", "."])
def test_bad_output_is_refused_before_work(capsys, triangle, tmp_path, name):
    refused(capsys, "rank", triangle, "--output", tmp_path / name)


def test_ranks_and_trace_need_two_files(capsys, triangle, tmp_path):
    same = tmp_path / "x.csv"
    assert "two file names" in refused(capsys, "rank", triangle, "--output", same, "--trace", same)
    assert not same.exists()


@pytest.mark.parametrize("option", ["--output", "--trace"])
def test_a_graph_is_never_replaced_by_what_is_found_of_it(capsys, tmp_path, monkeypatch, option):
    monkeypatch.chdir(tmp_path)
    Path("keep.csv").write_text("0,1\n1,0\n")
    assert "give another file name" in refused(capsys, "rank", "./keep.csv", option, tmp_path / "keep.csv")
    assert Path("keep.csv").read_text() == "0,1\n1,0\n"


def test_half_of_a_symmetric_file_and_weights_are_said(capsys, tmp_path):
    path = tmp_path / "path.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 5\n3 2 5\n")
    said = run(capsys, "rank", path)[1]
    assert "lower triangle" in said
    assert "weighted" in said
    said = run(capsys, "rank", path, "--symmetric", "expand", "--weights", "ignore")[1]
    assert "lower triangle" not in said
    assert "weighted" not in said


def test_an_exact_answer_has_a_residual_of_zero(capsys, tmp_path):
    (tmp_path / "two.txt").write_text("0 1\n1 0\n")
    out = run(capsys, "rank", tmp_path / "two.txt")[1]
    assert "residual 0 in L1, so the errors of all ranks sum to at most 2.22e-14" in out


def test_bad_graph_names_file_and_line(capsys, tmp_path):
    bad = tmp_path / "bad.mtx"
    bad.write_text(TRIANGLE.replace("2 3\n", "2 x\n"))
    error = refused(capsys, "rank", bad)
    assert "bad.mtx" in error
    assert "4" in error


def test_truncated_gzip_is_code_2(capsys, tmp_path):
    path = tmp_path / "g.mtx.gz"
    path.write_bytes(gzip.compress(TRIANGLE.encode())[:-9])
    assert "g.mtx.gz" in refused(capsys, "rank", path)


def test_unknown_command_is_code_2():
    with pytest.raises(SystemExit) as stop:
        main.main(["fly"])
    assert stop.value.code == 2


@pytest.mark.quick
@pytest.mark.parametrize("command", main.COMMANDS)
def test_help_has_an_example(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main.main([command, "--help"])
    assert stop.value.code == 0
    assert f"example: cpms {command}" in capsys.readouterr().out


def test_lists_take_names(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("CPMS_DATA", str(tmp_path))
    (tmp_path / "wiki-Vote.mtx").write_text(TRIANGLE)
    listed = {
        ("formats", "cpms4", "e6m9-scaled"): ["cpms4", "e6m9-scaled"],
        ("engines", "reference", "cpu"): ["reference", "cpu"],
        ("datasets", "STANFORD"): ["wb-cs-stanford", "Stanford"],
        ("datasets", "social"): ["wiki-Vote"],
    }
    for arguments, names in listed.items():
        code, out, _ = run(capsys, *arguments)
        assert code == 0
        assert [line.split()[0] for line in out.splitlines()[1:]] == names
    assert run(capsys, "datasets", "wiki-Vote")[1] == f"{tmp_path / 'wiki-Vote.mtx'}\n"
    assert "a part of one" in refused(capsys, "datasets", "xyzzy")
    assert "a part of one" in refused(capsys, "datasets", "")


def test_doctor_names_the_command_that_mends_each_lack(capsys, monkeypatch):
    def version(name):
        if name in ("cupy-cuda13x", "mpi4py", "scipy", "backports.zstd"):
            raise doctor.metadata.PackageNotFoundError
        return "1.0"

    monkeypatch.setattr(doctor.metadata, "version", version)
    monkeypatch.delenv("CPMS_DATA", raising=False)
    monkeypatch.setattr(doctor.shutil, "which", {}.get)
    monkeypatch.setattr(doctor.sys, "version_info", (3, 11))
    assert main.main(["doctor"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.partition("\n\n")[0].splitlines()}
    assert rows["data"].endswith("export CPMS_DATA=FOLDER")
    assert rows["mpi4py"].split(maxsplit=3)[1:] == ["not", "installed", "pip install 'cpms[mpi]'"]
    assert rows["backports.zstd"].endswith("pip install 'cpms[zst]'")
    assert rows["pdflatex"].endswith("apt-get install texlive-latex-base texlive-latex-recommended lmodern")
    assert rows["scipy"].endswith("pip install scipy")
    assert "pip" not in rows["cupy-cuda13x"] + rows["cupy-cuda12x"] + rows["numba"]  # One CuPy is enough.


def test_lists_and_doctor_run(capsys):
    for command in ("formats", "engines", "datasets", "doctor"):
        code, out, _ = run(capsys, command)
        assert code == 0
        assert len(out.splitlines()) > 3


def test_cuda_without_a_device_is_code_3(capsys, triangle):
    from cpms import engines
    from cpms.base.errors import UnavailableError

    try:
        engines.get("cuda")
    except UnavailableError:
        refused(capsys, "rank", triangle, "--engine", "cuda", code=3)
    else:
        pytest.skip("a CUDA device is here")


def test_repeated_edges_and_self_loops_are_dropped_as_asked(capsys, tmp_path):
    path = tmp_path / "twice.txt"
    path.write_text("0 1\n0 1\n1 0\n1 1\n")
    counts = []
    for options in ((), ("--duplicates", "drop"), ("--self-loops", "drop")):
        assert main.main(["rank", str(path), "--json", *options]) == 0
        counts.append(json.loads(capsys.readouterr().out)["edges"])
    assert counts == [4, 3, 3]


@pytest.mark.parametrize(
    "spec", ["foo", "copies:of=foo,count=2", "copies:of=PATH,count=2", "reordered:of=(PATH),by=degree"]
)
def test_graphs_by_name_and_within_generators_are_not_replaced_either(capsys, tmp_path, monkeypatch, spec):
    monkeypatch.setenv("CPMS_DATA", str(tmp_path))
    path = tmp_path / "foo.csv"
    path.write_text("0,1\n1,0\n")
    assert "would replace it" in refused(capsys, "rank", spec.replace("PATH", str(path)), "--output", path)
    assert path.read_text() == "0,1\n1,0\n"


def test_file_names_that_no_disk_takes_are_one_line_and_others_are_written(capsys, triangle, tmp_path):
    assert "too long" in refused(capsys, "rank", triangle, "--output", tmp_path / ("a" * 300 + ".csv"))
    code, _, _ = run(capsys, "rank", triangle, "--output", tmp_path / ("a" * 251 + ".csv"))
    assert code == 0
    assert (tmp_path / ("a" * 251 + ".csv")).read_text().startswith("node,rank")


def test_help_lists_what_can_be_run_and_shown(capsys):
    for command, name in (("run", "quickstart"), ("show", "table2")):
        with pytest.raises(SystemExit):
            main.main([command, "--help"])
        assert name in capsys.readouterr().out
