"""Low sweeps that are extrapolated: as sound as those that are not, fewer of them, the same on every engine."""

import numpy as np
import pytest

import cpms
from cpms import Graph, Status, format_named
from cpms.backends.cpu import refinement as _cpu_refinement
from cpms.backends.cpu.refinement import CpuRefinement
from cpms.backends.cuda.kernels import source
from cpms.backends.cuda.persistent.refinement import CudaRefinement
from cpms.backends.cuda.runtime import current
from cpms.base import threads
from cpms.contracts.refinement import OuterRequest
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import FP16, FP32
from cpms.formats.quantization import quantiser
from cpms.precision import anderson
from cpms.precision.anderson import DEPTH
from cpms.precision.refinement_policy import FixedReduction, default_policy
from cpms.problems.pagerank import Problem
from cpms.solvers.refine import outer_iteration
from cpms.sources import loading

# Both engines compile for each format, for seconds.
FORMATS = [
    *("fp32", "fp16", "e5m2"),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("cpms4-nearest", "fp16-stochastic", "bf16", "cpms2")),
]


def random_graph(nodes, edges, seed=1, local=40):
    """Return a graph of the kind that sweeps take long on: most edges go to nodes near by."""
    random = np.random.default_rng(seed)
    sources = random.integers(0, nodes, edges)
    targets = (sources + random.geometric(1 / local, edges)) % nodes
    return Graph.from_edges(
        sources, np.where(random.random(edges) < 0.1, random.integers(0, 9, edges), targets), nodes=nodes
    )


