"""Ranks: the same bits for any number of them, even shares, and an end for all when one fails."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time

import mpi_runs
import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, InputError, UnavailableError, UnsupportedError, check, engines
from cpms.backends.mpi.exchange import world
from cpms.backends.mpi.shares import rows
from cpms.engines.mpi import LOCAL, MpiEngine, local_engine
from cpms.formats.formats import FP64, format_named
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem
from cpms.sparse.sliced import BLOCK_ROWS
from cpms.testing import distributions, graphs

needs_mpi = pytest.mark.skipif(world.missing() is not None, reason=str(world.missing()))

LARGE = Problem(cpms.load("rmat:scale=10,edge_factor=6,seed=2"))

SWEEPS = """
import sys
from dataclasses import replace
import numpy as np
import cpms
from cpms import check
from cpms.problems.pagerank import Problem
from cpms.engines.mpi import MpiEngine
from cpms.formats.formats import FP64
from cpms.backends.mpi.exchange.world import world
from cpms.precision.controllers import Level

random = np.random.default_rng(5)
large = cpms.load("rmat:scale=13,edge_factor=2,seed=2")
teleport = random.random(large.nodes)
weighted = cpms.Graph(large.indptr, large.sources, random.random(large.edges) + 0.1)
problems = {
    "tiny": Problem(cpms.Graph.from_edges([0, 1], [1, 2])),
    "large": Problem(large),
    "personalised": Problem(large, 0.7, teleport / teleport.sum(), "uniform"),
    "weighted": Problem(weighted),
    "hub": Problem(cpms.Graph.from_edges(np.arange(1, 9000), np.zeros(8999, int))),
    "own dangling": Problem(large, 0.8, None, teleport / teleport.sum()),
}
kept = {}
for local in ("cpu", "serial", "scipy"):
    engine = MpiEngine(local)
    for name, problem in problems.items():
        for layout in engine.layouts:
            if engine.unsupported(problem, FP64, layout):
                continue
            check.sweeps_agree(engine, problem, FP64, layout, Level(1, 1))
            # The reference for all is one piece; ranks that share no memory use more.
            operator = engine.prepare(problem, FP64, layout)
            operator = replace(operator, parts=world().size if operator.product.in_parts else 1)
            x, out = operator.load(np.full(problem.graph.nodes, 1 / problem.graph.nodes)), operator.empty()
            for step in range(10):
                found = operator.sweep(x, out, Level(1, 1), step)
                x, out = out, x
            kept[f"{local} {name} {layout}"] = operator.read(x, 1)
            kept[f"{local} {name} {layout} found"] = np.array(found)
np.savez(f"{sys.argv[1]}/ranks{world().size}_{world().rank}.npz", **kept)
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Vectors and norms after ten sweeps, as one rank has them and each of three, whose shares are uneven."""
    folder = tmp_path_factory.mktemp("swept")
    for ranks in (1, 3):
        code, _, errors = mpi_runs.run(ranks, "-c", SWEEPS, folder)
        assert code == 0, errors
    return {path.stem: np.load(path) for path in folder.glob("*.npz")}


@needs_mpi
def test_any_number_of_ranks_gives_the_same_bits_on_every_rank(swept):
    assert len(swept) == 4
    alone = swept["ranks1_0"]
    assert len(alone.files) == 3 * 2 * 11
    for name, found in swept.items():
        for key in alone.files:
            assert found[key].tobytes() == alone[key].tobytes(), (name, key)


@needs_mpi
@pytest.mark.parametrize("layout", ["csr", "pattern"])
@given(graph=graphs(), data=st.data())
@settings(max_examples=40)
def test_one_rank_agrees_with_the_reference_on_any_graph(layout, graph, data):
    teleport = data.draw(st.none() | distributions(graph.nodes))
    rule = data.draw(st.sampled_from(["teleport", "uniform"]))
    problem = Problem(graph, data.draw(st.floats(0.01, 0.99)), teleport, rule)
    engine = MpiEngine(data.draw(st.sampled_from(["cpu", "serial", "scipy", "reference"])))
    if engine.unsupported(problem, FP64, layout) is None:
        check.sweeps_agree(engine, problem, FP64, layout, Level(1, 1))


# Shares


@given(st.integers(1, 9), st.integers(1, 20 * BLOCK_ROWS), st.data())
def test_cuts_cover_the_rows_at_blocks_and_are_even_to_half_a_block_on_each_side(ranks, nodes, data):
    blocks = -(-nodes // BLOCK_ROWS)
    edges = np.array(data.draw(st.lists(st.integers(0, 10**6), min_size=blocks, max_size=blocks)))
    bounds = rows.cut(edges, nodes, ranks)
    assert len(bounds) == ranks + 1
    assert bounds[0] == 0
    assert bounds[-1] == nodes
    assert (np.diff(bounds) >= 0).all()
    assert ((bounds % BLOCK_ROWS == 0) | (bounds == nodes)).all()
    starts = np.arange(0, nodes, BLOCK_ROWS)
    cost = edges + rows._ROW_COST * np.diff(np.append(starts, nodes))
    held = [cost[(starts >= low) & (starts < high)].sum() for low, high in itertools.pairwise(bounds)]
    assert (np.abs(np.array(held) - cost.sum() / ranks) <= cost.max() + 1).all()


@pytest.mark.quick
@given(graphs(), st.integers(1, 4))
def test_shares_are_the_graph(graph, ranks):
    shares = [rows.of_graph(graph, rank, ranks) for rank in range(ranks)]
    assert sum(share.edges for share in shares) == graph.edges
    assert np.concatenate([share.sources for share in shares]).tolist() == graph.sources.tolist()
    for share in shares:
        assert (share.in_degree[share.low : share.high] == graph.in_degree[share.low : share.high]).all()
        assert share.in_degree.sum() == share.edges
        assert (share.out_weight == graph.out_weight).all()


def test_products_are_made_by_engines_that_can():
    with pytest.raises(InputError, match=r"cpu, cpu_composed, cuda, .*, scipy, serial"):
        local_engine("mpi")


@needs_mpi
@pytest.mark.parametrize("local", [name for name in LOCAL if name not in ("cpu", "serial", "cuda", "reference")])
def test_ranks_multiply_by_any_engine(local):
    if (lacks := engines.get_any(local).missing()) is not None:
        with pytest.raises(UnavailableError, match=re.escape(lacks)):
            MpiEngine(local).prepare(LARGE, FP64, "csr")
        return
    check.sweeps_agree(MpiEngine(local), LARGE, FP64, "csr", Level(1, 1))


@needs_mpi
@pytest.mark.parametrize("name", ["cpms2", "fp32", "fp16-scaled"])
def test_other_formats_are_refused(name):
    with pytest.raises(UnsupportedError, match="stores fp64, not"):
        engines.get("mpi").prepare(Problem(Graph.from_edges([0], [1])), format_named(name), "csr")


# Faults

SOLVE = """
import os
import sys
import time
import cpms
from cpms.backends.mpi.exchange.world import world

