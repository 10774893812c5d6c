"""PageRank of other libraries on processors: each builds its own matrix and solves; the caller chooses its settings.

The ``variants`` of a peer are the settings to try, and ``takes_tolerance`` states whether it has a stopping tolerance.
``runs_on`` states on how many threads it runs. ``solve`` measures the solve alone, without the conversion of the graph
and of the ranks. A peer builds its matrix from edges in any order in the fastest way that its interface has.
"""

from __future__ import annotations

import importlib
import itertools
import os
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cpms import engines
from cpms.backends.cpu.load_balance import first_ranges
from cpms.base import threads, work_clock
from cpms.base.errors import UnavailableError
from cpms.base.jit import compiled
from cpms.base.types import Floats
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import FP64
from cpms.graph.graph import Graph
from cpms.precision.controllers import Fixed
from cpms.problems.pagerank import Problem
from cpms.solvers.power import power

DAMPING = 0.85
Ends = npt.NDArray[Any]
Variant = dict[str, Any]
ALL_THREADS = "all threads"
_MOST_ITERATIONS = 2000


class Peer(ABC):
    """A program that computes PageRank: one ``build``, then any number of ``solve``."""

    name: ClassVar[str]
    version_of: ClassVar[str | None] = None
    variants: ClassVar[tuple[Variant, ...]] = ({},)
    takes_tolerance: ClassVar[bool] = True
    runs_on: ClassVar[str] = "one thread"

    def build(self, graph: Graph) -> Any:
        """Return a graph in the peer's own data structure."""
        return self.build_from_edges(graph.sources, graph.targets, graph.nodes)

    @abstractmethod
    def build_from_edges(self, sources: Ends, targets: Ends, nodes: int) -> Any:
        """Return what `build` does, from edges in any order, ids from 0 on, integers of shape (edges,) each."""

    @abstractmethod
    def solve(self, built: Any, variant: Variant, tol: float) -> tuple[Floats, float]:
        """Return ranks of sum 1 and the seconds that the solve took."""


class Scipy(Peer):
    """A SciPy loop: one CSR product an iteration."""

    name = "scipy"
    version_of = "scipy"

    def build(self, graph: Graph) -> Any:
        """Return the engine's operator."""
        return engines.get("scipy").prepare(Problem(graph), FP64, "csr")

    def build_from_edges(self, sources: Ends, targets: Ends, nodes: int) -> Any:
        """Return the same operator on a matrix that SciPy compresses from coordinates."""
        import scipy.sparse

        from cpms.engines.scipy import ScipyOperator

        degree = np.bincount(sources, minlength=nodes)
        coordinates = (1.0 / np.maximum(degree, 1))[sources], (targets, sources)
        matrix = scipy.sparse.csr_array(coordinates, shape=(nodes, nodes))
        graph = Graph(np.zeros(nodes + 1, np.int64), np.zeros(0, np.int32))  # Its degrees alone are read.
        vars(graph)["out_degree"] = degree
        return ScipyOperator(Problem(graph), FP64, matrix, np.empty(nodes))

    def solve(self, built: Any, variant: Variant, tol: float) -> tuple[Floats, float]:  # noqa: ARG002
        """Iterate without a certificate."""
        nodes = built.problem.graph.nodes
        began = work_clock.now()
        ranks, _, _ = power(built, np.full(nodes, 1.0 / nodes), Fixed(), Stopping(tol, max_iterations=_MOST_ITERATIONS))
        return _finished(ranks, began)


class Igraph(Peer):
    """PRPACK through igraph: Gauss-Seidel, by strongly connected components where that is faster.

    It stops at 1e-10 and runs on one thread; its interface can change neither.
    """

    name = "igraph PRPACK"
    version_of = "igraph"
    takes_tolerance = False

    def build_from_edges(self, sources: Ends, targets: Ends, nodes: int) -> Any:
        """Return an igraph graph, which takes lists faster than arrays."""
        igraph = _imported("igraph")
        edges = list(zip(sources.tolist(), targets.tolist(), strict=True))
        return igraph.Graph(n=nodes, edges=edges, directed=True)

    def solve(self, built: Any, variant: Variant, tol: float) -> tuple[Floats, float]:  # noqa: ARG002
        """Solve; PRPACK builds its own matrix each time."""
        began = work_clock.now()
        return _finished(built.pagerank(damping=DAMPING, implementation="prpack"), began)


