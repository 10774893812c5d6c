"""Ranks with a device each: emulated on this machine, where MPI carries their vectors, and on GPUs, where NCCL does."""

from __future__ import annotations

import json
import os
import signal
import time
from types import SimpleNamespace

import kernel_catalogue
import mpi_runs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, UnsupportedError, check
from cpms.backends.cuda.kernels import template
from cpms.backends.cuda.runtime import current
from cpms.backends.cuda.runtime.compile import missing
from cpms.backends.mpi.exchange import world
from cpms.backends.mpi.exchange.halo import foreign
from cpms.backends.mpi.shares.rows import of_graph
from cpms.backends.mpi.sweeps.device_rows import DeviceRows
from cpms.contracts.stopping import Stopping
from cpms.engines import cpu, mpi_cuda
from cpms.formats.formats import FP64, format_named
from cpms.formats.quantization import quantiser
from cpms.precision.anderson import DEPTH
from cpms.precision.controllers import Fixed, Level
from cpms.problems.pagerank import Problem
from cpms.solvers.power import power
from cpms.testing import distributions, graphs

needs_mpi = pytest.mark.skipif(world.missing() is not None, reason=str(world.missing()))
FORMATS = [quantiser(format_named(name)) for name in ("fp16", "e5m2")]
VARIANTS = [variant for personal in (False, True) for variant in kernel_catalogue.ranks(FORMATS, personal=personal)]

WHERE = """
import sys
from contextlib import ExitStack
from pathlib import Path
import kernel_catalogue
from cpms.backends.cuda.kernels import template
from cpms.backends.cuda.runtime.current import using
from cpms.backends.cuda.runtime.host_emulation import HostBackend
from cpms.formats.formats import format_named
from cpms.formats.quantization import quantiser

where, folder, *sys.argv[1:] = sys.argv[1:]
emulation = ExitStack()  # until the end
if where == "host":
    host = emulation.enter_context(using(HostBackend(Path(folder))))
    formats = [quantiser(format_named(name)) for name in ("fp16", "e5m2")]
    # All at once, as they were built before: for what is not there, ranks would wait.
    kernels = [v for personal in (False, True) for v in kernel_catalogue.ranks(formats, personal=personal)]
    host.compile([*template.PADDED_CSR, *kernels])
"""

PROBLEMS = """
import numpy as np
import cpms
from cpms.problems.pagerank import Problem

random = np.random.default_rng(5)
large = cpms.load("rmat:scale=12,edge_factor=2,seed=2")
teleport = random.random(large.nodes)
problems = {
    "one node": Problem(cpms.Graph.from_edges([], [], nodes=1)),
    "tiny": Problem(cpms.Graph.from_edges([0, 1], [1, 2])),
    "no edges": Problem(cpms.Graph.from_edges([], [], nodes=2500)),
    "large": Problem(large),
    "personalised": Problem(large, 0.7, teleport / teleport.sum(), "uniform"),
    "hub": Problem(cpms.Graph.from_edges(np.arange(1, 4500), np.zeros(4499, int))),
    "slow": Problem(cpms.load("weblike:nodes=4500,edges=12000,reach=2")),
    "own dangling": Problem(large, 0.8, None, teleport / teleport.sum()),
}
"""

