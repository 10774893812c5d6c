"""PageRank of a graph in one call: `cpms.PageRank` prepared, solved once and dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cpms.api.preparation import Certify
from cpms.api.prepared import PageRank
from cpms.api.request import METHODS as METHODS
from cpms.api.request import Dangling
from cpms.api.request import Method as Method
from cpms.api.result import Result
from cpms.backends.mpi.exchange import agreement
from cpms.base.text.keywords import checked_keywords
from cpms.base.types import Floats, Norm
from cpms.contracts.status import Step
from cpms.formats.formats import Format
from cpms.graph.graph import Graph
from cpms.precision.controller_specs import PrecisionGiven
from cpms.problems.personalization import NodeDistribution


@checked_keywords
def pagerank(
    graph: Graph | Any,
    *,
    method: Method = "power",
    storage: str | Format = "auto",
    layout: str = "auto",
    engine: str = "auto",
    damping: float = 0.85,
    tol: float = 1e-10,
    norm: Norm = "l1",
    max_iterations: int = 1000,
    iterations: int | None = None,
    personalization: NodeDistribution | None = None,
    dangling: Dangling = "teleport",
    start: Floats | None = None,
    controller: PrecisionGiven | None = None,
    certify: Certify = "auto",
    on_step: Callable[[Step], None] | None = None,
) -> Result:
    """Compute PageRank and certify it.

    To solve one graph several times, prepare it once: `cpms.PageRank`.

    Parameters
    ----------
    graph : Graph or object
        A data frame, a sparse matrix of SciPy or a graph of NetworkX becomes the graph that `cpms.load` makes of it. A
        pair of arrays, the sources and the targets of edges, becomes a graph by `cpms.DeviceGraph.from_edges` where
        they are in device memory or the engine is on a GPU, else by `cpms.Graph.from_edges`. Such a pair is the
        shortest way from edges to ranks.
    method : {"power", "refine"}
        Power iteration, or mixed-precision iterative refinement; see `cpms.solvers.refine`.
    storage : str or Format
        For ``power``, the format of the iterate and, in layouts that store them, of the matrix values; ``auto`` is
        fp64. For ``refine``, that of the residual; ``auto`` is the fastest: fp16, but fp32 on engine ``cpu`` below 2^17
        nodes, and e5m2 with error feedback on a GPU. A segment format stands for its first segment.
    layout : {"auto", "csr", "ell", "pattern", "coo"}
        ``auto`` is the pattern, or csr for weighted graphs; with an engine that has neither, its own.
    engine : str
        One of `cpms.engines.names`, or ``auto``: a CUDA device where there is one with room for the graph, else
        ``cpu``.
    damping : float
        The probability of following an edge, above 0 and below 1.
    tol : float
        A solve stops when the norm of the change falls below ``tol``, which is first tested after two iterations.
    norm : {"l1", "l2", "linf"}
        Norm of the change. The certificate is in the L1 norm, whatever ``norm`` is.
    max_iterations : int
        A solve that needs more ends with the status ``MAX_ITERATIONS``.
    iterations : int, optional
        Number of iterations, whatever the residual is.
    personalization : sequence of node ids, mapping of node id to weight, or array, optional
        Teleport distribution; scaled to sum 1. An array, a sparse vector of SciPy, or a list of floats, has one weight
        a node; an array in device memory is copied to main memory, where answers are certified.
    dangling : {"teleport", "uniform"}, or a distribution in the form of ``personalization``
        Where the mass of dangling nodes goes.
    start : array of float64, shape (nodes,), optional
        First iterate, scaled to mass 1; uniform by default. One in device memory, known by
        ``__cuda_array_interface__`` or DLPack, is not copied if the engine works on the device. Method ``refine``
        then begins with outer steps, also on graphs that a reduced problem would solve.
    controller : Controller, RefinementPolicy, str or mapping, optional
        Precision policy of the method: by default the paper's rule, or `cpms.AdaptiveReduction`. Text or a table is
        read by `cpms.precision.controller_specs.controller_of`, such as ``"at_most:read=2,inner=threshold"``.
    certify : {"auto", "device", "host"}
        Where the residual of the answer is recomputed: ``auto`` is the device where the engine holds the graph there,
        else the processors. Both are float64 with compensated sums by code that no engine shares.
    on_step : callable, optional
        Called with each iteration's `Step`, for progress bars.

    Returns
    -------
    Result
        Not converging is a value of its status, not an error.

    Raises
    ------
    InputError
        If an argument is out of range or names a node that does not exist.
    UnsupportedError
        If the engine cannot do this combination.
    UnavailableError
        If the engine cannot run on this machine.

    Notes
    -----
    Solves x = damping (P x + s w) + (1 - damping) v. P is the transposed adjacency matrix with each column divided by
    its sum, s the sum of x over nodes without out-edges, w the distribution that ``dangling`` names, and v the teleport
    distribution. This is Algorithm 1 of Grützmacher et al., except that s is damped, too: line 6, as printed, leaves
    that out, and then the sum of x grows.

    Examples
    --------
    >>> import cpms
    >>> graph = cpms.Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0])
    >>> result = cpms.pagerank(graph, storage="cpms4", layout="csr")
    >>> result.converged, sum(result.iterations_by_bits.values()) == result.iterations
    (True, True)
    """
    with agreement.same_call(locals()):
        prepared = PageRank(
            graph,
            method=method,
            storage=storage,
            layout=layout,
            engine=engine,
            damping=damping,
            controller=controller,
            certify=certify,
        )
        return prepared.solve(
            personalization=personalization,
            tol=tol,
            norm=norm,
            max_iterations=max_iterations,
            iterations=iterations,
            dangling=dangling,
            start=start,
            on_step=on_step,
        )
