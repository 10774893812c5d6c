"""Engines on cuSPARSE and cuBLAS, with NumPy and SciPy in the place of these two."""

import numpy as np
import pytest
import scipy.sparse

import cpms
from cpms.backends.cuda.runtime import current
from cpms.engines import cusparse, cusparse_omega
from cpms.engines import reference as obvious
from cpms.formats.formats import FP32, FP64
from cpms.graph.graph import Graph
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem

RANDOM = np.random.default_rng(3)
GRAPHS = {
    "many dangling": Graph.from_edges(*RANDOM.integers(0, 300, (2, 200)), nodes=300),
    "none dangling": Graph.from_edges(np.arange(50), (np.arange(50) * 7 + 1) % 50),
    "all dangling": Graph.from_edges([], [], nodes=5),
    "weighted": Graph.from_edges(*RANDOM.integers(0, 90, (2, 400)), RANDOM.random(400) + 0.1, nodes=100),
}
ENGINES = [cusparse.ENGINE, cusparse_omega.ENGINE]


class Dense:
    def __init__(self, values, length):
        self.values, self.length = values, length


class Product:
    """SciPy's product; rows are those of CSR or COO."""

    nbytes = 0

    def __init__(self, layout, nodes, rows, sources, values, factor):
        self.layout, kind = layout, scipy.sparse.csr_array if layout == "csr" else scipy.sparse.coo_array
        places = (sources, rows) if layout == "csr" else (rows, sources)
        self.matrix = kind((values * factor, *((places,) if layout == "coo" else places)), shape=(nodes, nodes))

    def multiply(self, x, y):
        y.values[: y.length] = self.matrix @ x.values[: x.length]


class Blas:
    def __init__(self, dtype):
        del dtype

    def add(self, factor, x, y):
        y += factor[0] * x

    def scale(self, factor, x):
        x *= factor

    def subtract(self, x, y, out):
        out[:] = x - y

    def abs_sum(self, x, result):
        result[0] = np.abs(x).sum()

    def norm(self, x, result):
        result[0] = np.linalg.norm(x)

    def dot(self, x, y, result):
        result[0] = x @ y

    def largest(self, x, result):
        result[0] = np.abs(x).argmax() + 1


@pytest.fixture
def libraries(monkeypatch, host_backend):
    for name, stand_in in (("DenseVector", Dense), ("SparseProduct", Product), ("Blas", Blas)):
        monkeypatch.setattr(cusparse, name, stand_in)
    with current.using(host_backend):
        yield


@pytest.mark.parametrize("layout", ["csr", "coo"])
@pytest.mark.parametrize("rule", ["teleport", "uniform"])
@pytest.mark.parametrize("personal", [False, True])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_sweeps_are_those_of_the_reference_or_are_refused(libraries, engine, graph, personal, rule, layout):
    nodes = GRAPHS[graph].nodes
    teleport = np.arange(nodes) / np.arange(nodes).sum() if personal else None
    problem = Problem(GRAPHS[graph], 0.85, teleport, rule)
    reason = engine.unsupported(problem, FP64, layout)
    assert (reason is not None) == (engine.name == "cusparse_omega" and personal and rule == "uniform")
    if reason:
        assert "use engine cusparse" in reason
        return
    operator, twin = engine.prepare(problem, FP64, layout), obvious.ENGINE.prepare(problem, FP64, "csr")
    first = np.random.default_rng(7).random(nodes)
    first /= first.sum()
    x, out = operator.load(first), operator.empty()
    mine, expected = first, first
    for step in range(4):
        found, wanted = operator.sweep(x, out, Level(1, 1), step), twin.empty()
        same = twin.sweep(twin.load(expected), wanted, Level(1, 1), step)
        mine, expected = operator.read(out, 1), twin.read(wanted, 1)
        np.testing.assert_allclose(mine, expected, rtol=1e-13, atol=1e-18)
        np.testing.assert_allclose(tuple(found), tuple(same), rtol=1e-12, atol=1e-17)
        assert mine.sum() == pytest.approx(1.0, abs=1e-14)
        x, out = out, x


def test_omega_needs_no_list_of_dangling_nodes(libraries, monkeypatch):
    graph = GRAPHS["many dangling"]
    operator = cusparse_omega.ENGINE.prepare(Problem(graph), FP64, "csr")
    assert operator.dangling_nodes.size == 0
    assert operator.indicator is None
    assert operator.sink is None


def test_omega_goes_by_the_mass_of_its_vector(libraries):
    operator = cusparse_omega.ENGINE.prepare(Problem(GRAPHS["many dangling"]), FP64, "csr")
    x, out = operator.load(np.full(300, 1 / 300)), operator.empty()
    operator.scale(x, 3.0, 1)
    for step in range(3):
        assert operator.sweep(x, out, Level(1, 1), step).mass == pytest.approx(3.0)
        assert operator.read(out, 1).sum() == pytest.approx(3.0)
        x, out = out, x


def test_omega_is_for_float64(libraries):
    assert "stores fp64, not fp32" in cusparse_omega.ENGINE.unsupported(Problem(GRAPHS["weighted"]), FP32, "csr")


def test_both_find_the_same_ranks(libraries, monkeypatch):
    graph = GRAPHS["many dangling"]
    for engine in ENGINES:
        monkeypatch.setattr(engine.__class__, "missing", lambda _: None)
    mine, other = (cpms.pagerank(graph, engine=engine.name, layout="csr").ranks for engine in ENGINES)
    assert np.abs(mine - other).sum() < 1e-10