SOLVE = """
from cpms import check, format_named
from cpms.engines import mpi_cuda
from cpms.precision.anderson import DEPTH
from cpms.formats.formats import FP64
from cpms.backends.mpi.exchange.world import world
from cpms.solvers.power import power
from cpms.precision.controllers import Fixed, Level
from cpms.formats.quantization import quantiser
from cpms.precision.refinement_policy import FixedReduction
from cpms.solvers.refine import outer_iteration
from cpms.contracts.refinement import OuterRequest
from cpms.contracts.stopping import Stopping

kept = {}
for name, problem in problems.items():
    first = np.full(problem.graph.nodes, 1 / problem.graph.nodes)
    check.sweeps_agree(mpi_cuda.ENGINE, problem, FP64, "pattern", Level(1, 1))
    operator = mpi_cuda.ENGINE.prepare(problem, FP64, "pattern")
    for again in ("", " again"):
        ranks, _, history = power(operator, first, Fixed(), Stopping(iterations=12))
        kept[f"power {name}{again}"] = ranks
        kept[f"power {name} history{again}"] = np.array([step.residual for step in history])
    ranks, status, history = power(operator, first, Fixed(), Stopping(1e-12))
    kept[f"power {name} to 1e-12"], kept[f"power {name} sweeps"] = ranks, np.array([len(history)])
    assert status.name == "CONVERGED"
    refinement = mpi_cuda.ENGINE.refinement(problem)
    for text in ("fp16", "e5m2"):
        check.refinement_is_sound(mpi_cuda.ENGINE, problem, quantiser(format_named(text)), low=4)
    policy = FixedReduction(quantiser(format_named("fp16")))
    for again in ("", " again"):
        ranks, status, history = outer_iteration(refinement, first, policy, Stopping(1e-12))
        assert status.name == "CONVERGED"
        kept[f"refine {name}{again}"] = ranks
        kept[f"refine {name} history{again}"] = np.array([step.residual for step in history])
    if name == "slow":
        for refinement.anderson in (True, False):
            _, _, history = outer_iteration(refinement, first, policy, Stopping(1e-9))
            kept[f"sweeps {refinement.anderson}"] = np.array([len(history)])
        refinement.anderson = True
        refinement.start(first)
        asked = {"inner_reduction": 1e-9, "noise_tolerance": 0.0, "tol": 1e-13, "norm": "l1", "most": 2 * DEPTH + 3}
        found = refinement.outer_steps(quantiser(format_named("fp16")), OuterRequest(**asked))[0]
        kept["low"], kept["sums"] = np.array(found.inner_l1), np.array(found.sums[1:]) / found.inner_l1
np.savez(f"{sys.argv[1]}/ranks{world().size}_{world().rank}.npz", **kept)
"""


@pytest.fixture(scope="module")
def kernels(request):
    return mpi_runs.kernels_on_host(request, [*template.PADDED_CSR, *VARIANTS])


@pytest.fixture(scope="module")
def staged_kernels(request, kernels):
    mpi_runs.kernels_on_host(request, kernel_catalogue.ranks_in_shared_memory(FORMATS[:1]))
    return kernels


@pytest.fixture(
    scope="module",
    params=[pytest.param("host", marks=pytest.mark.slow), pytest.param("gpu", marks=pytest.mark.gpu)],
)
def solved(request, tmp_path_factory):
    """Answers of one and of three ranks, as each of them has them; on GPUs of as many as there are."""
    folder, kernels, counts = tmp_path_factory.mktemp("solved"), "-", [1, 3]
    if request.param == "host":
        kernels = request.getfixturevalue("kernels")
    else:
        request.getfixturevalue("gpu_backend")
        counts = [count for count in (1, 2, 3, 4) if count <= mpi_runs.devices()]
    for ranks in counts:  # the third has no rows of most of these graphs
        code, _, errors = mpi_runs.run(ranks, "-c", WHERE + PROBLEMS + SOLVE, request.param, kernels, folder)
        assert code == 0, errors
    return {path.stem: dict(np.load(path)) for path in folder.glob("*.npz")}


def test_ranks_find_the_same_bits_and_find_them_again(solved):
    assert len(solved) in (1, 3, 4, 6, 10)
    for name, found in solved.items():
        first = solved[name.split("_")[0] + "_0"]
        for key, values in found.items():
            assert values.tobytes() == first[key].tobytes(), (name, key)
            if key.endswith(" again"):
                assert values.tobytes() == found[key.removesuffix(" again")].tobytes(), (name, key)


