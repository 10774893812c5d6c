"""``python -m cpms.mpi``: what it reports, exit codes, and graphs that every rank loads whole."""

from __future__ import annotations

import json
import subprocess
import sys

import mpi_runs
import numpy as np
import pytest

import cpms
from cpms import Status
from cpms.backends.mpi.exchange import world
from cpms.contracts.status import Step
from cpms.mpi import __main__ as command
from cpms.mpi import solve
from cpms.precision.controllers import Level

needs_mpi = pytest.mark.skipif(world.missing() is not None, reason=str(world.missing()))


def ranked(ranks, *arguments):
    return mpi_runs.run(ranks, "-m", "cpms.mpi", *arguments)


@needs_mpi
def test_the_command_ranks_as_cpms_rank_does(files, tmp_path):
    source = next(file for file in files if file.endswith("weighted.npz"))
    answers = []
    for ranks, local in ((1, "serial"), (2, "serial"), (2, "cpu")):
        target = tmp_path / f"{ranks}_{local}.npy"
        options = ("--json", "--local", local, "--output", target, "--personalize", "3,77", "--repeat", "2")
        code, output, errors = ranked(ranks, source, *options)
        assert code == 0, errors
        report = json.loads(output)
        assert report["converged"]
        assert report["ranks"] == ranks == len(report["edges_by_rank"])
        assert sum(report["edges_by_rank"]) == report["edges"]
        assert len(report["solve_samples_s"]) == 2
        answers.append(np.load(target))
    assert (answers[0] == answers[1]).all()
    graph = cpms.load(source)
    right = cpms.pagerank(graph, engine="cpu", personalization=[3, 77], tol=1e-13).ranks
    for answer in answers:
        assert np.abs(answer - right).sum() < report["error_bound"] + 1e-12
    assert report["top"][0][0] == graph.node_id(int(np.argmax(right)))


@pytest.mark.representatives(ranks=("2",))
@needs_mpi
@pytest.mark.parametrize("ranks", [2, 3])
def test_rank_of_dangling_nodes_goes_where_it_is_told(files, tmp_path, ranks):
    source = next(file for file in files if file.endswith("plain.npz"))
    graph = cpms.load(source)
    weights = np.arange(graph.nodes) % 5.0
    np.save(tmp_path / "weights.npy", weights)
    for given_text, given in (("7,12", [7, 12]), (tmp_path / "weights.npy", weights)):
        target = tmp_path / "ranks.npy"
        code, output, errors = ranked(ranks, source, "--json", "--output", target, "--dangling", given_text)
        assert code == 0, errors
        assert json.loads(output)["converged"]
        right = cpms.pagerank(graph, engine="reference", dangling=given, tol=1e-13).ranks
        assert np.abs(np.load(target) - right).sum() < json.loads(output)["error_bound"] + 1e-12
    code, _, errors = ranked(ranks, source, "--dangling", "no such node")
    assert (code, "Traceback" in errors) == (2, False)


@needs_mpi
def test_the_report_names_the_graph_that_a_stand_in_replaces(files):
    source = next(file for file in files if file.endswith("standin.npz"))
    code, output, errors = ranked(1, source, "--json")
    assert code == 0, errors
    assert json.loads(output)["stand_in_for"] == "europe_osm"
    assert " (stand-in for europe_osm): 4,096 nodes" in ranked(2, source)[1]


@needs_mpi
@pytest.mark.parametrize("found", [np.nan, np.inf, 3.0])
def test_an_answer_that_is_no_distribution_is_reported_as_such(monkeypatch, capsys, found):
    history = [Step(1, 0.0, Level(1, 1), 64, 64, 1.0, 0.1)]
    monkeypatch.setattr(solve, "power", lambda _, first, *__, **___: (found * first, Status.CONVERGED, history))
    monkeypatch.setattr(sys, "argv", ["cpms.mpi", "uniform:nodes=50,edges=300", "--json"])
    assert command.main() == 1
    report = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (report["status"], report["residual_l1"], report["error_bound"]) == (Status.NON_FINITE.value, None, None)
    monkeypatch.setattr(sys, "argv", sys.argv[:-1])
    command.main()
    assert "None" not in capsys.readouterr().out


@needs_mpi
@pytest.mark.parametrize(("option", "least"), [("--threads", 1), ("--repeat", 1), ("--top", 0)])
def test_counts_that_are_too_small_are_refused(monkeypatch, capsys, option, least):
    monkeypatch.setattr(sys, "argv", ["cpms.mpi", "uniform:nodes=50,edges=300", option, str(least - 1)])
    assert command.main() == 2
    assert f"{option} is {least - 1}; it must be {least} or more" in capsys.readouterr().err


@needs_mpi
def test_exit_codes_of_two_ranks():
    assert ranked(2, "uniform:scale=8", "--max-iterations", "2")[0] == 1
    code, _, errors = ranked(2, "missing.txt")
    assert code == 2
    assert errors.count("no such file") == 1
    code, _, errors = ranked(2, "uniform:scale=8", "--damping", "2")
    assert code == 2
    assert "damping is 2.0" in errors
    code, _, errors = ranked(1, "uniform:scale=8", "--personalize", "")
    assert code == 2
    assert "node '' is not in" in errors


def test_without_mpi_the_command_exits_with_3(tmp_path):
    (tmp_path / "mpi4py.py").write_text("raise ImportError('none')\n")
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); import runpy; runpy.run_module('cpms.mpi', None, '__main__', True)"  # fmt: skip  # noqa: E501
    done = subprocess.run([sys.executable, "-c", program, tmp_path, "uniform:scale=4"], capture_output=True, text=True)
    assert done.returncode == 3
    assert "cpms[mpi]" in done.stderr


@needs_mpi
def test_the_whole_graph_is_loaded_as_asked(tmp_path):
    path = tmp_path / "gap.txt"
    path.write_text("0 9 0\n9 0 1\n")
    code, output, errors = ranked(2, path, "--whole", "--weights", "ignore", "--ids", "compact", "--json")
    assert code == 0, errors
    assert json.loads(output)["nodes"] == 2
    code, _, errors = ranked(2, path, "--weights", "ignore")
    assert code == 2
    assert "--weights ignore: ranks that read shares take files as they are; add --whole" in errors


@needs_mpi
def test_more_nodes_than_ranks_of_a_host_have_room_for_are_refused(tmp_path):
    path = tmp_path / "gap.txt"
    path.write_text(f"0 {10**15}\n")
    code, _, errors = ranked(2, path)
    assert code == 2
    assert "gap: 1,000,000,000,000,001 nodes, of which each of 2 ranks keeps sums, needs" in errors
    assert "--whole --ids compact" in errors
