"""Personalised PageRank of many queries in one call: `cpms.PageRank` prepared, its queries solved, and dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cpms.api.prepared import PageRank
from cpms.api.request import Dangling, Method, Personalization
from cpms.api.result import Result
from cpms.base.text.keywords import checked_keywords
from cpms.base.types import Floats, Norm
from cpms.formats.formats import Format
from cpms.graph.graph import Graph
from cpms.precision.controller_specs import PrecisionGiven


@checked_keywords
def personalized_pagerank(
    graph: Graph | Any,
    queries: Sequence[Personalization],
    *,
    method: Method = "power",
    storage: str | Format = "auto",
    damping: float = 0.85,
    tol: float = 1e-10,
    norm: Norm = "l1",
    max_iterations: int = 1000,
    dangling: Dangling = "teleport",
    start: Floats | None = None,
    engine: str = "auto",
    width: int | None = None,
    policy: PrecisionGiven | None = None,
) -> list[Result]:
    """Compute one personalised PageRank a query, ``width`` of them at a time.

    Queries of a batch share every read of the matrix. Method ``refine`` on engine ``cpu`` solves queries one after the
    other, since the caches of processors hold one iterate; such queries share the preparation of the matrix alone. On
    graphs with weights, queries share reads of the matrix there, too.

    Parameters
    ----------
    graph : Graph or object
        As for `cpms.pagerank`.
    queries : sequence
        Each a node id, a list of node ids, or a mapping of node id to weight: its teleport distribution.
    method : {"power", "refine"}
        Power iteration in float64, or mixed-precision iterative refinement; see `cpms.solvers.refine`.
    storage : str or Format
        Of ``refine``: format of the residual; ``auto`` is that of `cpms.pagerank`. Power iteration is in fp64.
    damping, tol, norm, max_iterations, dangling
        As in `cpms.pagerank`.
    start : ndarray of float64, shape (nodes,), optional
        First iterate of every query, of sum 1; uniform by default. See `penalised_start`. Method ``refine``
        ignores it on graphs that a reduced problem solves.
    engine : str
        An engine with batches, or ``auto``; one query with ``auto`` is solved by `cpms.pagerank`.
    width : int, optional
        Number of queries that share a sweep; more of them save reads of the matrix, and each needs 16 to 36 bytes a
        node. By default the fastest number that fits into memory.
    policy : RefinementPolicy, str or mapping, optional
        Precision policy of ``refine``, the same for each query by itself; text as in `cpms.pagerank`.

    Returns
    -------
    list of Result
        In the order of the queries; ``solve_s`` is the time from the start of the batch (of the query, if queries are
        solved one after the other) to the end of the query, without the copy of ranks to main memory.

    Raises
    ------
    InputError
        If a query names a node twice or one that does not exist; the error names the index of the query.
    UnsupportedError
        If the engine takes no batches, none of this method, or none of graphs with weights.

    Examples
    --------
    >>> import cpms
    >>> graph = cpms.Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0])
    >>> [result.top(1)[0][0] for result in cpms.personalized_pagerank(graph, [0, [1, 2], {3: 1.0}])]
    [0, 2, 0]
    """
    prepared = PageRank(graph, method=method, storage=storage, engine=engine, damping=damping, controller=policy)
    return prepared.solve_many(
        queries, tol=tol, norm=norm, max_iterations=max_iterations, dangling=dangling, start=start, width=width
    )