def test_any_number_of_ranks_gives_the_answers_of_engine_cpu(solved):
    known = {}
    exec(PROBLEMS, known)  # noqa: S102
    for name, problem in known["problems"].items():
        operator = cpu.ENGINE.prepare(problem, FP64, "pattern")
        first = np.full(problem.graph.nodes, 1 / problem.graph.nodes)
        ranks, _, history = power(operator, first, Fixed(), Stopping(iterations=12))
        # Engine cpu adds up a row in one go.
        allowed = 1e-14 + 2.0**-53 * int(problem.graph.in_degree.max())
        for found in solved.values():
            assert np.abs(at_mass_one(found[f"power {name}"]) - at_mass_one(ranks)).sum() < allowed
            residuals = [step.residual for step in history]
            np.testing.assert_allclose(found[f"power {name} history"], residuals, rtol=1e-9, atol=1e-13)
        exact, _, history = power(operator, first, Fixed(), Stopping(1e-12))
        bound = 2e-12 * problem.damping / (1 - problem.damping)
        for found in solved.values():
            away = np.abs(at_mass_one(found[f"power {name} to 1e-12"]) - at_mass_one(exact)).sum()
            assert away < allowed / (1 - problem.damping)
            assert abs(found[f"power {name} sweeps"][0] - len(history)) <= 1
            assert np.abs(at_mass_one(found[f"refine {name}"]) - at_mass_one(exact)).sum() < bound


def test_ranks_combine_what_low_sweeps_found(solved):
    for found in solved.values():
        assert found["sweeps True"][0] <= 0.8 * found["sweeps False"][0]
        assert len(found["low"]) == 2 * DEPTH + 2
        # Sums in another order: a value that lies between two of Q's may go either way.
        np.testing.assert_allclose(found["low"], solved["ranks1_0"]["low"], rtol=1e-3)
        np.testing.assert_allclose(found["sums"], solved["ranks1_0"]["sums"], atol=1e-6)


def at_mass_one(ranks):
    return ranks / ranks.sum()


few = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@needs_mpi
@pytest.mark.parametrize("where", ["host", pytest.param("gpu", marks=pytest.mark.gpu)])
@given(graph=graphs(weighted=False), data=st.data())
@few
def test_one_rank_is_sound_on_any_graph(request, where, graph, data):
    if where == "host":
        request.getfixturevalue("kernels")  # All at once: one by one they take longer.
    with current.using(request.getfixturevalue(f"{where}_backend")):
        teleport = data.draw(st.none() | distributions(graph.nodes))
        rule = data.draw(st.sampled_from(["teleport", "uniform"]))
        problem = Problem(graph, data.draw(st.floats(0.01, 0.99)), teleport, rule)
        check.sweeps_agree(mpi_cuda.ENGINE, problem, FP64, "pattern", Level(1, 1))
        check.refinement_is_sound(mpi_cuda.ENGINE, problem, data.draw(st.sampled_from(FORMATS)))


@needs_mpi
def test_what_engine_mpi_cuda_cannot_do_is_said(host_backend, monkeypatch):
    weighted = Graph.from_edges([0], [1], [2.0])
    with current.using(host_backend):
        for storage, layout in ((format_named("cpms2"), "pattern"), (FP64, "csr")):
            with pytest.raises(UnsupportedError):
                mpi_cuda.ENGINE.prepare(Problem(Graph.from_edges([0], [1])), storage, layout)
        with pytest.raises(UnsupportedError, match="weights"):
            mpi_cuda.ENGINE.refinement(Problem(weighted))
        monkeypatch.setattr(type(host_backend), "free_bytes", lambda _: 1000)
        with pytest.raises(UnsupportedError, match="use more GPUs"):
            mpi_cuda.ENGINE.refinement(Problem(cpms.load("uniform:scale=10")))


def test_shares_of_graphs_whose_nodes_32_bits_do_not_number_are_refused():
    rows = SimpleNamespace(name="huge", nodes=2**31, weights=None)
    with pytest.raises(UnsupportedError, match=r"below 2\^31; huge has 2,147,483,648 nodes; use --local cpu"):
        DeviceRows(Problem(Graph.from_edges([0], [1])), rows, transport=None, value_bytes=8)