def say(*words):
    # A line in one write: those of two ranks meet in one pipe.
    sys.stdout.write(" ".join(map(str, words)) + chr(10))
    sys.stdout.flush()

def at_step(step):
    if step.iteration == 20:
        say(world().rank, "at 20")
        {fault}

cpms.pagerank(cpms.load("rmat:scale=11,edge_factor=8,seed=1"), engine="mpi", iterations=10**6, on_step=at_step)
"""


@pytest.mark.quick
@needs_mpi
def test_an_exception_on_one_rank_ends_all():
    # What a rank says as it aborts may be lost on its way, so this one says so before.
    fault = "if world().rank == 1: say('a fault of one rank'); time.sleep(1); raise RuntimeError"
    code, output, _ = mpi_runs.run(2, "-c", SOLVE.format(fault=fault), timeout=60)
    assert code != 0
    assert "a fault of one rank" in output


def solves(pid):
    """Return whether that process of cpms is still at work; one that has ended may wait for its parent."""
    try:
        return "cpms" in str(psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:
        return False


@needs_mpi
@pytest.mark.parametrize("victim", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_rank_killed_mid_solve_ends_all(victim):
    fault = "say('pid', os.getpid())"
    process = mpi_runs.start(2, "-c", SOLVE.format(fault=fault))
    try:
        seen = [process.stdout.readline() for _ in range(4)]
        pids = sorted(int(line.split()[1]) for line in seen if line.startswith("pid"))
        assert len(pids) == 2
        began = time.perf_counter()
        os.kill(pids[victim], signal.SIGKILL)
        process.communicate(timeout=30)
        assert time.perf_counter() - began < 30
        assert process.returncode != 0
        assert not any(map(solves, pids))
    finally:
        process.kill()


def test_without_mpi4py_the_engine_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(UnavailableError, match=r"cpms\[mpi\]"):
        engines.get("mpi")


def test_without_an_mpi_library_the_engine_says_so(monkeypatch, tmp_path):
    package = tmp_path / "mpi4py"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "MPI.py").write_text("raise RuntimeError('cannot load MPI library')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "mpi4py"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UnavailableError, match="finds no MPI library"):
        engines.get("mpi")


@pytest.mark.representatives(variable=("PMI_SIZE",))
@needs_mpi
@pytest.mark.parametrize("variable", ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE"])
def test_ranks_that_another_mpi_started_are_not_taken_for_one(variable):
    # Alone, as a rank is whose MPI library does not know the launcher that started it.
    command = [sys.executable, "-m", "cpms.mpi", "uniform:nodes=20,edges=40", "--threads", "1"]
    ended = subprocess.run(command, env={**os.environ, variable: "3"}, capture_output=True, text=True, check=False)
    assert ended.returncode == 3
    assert "mpiexec started 3 ranks, but mpi4py uses another MPI library" in ended.stderr
    assert "Traceback" not in ended.stderr


@needs_mpi
def test_launchers_that_say_nothing_are_no_launchers(monkeypatch):
    for said in ("", "many"):
        monkeypatch.setenv("PMI_SIZE", said)
        assert world.missing() is None


@pytest.mark.representatives(local=("cpu",))
@needs_mpi
@pytest.mark.parametrize(("local", "asked", "used"), [("scipy", "auto", "csr"), ("cpu", "auto", "pattern")])
def test_ranks_say_which_layout_they_use(local, asked, used):
    options = ("--engine", local, "--layout", asked, "--threads", "1", "--json")
    code, output, errors = mpi_runs.run(2, "-m", "cpms.mpi", "uniform:nodes=20,edges=40", *options)
    assert code == 0, errors
    assert json.loads(output)["layout"] == used


@needs_mpi
def test_one_rank_solves_in_process():
    result = cpms.pagerank(cpms.load("weblike:nodes=3000,edges=9000"), engine="mpi", tol=1e-12)
    assert result.converged
    check.answer_is_certified(result)
