"""Judging a ranking: top-k, agreement of two rankings, and the residual of an answer."""

from __future__ import annotations

import bisect
import itertools
import math

import numpy as np
import numpy.typing as npt

from cpms import threads
from cpms.engine import Problem
from cpms.errors import InputError
from cpms.graph import Graph
from cpms.largest import topk
from cpms.roundoff import of_residual, pairwise_additions
from cpms.scalars import whole

Floats = npt.NDArray[np.float64]
_PARTS, _LEAST_PART, _MOST_PART = 16, 1 << 17, 1 << 19
"""Into how many parts a graph is cut, if it can be, and rows and edges in one: of few, threads wait for the
interpreter's lock more than they work, and of many each needs much memory."""
_TIED = 1e-9
"""Of a score: others so near are equal."""


def top_k(scores: Floats, k: int) -> npt.NDArray[np.int64]:
    """Return the indices of the ``k`` largest scores, in the order of `cpms.topk`: ties by smaller index, NaN last.

    Parameters
    ----------
    scores : ndarray of float64, shape (n,)
    k : int
        At least 0; of more than n, all n are returned.

    Raises
    ------
    InputError
        If k is negative.

    Examples
    --------
    >>> top_k(np.array([0.2, 0.4, 0.4, 0.1]), 3).tolist()
    [1, 2, 0]
    """
    if whole("k", k) < 0:
        raise InputError(f"the top {k} cannot be listed; k must be 0 or more")
    places: npt.NDArray[np.int64] = topk(scores, min(k, len(scores))).places
    return places


def top_k_overlap(a: Floats, b: Floats, k: int) -> float:
    """Return the share of the top ``k`` of ``b`` that may be among the top ``k`` of ``a``.

    These are the nodes whose score in ``a`` is no less than its k-th largest, but for one part in 10^9: which of equals
    come in, rounding decides.

    Examples
    --------
    >>> top_k_overlap(np.array([3.0, 2.0, 1.0]), np.array([3.0, 1.0, 2.0]), 2)
    0.5
    >>> top_k_overlap(np.array([3.0, 2.0, 2.0]), np.array([3.0, 1.0, 2.0]), 2)
    1.0
    """
    count = min(k, len(a))
    if count == 0:
        return 1.0
    least = a[top_k(a, count)[-1]]
    lowest = least - _TIED * abs(least) if math.isfinite(least) else least
    return float((a[top_k(b, count)] >= lowest).mean())


def kendall_tau(a: Floats, b: Floats, k: int | None = None) -> float:
    """Return Kendall's tau-b of two score vectors, over the top ``k`` of ``a`` (all by default).

    Examples
    --------
    >>> round(kendall_tau(np.array([3.0, 2.0, 1.0]), np.array([3.0, 1.0, 2.0])), 3)
    0.333
    """
    from scipy.stats import kendalltau

    nodes = slice(None) if k is None else top_k(a, k)
    return float(kendalltau(a[nodes], b[nodes]).statistic)


def scaled_out_weight(graph: Graph) -> tuple[Floats, Floats]:
    """Return the out-weight of each node scaled by a power of two, which rounds nothing, and that power.

    What flows along an edge is the rank of its source divided by the one, times its weight times the other: divided by
    an out-weight near the largest float64, ranks would be subnormal.

    Returns
    -------
    scaled : ndarray of float64, shape (nodes,)
        From 0.5 to below 1, and 0 of dangling nodes; of a graph without weights its out-degrees as they are.
    powers : ndarray of float64, shape (nodes,), or (0,) without weights

    Examples
    --------
    >>> scaled, powers = scaled_out_weight(Graph.from_edges([0, 0], [0, 1], [1.0, 2.0]))
    >>> scaled.tolist(), powers.tolist()
    ([0.75, 0.0], [0.25, 1.0])
    """
    if graph.weights is None:
        return graph.out_weight, np.zeros(0)
    scaled, exponent = np.frexp(graph.out_weight)
    return scaled, np.ldexp(1.0, -exponent)