ANSWERS = """
from cpms.backends.cuda.persistent.strategies import StrategyRequest
from cpms.backends.mpi.exchange.transport import between
from cpms.backends.mpi.exchange.world import world
from cpms.backends.mpi.shares.rows import of_graph
from cpms.backends.mpi.sweeps import device_choice, device_rows
from cpms.contracts.stopping import Stopping
from cpms.precision.controllers import Fixed
from cpms.precision.refinement_policy import default_policy
from cpms.solvers.power import power
from cpms.solvers.refine import outer_iteration

me = world()
folder, *required = sys.argv[1:]
device_rows._REQUEST = StrategyRequest(hub_cache=False, in_cache=False, **dict.fromkeys(required, True))
kept = {}
# What takes long is solved by two ranks in tests of exchanges.
plain = ("own dangling", "tiny", *(["slow"] if me.size > 2 else []))
for name in ("slow", "large", "no edges") if required else plain:
    problem = problems[name]
    rows, first = of_graph(problem.graph, me.rank, me.size), np.full(problem.graph.nodes, 1 / problem.graph.nodes)
    operator, _ = device_choice.power_operator(problem, rows, between(me))
    refinement, _ = device_choice.refinement(problem, rows, between(me))
    policy = default_policy(quantiser(format_named("fp16")))
    for again in ("", " again"):
        ranks, status, _ = power(operator, first, Fixed(), Stopping(1e-11))
        assert status.name == "CONVERGED"
        kept[f"{name} power{again}"] = ranks
        ranks, status, _ = outer_iteration(refinement, first, policy, Stopping(1e-11))
        assert status.name == "CONVERGED"
        kept[f"{name} refine{again}"] = ranks
np.savez(f"{folder}/{me.rank}.npz", **kept)
"""
STAGED = ["propagation_blocking", "tiled_gather", "error_feedback"]


@pytest.mark.parametrize("where", ["host", pytest.param("gpu", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    ("required", "ranks"),
    [
        (None, 2),
        *(pytest.param(name, 2, marks=pytest.mark.slow) for name in STAGED),
        *(pytest.param(name, 3, marks=pytest.mark.slow) for name in (None, STAGED[0])),
    ],
)
def test_kernels_that_exchange_find_the_answers_of_the_reference(request, tmp_path, where, required, ranks):
    kernels = request.getfixturevalue("kernels" if required is None else "staged_kernels") if where == "host" else "-"
    if where == "gpu" and mpi_runs.devices() < ranks:
        pytest.skip(f"there are fewer than {ranks} devices")
    given_options = [] if required is None else [required]
    code, _, errors = mpi_runs.run(ranks, "-c", WHERE + PROBLEMS + ANSWERS, where, kernels, tmp_path, *given_options)
    assert code == 0, errors
    known = {}
    exec(PROBLEMS, known)  # noqa: S102
    found = [dict(np.load(path)) for path in sorted(tmp_path.glob("*.npz"))]
    assert len(found) == ranks
    for key, values in found[0].items():
        problem = known["problems"][key.split(" power")[0].split(" refine")[0]]
        operator = cpu.ENGINE.prepare(problem, FP64, "pattern")
        exact, _, _ = power(operator, np.full(len(values), 1 / len(values)), Fixed(), Stopping(1e-14))
        bound = 1e-11 * problem.damping / (1 - problem.damping)
        assert np.abs(at_mass_one(values) - at_mass_one(exact)).sum() < bound + 1e-13, key
        assert values.tobytes() == found[0][key.removesuffix(" again")].tobytes(), key
        assert all(other[key].tobytes() == values.tobytes() for other in found), key


# The command line

MAIN = """
from cpms.mpi.__main__ import main
sys.exit(main())
"""


def started(kernels, ranks, *arguments, where="host"):
    return mpi_runs.run(ranks, "-c", WHERE + MAIN, where, kernels, *arguments)


@pytest.mark.representatives(method=("refine",))
@pytest.mark.parametrize("method", ["power", "refine"])
def test_each_rank_reads_its_share_and_all_give_one_answer(kernels, tmp_path, method):
    graph = "uniform:nodes=6000,edges=20000,seed=3"
    options = ("--engine", "cuda", "--method", method, "--json", "--output", tmp_path / "ranks.npy")
    code, output, errors = started(kernels, 2, graph, *options)
    assert code == 0, errors
    report = json.loads(output)
    assert report["method"] == method
    assert report["storage"] == {"power": "fp64", "refine": "fp16"}[method]
    assert min(report["edges_by_rank"]) > 9000
    expected = cpms.pagerank(cpms.load(graph), engine="cpu", tol=1e-13).ranks
    assert np.abs(np.load(tmp_path / "ranks.npy") - expected).sum() <= report["error_bound"] + 1e-12
    sweeps = {int(bits): count for bits, count in report["iterations_by_bits"].items()}
    read = sum(map(len, foreign(of_graph(cpms.load(graph), 0, 2))))
    least = sum(count * read * bits / 8 for bits, count in sweeps.items())
    # Numbers are told as well, and every solve by method power has an exchange that was not needed.
    assert least <= report["received_bytes"] < 1.5 * least + 3 * 8 * read


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("--local", "cuda", "--layout", "csr"), 2, "the pattern alone"),
        (("--local", "cpu", "--method", "refine"), 2, "--local cuda"),
        (("--local", "cuda", "--storage", "fp16"), 2, "--method refine"),
        (("--local", "cuda", "--method", "refine", "--storage", "fp64"), 2, "fp64"),
    ],
)
def test_what_ranks_cannot_do_is_one_sentence(kernels, options, code, sentence):
    ended, _, errors = started(kernels, 2, "uniform:nodes=20,edges=40", *options)
    assert ended == code
    assert sentence in errors
    assert "Traceback" not in errors


