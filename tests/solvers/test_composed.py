"""PageRank on the verbs of linear operators: laws of graphs with weights and of sinks of one's own, on each backend."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import Graph, InputError, UnsupportedError, check, engines, format_named
from cpms.backends.cpu.product import CpuProduct
from cpms.backends.reference.product import ReferenceProduct
from cpms.certify.certificate import Certifier
from cpms.contracts.batch import Query
from cpms.contracts.product_request import ProductRequest
from cpms.contracts.stopping import Stopping
from cpms.engines import composed
from cpms.formats.formats import CPMS2, E4M3, FP16, FP32, FP64
from cpms.precision.controllers import FLOAT64, Level
from cpms.precision.refinement_policy import default_policy
from cpms.problems.pagerank import Problem
from cpms.solvers.batch_power import iterate_all
from cpms.solvers.composed_power import ComposedOperator
from cpms.solvers.refine import outer_iteration
from cpms.sparse.transition import edge_matrix, weights_and_divisor
from cpms.sparse.transition_values import edge_values
from cpms.testing import distributions, graphs

WEIGHTS = {
    "ones": lambda _, count: np.ones(count),
    "digits": lambda random, count: random.integers(1, 6, count).astype(float),
    "any": lambda random, count: random.random(count) + 0.1,
    "near the largest": lambda random, count: random.random(count) * 1e305,
    "near the smallest": lambda random, count: (random.random(count) + 0.5) * 1e-304,
    "of 600 decades": lambda random, count: 10.0 ** random.uniform(-300.0, 300.0, count),
}


def random_graph(kind="any", nodes=300, edges=2000):
    """Return a graph with dangling nodes, repeated edges, loops and a hub."""
    random = np.random.default_rng(5)
    sources, targets = random.integers(0, nodes * 9 // 10, edges), random.geometric(0.01, edges) % nodes
    weights = None if kind is None else WEIGHTS[kind](random, edges)
    return Graph.from_edges(sources, targets, weights, nodes=nodes, name=str(kind))


def exact(problem):
    """Return the solution by dense elimination, of the matrix entry by entry."""
    graph, nodes = problem.graph, problem.graph.nodes
    system = np.zeros((nodes, nodes))
    values = np.ones(graph.edges) if graph.weights is None else graph.weights / graph.out_weight[graph.sources]
    np.add.at(system, (graph.targets, graph.sources), values)
    if graph.weights is None:
        system /= np.maximum(graph.out_degree, 1)
    system[:, graph.dangling_nodes] = np.broadcast_to(problem.sink_or_scalar, nodes)[:, None]
    right = np.broadcast_to((1.0 - problem.damping) * problem.teleport_or_scalar, nodes)
    return np.linalg.solve(np.eye(nodes) - problem.damping * system, right)


def require_solved(result, problem):
    check.answer_is_certified(result, personalization=problem.teleport, dangling=problem.dangling)
    assert result.converged
    assert np.abs(result.ranks - exact(problem)).sum() <= result.error_bound + 1e-12


# Graphs with weights


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@given(graph=graphs(weighted=True), data=st.data())
@settings(max_examples=40)
def test_refinement_of_weighted_graphs_solves_the_equation(engine, graph, data):
    teleport = data.draw(st.none() | distributions(graph.nodes))
    sink = data.draw(st.sampled_from(["teleport", "uniform"]) | distributions(graph.nodes))
    problem = Problem(graph, data.draw(st.floats(0.05, 0.95)), teleport, sink)
    storage = data.draw(st.sampled_from(["fp32", "fp16", "e5m2", "cpms4"]))
    result = cpms.pagerank(
        graph, method="refine", engine=engine, storage=storage, damping=problem.damping, personalization=teleport,
        dangling=sink,
    )  # fmt: skip
    assert result.layout == "csr"
    require_solved(result, problem)


@pytest.mark.representatives(method=("refine",))
@pytest.mark.parametrize("method", ["power", "refine"])
@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights_of_any_size_are_solved_one_by_one_and_in_batches(kind, method):
    graph = random_graph(kind)
    queries = [3, [5, 7], {9: 2.0, 1: 1.0}]
    require_solved(cpms.pagerank(graph, method=method, engine="cpu"), Problem(graph))
    for query, result in zip(queries, cpms.personalized_pagerank(graph, queries, method=method), strict=True):
        weights = query if isinstance(query, dict) else dict.fromkeys([query] if isinstance(query, int) else query, 1.0)
        teleport = np.zeros(graph.nodes)
        teleport[list(weights)] = list(weights.values())
        require_solved(result, Problem(graph, teleport=teleport / teleport.sum()))


@pytest.mark.parametrize("factor", [2.0**40, 2.0**-300, 3.7])
def test_a_factor_of_all_weights_changes_nothing(factor):
    plain = random_graph()
    scaled = Graph(plain.indptr, plain.sources, plain.weights * factor)
    for options in ({}, {"personalization": [1]}):
        first, second = (cpms.pagerank(g, method="refine", engine="cpu", **options) for g in (plain, scaled))
        if factor == 3.7:
            assert np.abs(first.ranks - second.ranks).sum() <= first.error_bound + second.error_bound
        else:
            np.testing.assert_array_equal(first.ranks, second.ranks)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_weights_of_one_are_no_weights(engine):
    found = [cpms.pagerank(random_graph(kind), method="refine", engine=engine) for kind in (None, "ones")]
    assert np.abs(found[0].ranks - found[1].ranks).sum() <= found[0].error_bound + found[1].error_bound
    assert [result.layout for result in found] == ["pattern", "csr"]


def test_weights_of_few_digits_are_stored_in_a_byte():
    digits, others = (cpms.pagerank(random_graph(kind), method="refine", engine="cpu") for kind in ("digits", "any"))
    assert others.matrix_bytes - digits.matrix_bytes == 7 * others.graph.edges


@pytest.mark.parametrize("storage", [E4M3, FP16])
def test_inner_sweeps_keep_the_sum_of_the_residual_whatever_rounding_loses(storage):
    problem = Problem(random_graph(), 0.5)
    refinement = composed.CPU.refinement(problem)
    refinement.start(np.arange(1.0, 301.0))
    refinement.outer_step(None, inner_reduction=0.5, tol=1e-9, norm="l1", max_inner=9)
    iterate = refinement._iterate
    for _ in range(4):
        iterate.r[7] += 1e-3
        iterate.sum_of_r = before = iterate.r.sum()
        [size] = refinement._sweeps.inner_sweep([iterate], [storage])
        assert abs(iterate.r.sum() - 0.5 * before) < 1e-15
        assert size == pytest.approx(np.abs(iterate.r).sum(), rel=1e-12)


@given(graph=graphs(weighted=True))
def test_weights_and_divisor_make_the_transition_matrix(graph):
    a, divisor = weights_and_divisor(graph)
    np.testing.assert_allclose(a.values / divisor[graph.sources], edge_values(graph), rtol=1e-15, atol=1e-300)
    assert ((divisor == 0.0) == (graph.out_degree == 0)).all()


def test_engines_without_values_say_so():
    weighted = random_graph()
    for name in ("cuda_fused", "mpi", "opencl"):
        reason = engines.get_any(name).refuses_weights(Problem(weighted), "refine")
        assert reason is None or "stores no values" in reason
    with pytest.raises(UnsupportedError, match="no method 'refine'"):
        cpms.pagerank(weighted, method="refine", engine="scipy")
    assert engines.chosen("auto", Problem(weighted), "refine").name in ("cuda", "cpu")


# Where the mass of dangling nodes goes


@pytest.mark.parametrize("kind", [None, "any"])
@pytest.mark.parametrize("engine", ["reference", "cpu", "scipy", "serial", "cpu_composed"])
def test_dangling_mass_goes_to_a_distribution_of_ones_own(engine, kind):
    graph, sink = random_graph(kind), np.zeros(300)
    sink[[5, 17]] = 0.25, 0.75
    for method in engines.get(engine).methods:
        for teleport in (None, np.eye(300)[4]):
            result = cpms.pagerank(
                graph, method=method, engine=engine, dangling={5: 1.0, 17: 3.0}, personalization=teleport
            )
            require_solved(result, Problem(graph, teleport=teleport, dangling=sink))


@pytest.mark.parametrize("method", ["power", "refine"])
def test_batches_send_dangling_mass_to_a_distribution_of_ones_own(method):
    graph, sink = random_graph(None), np.eye(300)[17]
    for node, result in enumerate(cpms.personalized_pagerank(graph, [0, 1, 2], dangling=[17], method=method)):
        require_solved(result, Problem(graph, teleport=np.eye(300)[node], dangling=sink))


@pytest.mark.parametrize(
    ("dangling", "message"),
    [
        ("nowhere", "can be 'teleport', 'uniform', or a distribution"),
        ([300], "dangling, .*300.*; or give 'teleport'"),
        ({0: -1.0}, "dangling, "),
        (7, "dangling, personalization is 7"),
        (None, "dangling, "),
        (np.ones(3), "dangling, .*one weight a node"),
    ],
)
def test_bad_sinks_are_refused(dangling, message):
    with pytest.raises(InputError, match=message):
        cpms.pagerank(random_graph(None), dangling=dangling)


def test_a_sink_of_another_length_is_refused():
    with pytest.raises(InputError, match="dangling has shape"):
        Problem(random_graph(None), dangling=np.ones(3))


# One text on each backend


def queries(nodes):
    return [Query(np.array([1]), np.ones(1)), Query(np.array([2, nodes - 1]), np.array([0.25, 0.75]))]


def require_all_solved(products, problem, storages):
    """Solve by each composed method on products of an engine."""
    engine = composed.ComposedEngine(products, ("csr",), repeatable=True)
    stopping, first = Stopping(1e-9), np.full(problem.graph.nodes, 1.0 / problem.graph.nodes)
    for storage in storages:
        refinement = engine.refinement(problem)
        outer_iteration(refinement, first, default_policy(storage), stopping)
        assert Certifier(problem, stopping).is_below_tolerance(refinement.read())
    power, refine = engine.batch(problem), engine.refinement_batch(problem)
    asked = queries(problem.graph.nodes)
    solved = [iterate_all(power, asked, first, stopping), refine.solve(asked, first, default_policy(FP16), stopping)]
    for answers in solved:
        for query, (ranks, _, _) in zip(asked, answers, strict=True):
            of_query = Problem(problem.graph, problem.damping, query.teleport(problem.graph.nodes), problem.dangling)
            on_host = power._sweeps.operator.to_host(ranks)
            assert Certifier(of_query, stopping).is_below_tolerance(np.array(on_host))


@pytest.mark.parametrize("kind", [None, "digits", "any"])
def test_composed_methods_solve_on_processors(kind):
    require_all_solved("cpu", Problem(random_graph(kind)), (FP32, FP16, E4M3))


def test_composed_methods_solve_on_the_reference():
    require_all_solved("reference", Problem(random_graph("any", 12, 30), 0.5, dangling="uniform"), (FP16,))


@pytest.mark.parametrize("kind", [pytest.param("digits", marks=pytest.mark.slow), "any"])
def test_composed_methods_solve_on_a_device(device, kind):
    require_all_solved("cuda", Problem(random_graph(kind), dangling="uniform"), (FP32, FP16))


@pytest.mark.parametrize("storage", ["fp64", "cpms4", "fp16-scaled"])
def test_composed_sweeps_agree_on_a_device(device, storage):
    engine, chosen = engines.get_any("cuda_composed"), format_named(storage)
    problem = Problem(random_graph(), teleport=np.eye(300)[4], dangling="uniform")
    for level in (Level(1, 1), FLOAT64):
        check.sweeps_agree(engine, problem, chosen, "csr", level)


@pytest.mark.gpu
@pytest.mark.parametrize("storage", [FP64, FP32])
def test_composed_sweeps_agree_on_cusparse(gpu_backend, storage):
    engine = engines.get_any("cusparse_composed")
    for layout in engine.layouts:
        check.sweeps_agree(engine, Problem(random_graph()), storage, layout, Level(1, 1))


def test_composed_sweeps_agree_on_the_reference():
    graph = random_graph("any", 20, 60)
    problem, matrix = Problem(graph), edge_matrix(graph, edge_values(graph))
    sweeps = {}
    for product in (CpuProduct, ReferenceProduct):
        made = ComposedOperator.of(problem, CPMS2, lambda storage, of=product.of: of(matrix, ProductRequest(storage)))
        x, out = made.load(np.full(20, 0.05)), made.empty()
        sweeps[product] = made.sweep(x, out, Level(1, 2), 0), made.read(out, 2)
    for mine, its in zip(*sweeps.values(), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-14)
