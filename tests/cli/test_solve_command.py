"""The command ``cpms solve``: reports, files, exit codes."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from cpms.cli.main import main

A = scipy.sparse.diags_array([-1.0, 3.0, -1.0], offsets=[-1, 0, 1], shape=(30, 30))


def test_it_solves_files_and_writes_what_is_asked(tmp_path, capsys):
    scipy.io.mmwrite(tmp_path / "a.mtx", A)
    b = np.arange(1.0, 31.0)
    np.savetxt(tmp_path / "b.txt", b)
    options = ["--json", "--engine", "cpu", "--output", str(tmp_path / "x.npy"), "--trace", str(tmp_path / "t.csv")]
    assert main(["solve", str(tmp_path / "a.mtx"), str(tmp_path / "b.txt"), *options]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["converged"]
    assert report["residual"] <= 1e-10
    np.testing.assert_allclose(A @ np.load(tmp_path / "x.npy"), b, rtol=1e-8)
    assert (tmp_path / "t.csv").read_text().startswith("iteration,residual,bits")


def test_the_preconditioner_that_auto_takes_is_reported(tmp_path, capsys):
    scale = scipy.sparse.diags_array(np.geomspace(1.0, 10.0, 30))
    scipy.sparse.save_npz(tmp_path / "a.npz", scipy.sparse.csr_array(scale @ A @ scale))
    assert main(["solve", str(tmp_path / "a.npz"), "--engine", "cpu", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["preconditioner"], report["preconditioner_storage"]) == ("jacobi", "fp64")
    assert "preconditioner jacobi: the largest diagonal entry is 1e+02 times" in report["reason"]
    assert main(["solve", str(tmp_path / "a.npz"), "--engine", "cpu"]) == 0
    assert "preconditioner jacobi in fp64" in capsys.readouterr().out
    assert main(["solve", "stencil:points=5,side=9", "--engine", "cpu"]) == 0
    assert "preconditioner" not in capsys.readouterr().out


def test_a_solve_begins_where_another_one_ended_and_bounds_its_error(tmp_path, capsys):
    scipy.io.mmwrite(tmp_path / "a.mtx", A)
    exact, smallest = np.arange(1.0, 31.0), float(np.linalg.eigvalsh(A.toarray())[0]) * (1 - 1e-12)
    np.save(tmp_path / "b.npy", A @ exact)
    system = ["solve", str(tmp_path / "a.mtx"), str(tmp_path / "b.npy"), "--engine", "cpu", "--json"]
    inner = ["--method", "refine", "--inner", "gmres", "--restart", "5", "--layout", "sell"]
    assert main([*system, *inner, "--tol", "1e-6", "--output", str(tmp_path / "x.npy")]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["method"] == "refine with gmres"
    assert first["error_bound"] is None
    bounded = ["--start", str(tmp_path / "x.npy"), "--smallest-eigenvalue", str(smallest)]
    assert main([*system, "--tol", "1e-6", *bounded]) == 0
    second = json.loads(capsys.readouterr().out)
    assert (second["iterations"], second["residual"]) == (0, first["residual"])
    assert np.linalg.norm(np.load(tmp_path / "x.npy") - exact) <= second["error_bound"] < 1e-3
    assert main([each for each in [*system, "--tol", "1e-6", *bounded] if each != "--json"]) == 0
    assert f"error of x at most {second['error_bound']:.3g} in the 2-norm" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--block", "0", "--preconditioner", "block_jacobi"], "block is 0"),
        (["--restart", "0", "--method", "gmres"], "restart is 0"),
        (["--layout", "cst"], "layout 'cst' is not known; did you mean csr"),
        (["--read", "9"], "e4m3 has 1 segment; 9 of them cannot be read"),
        (["--smallest-eigenvalue", "9"], "smallest_eigenvalue is 9.0"),
        (["--start", "none.npy"], "none.npy: cannot be read"),
    ],
)
def test_options_out_of_range_are_a_line(options, sentence, capsys):
    assert main(["solve", "stencil:points=5,side=3", "--engine", "cpu", *options]) == 2
    assert sentence in capsys.readouterr().err


def test_what_is_not_certified_ends_with_1(capsys):
    command = ["solve", "stencil:points=5,side=9", "--engine", "cpu", "--max-iterations", "2", "--vectors", "fp16,fp32"]
    assert main(command) == 1
    assert "not converged within max_iterations" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no.mtx", "no.mtx: there is no such file"),
        ("stencil:points=6,side=3", "it can have 5, 9, 7, 27"),
        ("stencl:points=5,side=3", "'stencl' is not known; did you mean stencil"),
    ],
)
def test_matrices_that_are_not_there_are_a_line(name, sentence, capsys):
    assert main(["solve", name]) == 2
    assert sentence in (err := capsys.readouterr().err)
    assert "Traceback" not in err


def test_right_hand_sides_that_are_none_are_a_line(tmp_path, capsys):
    (tmp_path / "b.txt").write_text("one\n")
    assert main(["solve", "stencil:points=5,side=3", str(tmp_path / "b.txt")]) == 2
    assert "holds no vector" in capsys.readouterr().err


@pytest.mark.parametrize(("cut", "reason"), [(12, "ended before the end-of-stream"), (40, "invalid")])
def test_broken_compressions_of_right_hand_sides_are_a_line(cut, reason, tmp_path, capsys):
    whole = gzip.compress(b"%%MatrixMarket matrix array real general\n9 1\n" + b"1.0\n" * 9)
    broken = whole[:-cut] if cut == 12 else whole[:20] + b"\x00\xff\x13\x55" + whole[24:]
    (tmp_path / "b.mtx.gz").write_bytes(broken)
    assert main(["solve", "stencil:points=5,side=3", str(tmp_path / "b.mtx.gz")]) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path / 'b.mtx.gz'}: holds no vector" in error
    assert reason in error


@pytest.mark.parametrize("shape", ["(0,)", "(9, 2)", "empty"])
def test_files_of_no_or_several_right_hand_sides_are_a_line(shape, tmp_path, capsys):
    path = tmp_path / "b.npy"
    if shape == "empty":
        path.write_bytes(b"")
    else:
        np.save(path, np.ones(tuple(int(each) for each in shape.strip("(),").split(","))))
    assert main(["solve", "stencil:points=5,side=3", str(path)]) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert {"(0,)": "needs (9,)", "(9, 2)": "holds 2 columns", "empty": "holds no vector (No data"}[shape] in error


def test_an_empty_text_is_a_line_without_a_warning(tmp_path, capsys):
    (tmp_path / "b.txt").write_text("")
    assert main(["solve", "stencil:points=5,side=3", str(tmp_path / "b.txt")]) == 2
    assert "needs (9,)" in capsys.readouterr().err


def test_files_that_are_read_are_not_replaced(tmp_path, capsys):
    rhs = tmp_path / "b.npy"
    np.save(rhs, np.ones(9))
    assert main(["solve", "stencil:points=5,side=3", str(rhs), "--output", str(rhs)]) == 2
    assert f"{rhs}: is read, and --output would replace it" in capsys.readouterr().err
    assert np.load(rhs).tolist() == [1.0] * 9
    assert main(["solve", "stencil:points=5,side=3", "--start", str(rhs), "--output", str(rhs)]) == 2
    assert np.load(rhs).tolist() == [1.0] * 9
    weights, graph = tmp_path / "w.npy", "grid:rows=2,columns=2"
    np.save(weights, np.ones(4))
    assert main(["rank", graph, "--dangling", str(weights), "--output", str(weights)]) == 2
    assert np.load(weights).tolist() == [1.0] * 4
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n")
    assert main(["report", str(rows), "--output", str(rows)]) == 2
    assert rows.read_text() == "{}\n"
    assert capsys.readouterr().err.count("is read, and --output would replace it") == 3