NODES = 2500
WEIGHTS = np.random.default_rng(3).random(NODES)
PROBLEMS = {
    "plain": Problem(random_graph(NODES, 5 * NODES)),
    "many dangling": Problem(random_graph(NODES, 3 * NODES // 2)),
    "personalised": Problem(random_graph(NODES, 5 * NODES), 0.9, WEIGHTS / WEIGHTS.sum()),
    "uniform": Problem(random_graph(NODES, 5 * NODES), 0.85, WEIGHTS / WEIGHTS.sum(), "uniform"),
}


@pytest.fixture(params=["cpu", "host", pytest.param("gpu", marks=pytest.mark.gpu)])
def prepared(request):
    """Return what prepares a problem on an engine."""
    if request.param == "cpu":
        yield CpuRefinement
        return
    with current.using(request.getfixturevalue(f"{request.param}_backend")):
        yield CudaRefinement.of


def plain(refinement):
    """Return a refinement that goes without."""
    refinement.anderson = False
    return refinement


def started(refinement):
    nodes = refinement.problem.graph.nodes if isinstance(refinement, CpuRefinement) else refinement.graph.nodes
    refinement.start(np.full(nodes, 1.0 / nodes))
    return refinement


def solved(refinement, storage, **stopping):
    policy = default_policy(storage)
    return outer_iteration(
        started(refinement), None, policy, Stopping(**{"tol": 1e-10, "max_iterations": 500, **stopping})
    )


def long_rounds(refinement, storage, inner_reduction=1e-4, rounds=2):
    """Return rounds of more sweeps than are looked back on."""
    options = {"inner_reduction": inner_reduction, "noise_tolerance": 1e9, "tol": 1e-300, "norm": "l1"}
    found = started(refinement).outer_steps(storage, OuterRequest(most=400, **options))
    while len(found) < rounds:
        found += refinement.outer_steps(storage, OuterRequest(most=400, **options))
    return found[:rounds]


@pytest.mark.representatives(name=("e5m2",), problem=("plain",))
@pytest.mark.representatives(name=("fp16",), problem=("many dangling",))
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", FORMATS)
def test_fewer_sweeps_lead_to_the_same_answer(prepared, problem, name):
    storage = quantiser(format_named(name))
    ranks, status, history = solved(prepared(PROBLEMS[problem]), storage)
    right, _, without = solved(plain(prepared(PROBLEMS[problem])), storage)
    assert status is Status.CONVERGED
    assert np.abs(ranks - right).sum() <= 2e-10 / (1 - PROBLEMS[problem].damping)
    assert abs(ranks.sum() - 1) < 1e-9
    # Others end their rounds before there is much to combine.
    takes_long = storage.mantissa_bits > 3 and problem != "many dangling"
    assert len(history) <= (0.9 * len(without) if takes_long else len(without) + 3)


@pytest.mark.representatives(problem=("plain", "uniform"))
@pytest.mark.parametrize("problem", PROBLEMS)
def test_full_sweeps_find_what_low_ones_promised(prepared, problem):
    first, second = long_rounds(prepared(PROBLEMS[problem]), FP32)
    assert len(first.inner_l1) > DEPTH + 1
    assert second.found.l1 <= PROBLEMS[problem].damping * first.inner_l1[-1] * (1 + 1e-3) + 1e-6 * first.found.l1


@pytest.mark.parametrize("name", FORMATS)
def test_the_sum_of_what_is_on_its_way_stays_none(prepared, name):
    for made in long_rounds(prepared(PROBLEMS["many dangling"]), quantiser(format_named(name)), inner_reduction=1e-2):
        np.testing.assert_allclose(made.sums, 0.0, rtol=0, atol=1e-12 * made.found.l1)


@pytest.mark.representatives(storage=("fp32",), problem=("personalised",))
@pytest.mark.representatives(storage=("fp16",), problem=("uniform",))
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("storage", [FP32, FP16])
def test_engines_extrapolate_alike(prepared, problem, storage):
    mine = long_rounds(prepared(PROBLEMS[problem]), storage, rounds=1)[0].inner_l1
    right = long_rounds(CpuRefinement(PROBLEMS[problem]), storage, rounds=1)[0].inner_l1
    np.testing.assert_allclose(mine[: DEPTH + 1], right[: DEPTH + 1], rtol=0.02)
    np.testing.assert_allclose(mine[DEPTH + 1 : DEPTH + 3], right[DEPTH + 1 : DEPTH + 3], rtol=0.1)
    assert abs(len(mine) - len(right)) <= 2


def test_what_is_found_falls_where_sweeps_are_combined(prepared):
    without = long_rounds(plain(prepared(PROBLEMS["plain"])), FP32, rounds=1)[0].inner_l1
    mine = long_rounds(prepared(PROBLEMS["plain"]), FP32, rounds=1)[0].inner_l1
    assert mine[:DEPTH] == without[:DEPTH]
    assert mine[DEPTH + 1] < 0.8 * without[DEPTH + 1]


@pytest.mark.parametrize("name", ["fp16", "fp32", pytest.param("bf16-stochastic", marks=pytest.mark.slow)])
def test_any_number_of_threads_gives_the_same_bits(name, monkeypatch):
    monkeypatch.setattr(_cpu_refinement, "_RANGE_COST", 1000)
    monkeypatch.setattr(_cpu_refinement, "_THREAD_COST", 1000)
    storage = quantiser(format_named(name))

    def bits(count):
        with threads.limited(count):
            refinement = CpuRefinement(PROBLEMS["plain"])
            return [made.inner_l1 for made in long_rounds(refinement, storage)], refinement.read().tobytes()

    assert all(bits(count) == bits(1) for count in (2, 3, 7))


def test_nothing_is_left_to_extrapolate_where_every_sweep_finds_the_same():
    # Of a star's leaves all sweeps find one shape: the products are singular.
    leaves, hub = np.arange(1, 300), np.zeros(299, int)
    graph = Graph.from_edges(np.append(leaves, hub), np.append(hub, leaves))
    for storage in ("fp32", "fp16", "e5m2"):
        result = cpms.pagerank(graph, method="refine", storage=storage, engine="cpu")
        assert result.converged
        assert result.iterations < 100  # 144 or more without


# Real graphs: full and low sweeps in fp32 and in fp16, where float64 power iteration needs 116, 107, 111 and 111
COUNTS = {
    "cnr-2000": ((3, 73), (4, 72)),
    "web-Google-scc": ((3, 71), (4, 73)),
    "web-NotreDame": ((3, 86), (4, 85)),
    "hollins": ((3, 52), (4, 54)),
}


@pytest.mark.representatives(name=("web-NotreDame",))
@pytest.mark.parametrize("name", COUNTS)
def test_real_graphs_need_the_sweeps_measured_before(cpms_data, name):
    graph = loading.load(name)
    for storage, (full, low) in zip((FP32, FP16), COUNTS[name], strict=True):
        result = cpms.pagerank(graph, method="refine", engine="cpu", storage=storage)
        assert result.converged
        assert abs(result.iterations_by_bits[64] - full) <= 1
        assert abs(result.iterations - (full + low)) <= 6


def test_a_fixed_reduction_out_of_reach_ends(prepared):
    policy = FixedReduction(FP16, 1e-9)
    _, status, history = outer_iteration(
        started(prepared(PROBLEMS["plain"])), None, policy, Stopping(1e-10, max_iterations=400)
    )
    assert status in (Status.CONVERGED, Status.MAX_ITERATIONS, Status.STAGNATED)
    assert len(history) <= 400


def test_graphs_without_cycles_soon_go_without(prepared):
    random = np.random.default_rng(2)
    sources = random.integers(0, NODES - 100, 4 * NODES)
    problem = Problem(Graph.from_edges(sources, sources + random.integers(1, 100, 4 * NODES), nodes=NODES))
    mine = long_rounds(prepared(problem), FP32, inner_reduction=1e-6, rounds=1)[0].inner_l1
    without = long_rounds(plain(prepared(problem)), FP32, inner_reduction=1e-6, rounds=1)[0].inner_l1
    assert abs(len(mine) - len(without)) <= 8
    assert np.isfinite(mine).all()


@pytest.mark.quick
def test_kernels_have_the_same_numbers():
    text = (source.folder() / "pagerank/anderson_products.cuh").read_text()
    regularisation, ratio = np.float64(anderson._REGULARISATION), np.float64(anderson._WORTHWHILE_RATIO)
    assert f"anderson_depth = {DEPTH}," in text
    assert f"1.0 + {np.format_float_scientific(regularisation, trim='-', exp_digits=1)};" in text
    assert f"< {ratio} * {ratio} *" in text