@needs_mpi
@pytest.mark.skipif(missing() is None, reason="there is a CUDA device")
def test_without_a_device_every_rank_ends_with_a_sentence(tmp_path):
    code, _, errors = started(tmp_path, 2, "uniform:nodes=20,edges=40", "--local", "cuda", where="gpu")
    assert code == 3
    assert "ranks cannot multiply by engine 'cuda' here" in errors
    assert "Traceback" not in errors


@needs_mpi
@pytest.mark.gpu
def test_more_ranks_than_devices_end_with_a_sentence(gpu_backend, tmp_path):
    ranks = mpi_runs.devices() + 1
    code, _, errors = started(tmp_path, ranks, "uniform:nodes=20,edges=40", "--local", "cuda", where="gpu")
    assert code == 3
    assert f"{ranks} ranks on this host need a GPU each" in errors


ENDLESS = """
import os
import numpy as np
from cpms.problems.pagerank import Problem
from cpms.engines import mpi_cuda
from cpms.backends.mpi.exchange.world import world
from cpms.solvers.power import power
from cpms.precision.controllers import Fixed
from cpms.contracts.stopping import Stopping
import cpms

def at_step(step):
    if step.iteration == 3:
        (Path(sys.argv[1]) / f"pid {world().rank} {os.getpid()}").touch()

problem = Problem(cpms.load("uniform:nodes=2500,edges=4000"))
operator = mpi_cuda.ENGINE.prepare(problem, mpi_cuda.FP64, "pattern")
power(operator, np.full(2500, 1 / 2500), Fixed(), Stopping(iterations=10**7), at_step)
"""


@pytest.mark.parametrize("where", ["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_a_rank_killed_mid_solve_ends_all_that_wait_for_it(request, where, tmp_path):
    kernels = request.getfixturevalue("kernels") if where == "host" else "-"
    if where == "gpu" and mpi_runs.devices() < 2:
        pytest.skip("there is one device")
    process = mpi_runs.start(2, "-c", WHERE + ENDLESS, where, kernels, tmp_path)
    try:
        began = time.perf_counter()
        while len(pids := sorted(path.name for path in tmp_path.glob("pid*"))) < 2:
            assert process.poll() is None, process.communicate()
            assert time.perf_counter() - began < 100
            time.sleep(0.05)
        began = time.perf_counter()
        os.kill(int(pids[1].split()[2]), signal.SIGKILL)
        process.communicate(timeout=30)
        assert time.perf_counter() - began < 30
        assert process.returncode != 0
    finally:
        process.kill()