def apply_operator(problem: Problem, x: Floats) -> Floats:
    """Return G(x) = damping (P x + w s) + (1 - damping) v in float64, with NumPy alone.

    This is the referee: it shares no arithmetic with the engines. Threads take some rows at a time, whatever their
    number, so that the bits are always the same and little memory is needed beside the graph.

    Examples
    --------
    >>> apply_operator(Problem(Graph.from_edges([0], [1])), np.array([0.5, 0.5])).round(4).tolist()
    [0.2875, 0.7125]
    """
    graph = problem.graph
    divisor, powers = scaled_out_weight(graph)
    share, applied = np.zeros(graph.nodes), np.zeros(graph.nodes)
    out_degree, in_degree, size = graph.out_degree, graph.in_degree, _part_size(graph)
    rooms: list[tuple[npt.NDArray[np.intp], Floats]] = []
    dangling = x[graph.dangling_nodes].sum()

    def divide(part: tuple[int, int]) -> None:
        here = slice(*part)
        np.divide(x[here], divisor[here], out=share[here], where=out_degree[here] > 0)

    def add(part: tuple[int, int], sums: Floats) -> None:
        first, last = graph.indptr[part[0]], graph.indptr[part[1]]
        filled = np.flatnonzero(in_degree[slice(*part)])
        if len(filled) == 0:
            return
        # Memory that is used again: to get it from the system would take longer than to fill it.
        try:
            room = rooms.pop()
        except IndexError:
            room = np.empty(size, np.intp), np.empty(size)
        if len(room[0]) < last - first:
            room = np.empty(last - first, np.intp), np.empty(last - first)
        sources, terms = room[0][: last - first], room[1][: last - first]
        # Not left to `take`, which would hold the interpreter's lock meanwhile.
        sources[:] = graph.sources[first:last]
        np.take(share, sources, out=terms, mode="clip")
        if graph.weights is not None:
            terms *= graph.weights[first:last] * powers.take(sources)
        sums[filled] = np.add.reduceat(terms, graph.indptr[slice(*part)][filled] - first)
        rooms.append(room)

    def put(part: tuple[int, int]) -> None:
        here = slice(*part)
        sums = applied[here]
        add(part, sums)
        sums += dangling * _within(problem.sink_or_scalar, here)
        sums *= problem.damping
        sums += (1.0 - problem.damping) * _within(problem.teleport_or_scalar, here)

    threads.each(divide, threads.stretches(graph.nodes, at_least=size, parts=graph.nodes))
    threads.each(put, _parts(graph))
    return applied


def _within(values: Floats, here: slice) -> Floats:
    """Return the values of some nodes; one for all stays one."""
    return values if len(values) == 1 else values[here]


def _part_size(graph: Graph) -> int:
    """Return how many rows and edges a thread takes at a time."""
    return min(max((graph.nodes + graph.edges) // _PARTS, _LEAST_PART), _MOST_PART)


def _parts(graph: Graph) -> list[tuple[int, int]]:
    """Cut rows into parts of fewer rows and edges than `_part_size`, but for the last row of each, of any length."""
    before, size = range(graph.nodes + 1), _part_size(graph)
    wanted = range(size, graph.nodes + graph.edges, size)
    cuts = [bisect.bisect_left(before, most, key=lambda row: row + int(graph.indptr[row])) for most in wanted]
    return list(itertools.pairwise(dict.fromkeys([0, *cuts, graph.nodes])))


def residual_roundoff(graph: Graph) -> float:
    """Return how much rounding may change `residual`, in L1.

    Examples
    --------
    >>> residual_roundoff(Graph.from_edges([0], [1])) < 1e-14
    True
    """
    return of_residual(pairwise_additions(max(graph.edges, graph.nodes)))


def residual(problem: Problem, x: Floats, norm: str = "l1") -> float:
    """Return the norm of G(x) - x, recomputed in float64.

    Examples
    --------
    >>> residual(Problem(Graph.from_edges([0, 1], [1, 0])), np.array([0.5, 0.5]))
    0.0
    """
    change = apply_operator(problem, x)

    def compare(part: tuple[int, int]) -> None:
        here = change[slice(*part)]
        here -= x[slice(*part)]
        np.abs(here, out=here)

    threads.each(compare, threads.stretches(len(x), at_least=_part_size(problem.graph), parts=len(x)))
    if norm == "l1":
        return float(change.sum())
    largest = float(change.max())
    if norm == "linf" or not 0.0 < largest < np.inf:
        return largest
    return largest * float(np.sqrt(((change / largest) ** 2).sum()))  # whose squares alone may be too small
