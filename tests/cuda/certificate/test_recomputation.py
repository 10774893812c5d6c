"""The certificate in device memory agrees with that of processors and with exact arithmetic, and knows no solver."""

import ast
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cpms
from cpms import DeviceGraph, Graph, Status, UnsupportedError
from cpms.backends.cuda.certificate import recomputation
from cpms.backends.cuda.certificate.recomputation import DeviceRecomputation
from cpms.backends.cuda.kernels import source, template
from cpms.backends.cuda.runtime import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.certify import residual
from cpms.certify.batch import BatchCertifier
from cpms.certify.certificate import Certifier, HostRecomputation, QueryCertifier
from cpms.contracts.batch import Query
from cpms.contracts.stopping import Stopping
from cpms.problems.pagerank import Problem

few = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NORMS = ("l1", "l2", "linf")
ALL = Query(np.arange(40), np.full(40, 1 / 40))


@pytest.fixture(autouse=True)
def compiled_together(device):
    device.compile([*template.ROWS_OF_EDGES, *template.CERTIFICATE, *template.CERTIFIED_ROWS.values()])


def of(problem):
    return DeviceRecomputation(problem, *DeviceGraph.of(problem.graph).device_arrays)


@st.composite
def problems(draw):
    nodes = draw(st.integers(1, 40))
    node = st.integers(0, nodes - 1)
    ends = draw(st.lists(st.tuples(node, node | st.just(0)), max_size=120))
    graph = Graph.from_edges([source for source, _ in ends], [target for _, target in ends], nodes=nodes)
    teleport = None
    if draw(st.booleans()):
        weights = np.array(draw(st.lists(st.floats(0.01, 1.0), min_size=nodes, max_size=nodes)))
        teleport = weights / weights.sum()
    return Problem(graph, draw(st.floats(0.1, 0.99)), teleport, draw(st.sampled_from(["teleport", "uniform"])))


def exact_residual(problem, ranks):
    """Return the L1 norm of G(x) - x in rational arithmetic, of the float64 numbers given."""
    graph, damping = problem.graph, Fraction(problem.damping)
    x = [Fraction(float(rank)) for rank in ranks]
    dangling = sum((x[node] for node in graph.dangling_nodes.tolist()), Fraction(0))
    sink, teleport = (np.broadcast_to(v, graph.nodes) for v in (problem.sink_or_scalar, problem.teleport_or_scalar))
    total = Fraction(0)
    for row in range(graph.nodes):
        entries = graph.sources[graph.indptr[row] : graph.indptr[row + 1]].tolist()
        inflow = sum((x[node] / int(graph.out_degree[node]) for node in entries), Fraction(0))
        inflow += dangling * Fraction(float(sink[row]))
        total += abs(damping * inflow + (1 - damping) * Fraction(float(teleport[row])) - x[row])
    return total


@few
@given(problems(), st.integers(0, 2**32), st.sampled_from([3, 2048]), st.sampled_from(list(template.CERTIFIED_ROWS)))
def test_residuals_are_exact_within_the_bound_and_those_of_processors(device, problem, seed, long_row, lanes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recomputation, "LONG_ROW", long_row)
        patch.setattr(recomputation, "_lanes", lambda _: lanes)
        recomputed = of(problem)
    ranks = np.random.default_rng(seed).random(problem.graph.nodes)
    ranks /= ranks.sum() * 1.25
    for norm in NORMS:
        on_device, here = device.upload(ranks), ranks.copy()
        found, expected = recomputed.norms(on_device, norm), HostRecomputation(problem).norms(here, norm)
        np.testing.assert_allclose(device.to_host(on_device), here, rtol=1e-15)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=recomputed.roundoff)
    scaled = device.to_host(on_device)
    assert abs(Fraction(found[0]) - exact_residual(problem, scaled)) <= Fraction(recomputed.roundoff)
    assert recomputed.mass(on_device) == pytest.approx(scaled.sum(), rel=1e-15)


@pytest.mark.parametrize("ranks", [[0.1, 0.1], [3.0, 3.0], [np.nan, 0.5], [np.inf, 0.5], [0.0, 0.0]])
def test_ranks_of_another_mass_have_no_residual_and_stay(device, ranks):
    recomputed, given_ranks = of(Problem(Graph.from_edges([0, 1], [1, 0]))), device.upload(np.array(ranks))
    assert recomputed.norms(given_ranks, "l1") is None
    np.testing.assert_array_equal(device.to_host(given_ranks), ranks)
    certifier = Certifier(recomputed.problem, Stopping(), recomputed)
    assert certifier.certify(given_ranks, Status.CONVERGED) == (Status.NON_FINITE, np.inf)


def test_another_problem_of_the_graph_is_certified_by_the_same_data(device):
    graph = cpms.load("rmat:scale=7,edge_factor=5,seed=2")
    teleport = np.arange(1.0, graph.nodes + 1) / np.arange(1.0, graph.nodes + 1).sum()
    recomputed, ranks = of(Problem(graph)), np.full(graph.nodes, 1.0 / graph.nodes)
    for problem in (Problem(graph, 0.85, teleport, "uniform"), Problem(graph, 0.85, teleport), Problem(graph)):
        recomputed.set_problem(problem)
        found, _ = recomputed.norms(device.upload(ranks), "l1")
        assert found == pytest.approx(residual.residual(problem, ranks), rel=1e-13)


