"""The residual of an answer, recomputed in float64 with compensated sums by code that no engine shares.

Sums are compensated (Ogita, Rump and Oishi, Accurate sum and dot product, 2005), so that their rounding error is far
below the residual on graphs of any size. It costs about one sweep in float64. The result is bitwise the same for any
number of threads.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.text.phases import phase
from cpms.base.types import Floats
from cpms.certify.roundoff import compensated_additions, of_residual
from cpms.graph.graph import Graph
from cpms.problems.pagerank import Problem

_PARTS, _LEAST_PART, _MOST_PART = 32, 1 << 15, 1 << 19
"""Number of parts of a graph, and bounds of the rows and edges of a part: scheduling a smaller part would cost more
than its sums."""

_NONE = np.zeros(0)


def scaled_out_weight(graph: Graph) -> tuple[npt.NDArray[np.int64] | Floats, Floats]:
    """Return the out-weight of each node scaled by a power of two, which rounds nothing, and that power.

    The flow along an edge is the rank of its source over the scaled out-weight, times the weight of the edge and the
    power. Without the scale, a rank over an out-weight near the largest float64 would be subnormal.

    Returns
    -------
    scaled : ndarray of float64, shape (nodes,)
        From 0.5 to below 1, and 0 of dangling nodes; of a graph without weights its out-degrees, int64, as they are.
    powers : ndarray of float64, shape (nodes,), or (0,) without weights

    Examples
    --------
    >>> scaled, powers = scaled_out_weight(Graph.from_edges([0, 0], [0, 1], [1.0, 2.0]))
    >>> scaled.tolist(), powers.tolist()
    ([0.75, 0.0], [0.25, 1.0])
    """
    if graph.weights is None:
        return graph.out_degree, _NONE
    scaled, exponent = np.frexp(graph.out_weight)
    return scaled, np.ldexp(1.0, -exponent)


def apply_operator(problem: Problem, x: Floats) -> Floats:
    """Return G(x) = damping (P x + w s) + (1 - damping) v in float64.

    It shares no code with the engines. Rows are split into the same parts for any number of threads, so that the result
    is bitwise reproducible, and sums are compensated.

    Examples
    --------
    >>> apply_operator(Problem(Graph.from_edges([0], [1])), np.array([0.5, 0.5])).round(4).tolist()
    [0.2875, 0.7125]
    """
    applied = np.empty(problem.graph.nodes)
    _Recomputed(problem, x).change(applied=applied)
    return applied


def change_in_rows(problem: Problem, x: Floats, rows: tuple[int, int]) -> tuple[float, float, float]:
    """Return the sum, the sum of squares and the maximum of |G(x) - x| in rows ``rows[0]`` to ``rows[1]``.

    Examples
    --------
    >>> change_in_rows(Problem(Graph.from_edges([0, 1], [1, 0])), np.array([0.5, 0.5]), (0, 1))
    (0.0, 0.0, 0.0)
    """
    return _Recomputed(problem, x).change(rows=rows)


class _Recomputed:
    """G(x), row by row."""

    def __init__(self, problem: Problem, x: Floats) -> None:
        from cpms.base.compensated_loops import divide

        graph, self._problem, self._x = problem.graph, problem, x
        divisor, self._powers = scaled_out_weight(graph)
        contributions = self._contributions = np.empty(graph.nodes)
        nodes = threads.ranges(graph.nodes, at_least=_part_size(graph))
        self._dangling = _sum(threads.each(lambda part: divide(x, divisor, contributions, *part), nodes))

    def change(
        self, *, scale: float = 1.0, applied: Floats = _NONE, rows: tuple[int, int] | None = None
    ) -> tuple[float, float, float]:
        """Return sum, sum of squares times ``scale`` squared, and maximum of |G(x) - x|; write G(x) to ``applied``."""
        from cpms.base.compensated_loops import residual_norms

        problem, graph = self._problem, self._problem.graph
        weights = _NONE if graph.weights is None else graph.weights
        given = (
            *(graph.indptr, graph.sources, weights, self._powers, self._contributions, self._x),
            *(problem.damping, self._dangling, problem.sink_or_scalar, problem.teleport_or_scalar, scale, applied),
        )
        low, high = rows or (0, graph.nodes)
        parts = [(max(low, begin), min(high, end)) for begin, end in _parts(graph) if begin < high and end > low]
        with phase("certifying", len(parts)) as certifying:
            norms = certifying.counting(lambda part: residual_norms(*given, *part))
            found = threads.each(norms, parts) or [(0.0, 0.0, 0.0)]
        totals, squares, largest = zip(*found, strict=True)
        return _sum(totals), _sum(squares), max(largest)


def _sum(numbers: Sequence[float]) -> float:
    try:
        return math.fsum(numbers)
    except (OverflowError, ValueError):  # The sum is no number, or beyond float64.
        return sum(numbers)


def _part_size(graph: Graph) -> int:
    """Return the number of rows and edges of a part."""
    return min(max((graph.nodes + graph.edges) // _PARTS, _LEAST_PART), _MOST_PART)


def _parts(graph: Graph) -> list[tuple[int, int]]:
    """Split rows into parts of at most `_part_size` rows and edges, not counting the last row of each part."""
    rows, size = range(graph.nodes + 1), _part_size(graph)
    targets = range(size, graph.nodes + graph.edges, size)
    bounds = [bisect.bisect_left(rows, target, key=lambda row: row + int(graph.indptr[row])) for target in targets]
    return list(itertools.pairwise(dict.fromkeys([0, *bounds, graph.nodes])))


def residual_roundoff(graph: Graph) -> float:
    """Return a bound of the rounding error of `residual` in L1.

    Examples
    --------
    >>> residual_roundoff(Graph.from_edges([0], [1])) < 1e-14
    True
    """
    return of_residual(compensated_additions(max(graph.edges, graph.nodes)))


def residual(problem: Problem, x: Floats, norm: str = "l1") -> float:
    """Return the norm of G(x) - x, recomputed in float64.

    Examples
    --------
    >>> residual(Problem(Graph.from_edges([0, 1], [1, 0])), np.array([0.5, 0.5]))
    0.0
    """
    recomputed = _Recomputed(problem, x)
    l1, _, largest = recomputed.change()
    if norm == "l1" or not math.isfinite(l1):
        return l1
    if norm == "linf" or largest == 0.0:
        return largest
    scale = math.ldexp(1.0, -max(math.frexp(largest)[1], -1000))  # Unscaled squares may underflow.
    return math.sqrt(recomputed.change(scale=scale)[1]) / scale