class Networkit(Peer):
    """NetworKit's PageRank on all threads, with the L1 norm, and the mass of sinks spread over all nodes."""

    name = "NetworKit"
    version_of = "networkit"
    runs_on = ALL_THREADS

    def build_from_edges(self, sources: Ends, targets: Ends, nodes: int) -> Any:
        """Return a NetworKit graph."""
        networkit = _imported("networkit")
        networkit.setNumberOfThreads(threads.available())
        ends = sources.astype(np.uint64), targets.astype(np.uint64)
        return networkit.GraphFromCoo(ends, n=nodes, weighted=False, directed=True)

    def solve(self, built: Any, variant: Variant, tol: float) -> tuple[Floats, float]:  # noqa: ARG002
        """Run the algorithm."""
        centrality = _imported("networkit").centrality
        sinks = centrality.SinkHandling.DistributeSinks
        algorithm = centrality.PageRank(built, DAMPING, tol, distributeSinks=sinks)
        algorithm.norm = centrality.Norm.L1_NORM
        began = work_clock.now()
        algorithm.run()
        seconds = work_clock.now() - began
        return _normalised(algorithm.scores()), seconds


class GraphBLAS(Peer):
    """SuiteSparse GraphBLAS in float64: LAGraph's loop, a product over the semiring (plus, second)."""

    name = "GraphBLAS"
    version_of = "suitesparse-graphblas"
    runs_on = ALL_THREADS

    def build_from_edges(self, sources: Ends, targets: Ends, nodes: int) -> Any:
        """Return the transposed pattern by rows, the damped reciprocal out-degrees, and the sinks."""
        gb = _imported("graphblas")
        gb.ss.config["nthreads"] = threads.available()
        # Repeated edges become one entry, their number. (plus, times) multiplies by it; (plus, second) ignores it.
        size = {"nrows": nodes, "ncols": nodes}
        matrix = gb.Matrix.from_coo(targets, sources, 1.0, **size)
        repeated = matrix.nvals < len(sources)
        if repeated:
            matrix = gb.Matrix.from_coo(targets, sources, np.ones(len(sources)), dup_op=gb.binary.plus, **size)
        degree = np.bincount(sources, minlength=nodes)
        scale = DAMPING / np.maximum(degree, 1)
        scale[degree == 0] = 0.0
        semiring = "plus_times" if repeated else "plus_second"
        return gb, matrix, gb.Vector.from_dense(scale), np.flatnonzero(degree == 0), semiring

    def solve(self, built: Any, variant: Variant, tol: float) -> tuple[Floats, float]:  # noqa: ARG002
        """Iterate; vectors are dense."""
        gb, matrix, scale, sinks, semiring = built
        product, nodes = getattr(gb.semiring, semiring), matrix.nrows
        sink_nodes = gb.Vector.from_coo(sinks, 1.0, size=nodes) if len(sinks) else None
        began = work_clock.now()
        x = gb.Vector.from_scalar(1.0 / nodes, nodes)
        y, contribution = gb.Vector(float, nodes), gb.Vector(float, nodes)
        for _ in range(_MOST_ITERATIONS):
            dangling = x.inner(sink_nodes).new().value or 0.0 if sink_nodes is not None else 0.0
            contribution << x.ewise_mult(scale, gb.binary.times)
            y << (1.0 - DAMPING + DAMPING * dangling) / nodes
            y(gb.binary.plus) << matrix.mxv(contribution, product)
            x << x.ewise_mult(y, gb.binary.minus)
            change = x.apply(gb.unary.abs).reduce(gb.monoid.plus).new().value
            x, y = y, x
            if change < tol:
                break
        return _finished(x.to_dense(), began)