def test_tiny_changes_have_an_l2_norm(device):
    recomputed = of(Problem(Graph.from_edges([0, 1], [1, 0])))
    ranks = np.array([0.5 + 2.0**-53, 0.5])
    assert recomputed.norms(device.upload(ranks), "l2")[1] > 0.0


def test_prepared_solves_are_certified_where_the_caller_asks(fused_engine, monkeypatch):
    graph = cpms.load("rmat:scale=7,edge_factor=5,seed=2")
    monkeypatch.setattr(cpms.engines, "get", lambda _: fused_engine)
    found = {}
    for certify in ("device", "host"):
        with cpms.PageRank(graph, engine="cuda_fused", certify=certify) as prepared:
            found[certify] = prepared.solve()
            assert found[certify].converged
            assert prepared.solve(personalization=[3]).converged
    on_device, here = found["device"], found["host"]
    np.testing.assert_allclose(on_device.ranks, here.ranks, rtol=1e-15)
    assert abs(on_device.residual_l1 - here.residual_l1) <= on_device.residual_roundoff + here.residual_roundoff
    assert on_device.mass == pytest.approx(1.0, abs=1e-15)
    monkeypatch.undo()
    with pytest.raises(UnsupportedError, match="in main memory"):
        cpms.pagerank(graph, engine="cpu", certify="device")
    with pytest.raises(cpms.InputError, match="certify"):
        cpms.pagerank(graph, engine="cpu", certify="nowhere")


def test_launches_take_types_that_a_device_packs(host_backend, monkeypatch):
    launched = []
    monkeypatch.setattr(host_backend, "run", lambda *launch: launched.append(launch[::2]))
    with current.using(host_backend):
        graph = Graph.from_edges([0, 1, 2], [1, 2, 2])
        DeviceGraph.from_edges(np.array([0, 1, 2]) - 4, np.array([1, 2, 2]) - 4, first_id=-4, nodes=3)
        of(Problem(graph)).norms(np.full(3, 1 / 3), "l1")
    assert {variant.kernel for variant, _ in launched} >= {"pack_edges", "unpack_sources", "certify_rows"}
    numbers = [each for _, given in launched for each in given if not isinstance(each, np.ndarray)]
    assert {type(number) for number in numbers} <= {np.uint32, np.int32, np.uint64, np.float64, Struct}


ROOM = Path(recomputation.__file__).parent
KERNELS = source.folder() / "certificate"


@pytest.mark.quick
def test_the_room_knows_no_solver():
    for path in ROOM.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                parts = module.split(".")
                if parts[:3] == ["cpms", "backends", "cuda"]:
                    assert parts[3] in ("runtime", "kernels", "certificate"), module
                elif parts[0] == "cpms":
                    assert parts[1] in ("base", "contracts", "problems", "certify"), module
                    assert module != "cpms.certify.residual"
    for path in KERNELS.iterdir():
        included = [line.split('"')[1] for line in path.read_text().splitlines() if line.startswith("#include")]
        assert all(name.startswith("base/") for name in included), included
    assert {variant.file for variant in (*template.CERTIFICATE, *template.CERTIFIED_ROWS.values())} == {
        "certificate/residual.cu"
    }


@pytest.mark.parametrize("dangling", ["teleport", "uniform", "own"])
def test_queries_of_a_batch_are_certified_as_on_processors(device, dangling):
    rng = np.random.default_rng(3)
    graph = Graph.from_edges(rng.integers(0, 30, 90), rng.integers(0, 40, 90), nodes=40)
    own = rng.random(40)
    problem = Problem(graph, 0.85, None, own / own.sum() if dangling == "own" else dangling)
    queries = [Query(np.array([3, 17]), np.array([0.25, 0.75])), Query(np.array([0]), np.ones(1)), ALL]
    answers = [ranks / ranks.sum() for ranks in rng.random((3, 40))]
    statuses = [Status.CONVERGED, Status.MAX_ITERATIONS, Status.NON_FINITE]
    stopping = Stopping(1e-3, "l2")
    expected = BatchCertifier(problem, stopping).certify(queries, [ranks.copy() for ranks in answers], statuses)
    found = QueryCertifier(of(problem), stopping).certify(
        queries, [device.upload(ranks) for ranks in answers], statuses
    )
    assert [status for status, _ in found] == [status for status, _ in expected]
    assert [residual for _, residual in found] == pytest.approx([residual for _, residual in expected], rel=1e-12)
    assert found[0][0] is Status.UNVERIFIED


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["power", "refine"])
def test_batches_are_certified_on_the_device(gpu_backend, method):
    rng = np.random.default_rng(4)
    graph = Graph.from_edges(rng.integers(0, 5000, 40_000), rng.integers(0, 6000, 40_000), nodes=6000)
    queries = [*range(0, 6000, 300), [1, 5999], {7: 1.0, 8: 3.0}]
    there, here = (
        cpms.PageRank(graph, method=method, engine="cuda", certify=certify).solve_many(queries)
        for certify in ("device", "host")
    )
    for a, b in zip(there, here, strict=True):
        assert a.converged
        assert a.residual_l1 == pytest.approx(b.residual_l1, rel=1e-4)
        assert np.abs(a.ranks - b.ranks).sum() <= 1e-15 + a.residual_roundoff