class GaussSeidel(Peer):
    """An own implementation for comparison: plain float64 Gauss-Seidel in CSR, as in GAP's ``pr``, which has float32.

    Ranks change in place, in ascending or descending order of nodes, on one thread or on all. Threads then read values
    that others are changing, as in GAP.
    """

    name = "Gauss-Seidel"
    runs_on = "one or all, whichever is faster"
    variants = tuple({"threads": several, "step": step} for several in (False, True) for step in (1, -1))

    def build(self, graph: Graph) -> Any:
        """Return CSR, reciprocal out-degrees, and a range of rows for each thread."""
        unsigned = f"uint{8 * graph.sources.itemsize}"
        inverse = np.where(graph.out_degree > 0, 1.0 / np.maximum(graph.out_degree, 1), 0.0)
        bounds = first_ranges(graph.indptr + 2 * np.arange(graph.nodes + 1), threads.available()).tolist()
        indptr = graph.indptr.astype(np.uint32 if graph.edges < 2**32 else np.uint64)
        return indptr, graph.sources.view(unsigned), inverse, list(itertools.pairwise(bounds))

    def build_from_edges(self, sources: Ends, targets: Ends, nodes: int) -> Any:
        """Return what `build` does, for a graph that `cpms.Graph.from_edges` makes."""
        return self.build(Graph.from_edges(sources, targets, nodes=nodes))

    def solve(self, built: Any, variant: Variant, tol: float) -> tuple[Floats, float]:
        """Solve (I - damping P) y = v, a multiple of x, until a sweep changes y by less than ``tol`` of its sum."""
        indptr, sources, inverse, parts = built
        nodes = len(inverse)
        parts = parts if variant["threads"] else [(0, nodes)]
        with ThreadPoolExecutor(len(parts)) as pool:
            began = work_clock.now()
            x = np.full(nodes, 1.0 / nodes)
            contribution = x * inverse

            def sweep(part: tuple[int, int]) -> tuple[float, float]:
                found: tuple[float, float] = _sweep(indptr, sources, inverse, x, contribution, variant["step"], *part)
                return found

            for _ in range(_MOST_ITERATIONS):
                found = list(pool.map(sweep, parts)) if len(parts) > 1 else [sweep(parts[0])]
                if sum(change for change, _ in found) < tol * sum(mass for _, mass in found):
                    break
            return _finished(x, began)


PEERS: dict[str, Peer] = {peer.name: peer for peer in (Scipy(), Igraph(), Networkit(), GraphBLAS(), GaussSeidel())}


@compiled(fastmath=True, error_model="numpy")
def _sweep(indptr, sources, inverse, x, contribution, step, low, high):  # type: ignore[no-untyped-def]
    change = mass = 0.0
    rest = (1.0 - DAMPING) / len(x)
    for i in range(high - low):
        node = np.uint64(low + i if step > 0 else high - 1 - i)
        total = 0.0
        for k in range(np.uint64(indptr[node]), np.uint64(indptr[node + np.uint64(1)])):
            total += contribution[np.uint64(sources[k])]
        new = rest + DAMPING * total
        change += abs(new - x[node])
        mass += new
        x[node] = new
        contribution[node] = new * inverse[node]
    return change, mass


def _finished(ranks: Any, began: float) -> tuple[Floats, float]:
    seconds = work_clock.now() - began
    return _normalised(ranks), seconds


def _normalised(ranks: Any) -> Floats:
    values = np.array(ranks, dtype=np.float64)
    values /= values.sum()
    return values


def _imported(module: str) -> Any:
    # Some libraries read their number of threads from OpenMP's variable.
    os.environ.setdefault("OMP_NUM_THREADS", str(threads.available()))
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UnavailableError(f"{module} is not installed; pip install it to compare with it") from None
