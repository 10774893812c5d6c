"""PageRank of a graph: a request resolved, solved by a method on an engine, and certified.

The equation is solved by power iteration (Brin and Page, 1998) or by mixed-precision iterative refinement; both run on
the contracts of `cpms.contracts` alone. The residual of the answer is recomputed in float64 by code that no engine
shares, which costs about one sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cpms.api.request import METHODS as METHODS
from cpms.api.request import Dangling, Request, resolve
from cpms.api.request import Method as Method
from cpms.api.result import Result
from cpms.backends.mpi.exchange import agreement
from cpms.base import work_clock
from cpms.base.errors import InputError
from cpms.base.types import Floats, Norm
from cpms.base.validation import described
from cpms.certify import residual
from cpms.certify.certificate import Certifier, mass
from cpms.contracts.operator import Operator
from cpms.contracts.status import Step
from cpms.formats.formats import Format
from cpms.graph.graph import Graph, require_graph
from cpms.precision.controllers import Controller
from cpms.precision.refinement_policy import RefinementPolicy
from cpms.solvers.power import power
from cpms.solvers.refine import reduce_then_iterate
from cpms.storage.device import copy_to_host, on_device


def pagerank(
    graph: Graph,
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
    personalization: Sequence[int | str] | Mapping[int | str, float] | Floats | None = None,
    dangling: Dangling = "teleport",
    start: Floats | None = None,
    controller: Controller | RefinementPolicy | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Result:
    """Compute PageRank and certify it.

    Parameters
    ----------
    graph : Graph
    method : {"power", "refine"}
        Power iteration, or mixed-precision iterative refinement; see `cpms.solvers.refine`.
    storage : str or Format
        Of ``power``: format of the iterate and, in layouts that store them, of the matrix values;
        ``auto`` is fp64. Of ``refine``: format of the residual; ``auto`` is the fastest: fp16, but fp32 on engine
        ``cpu`` below 2^17 nodes, and e5m2 with error feedback on a GPU. A segment format stands for its first
        segment.
    layout : {"auto", "csr", "ell", "pattern", "coo"}
        ``auto`` is the pattern, or csr for weighted graphs; with an engine that has neither, its own.
    engine : str
        One of `cpms.engines.names`, or ``auto``: a CUDA device where there is one with room for the
        graph, else ``cpu``.
    damping : float
    tol : float
        Stop when the norm of the change falls below it; first tested after two iterations.
    norm : {"l1", "l2", "linf"}
    max_iterations : int
    iterations : int, optional
        Do exactly so many, whatever the residual is.
    personalization : sequence of node ids, mapping of node id to weight, or array, optional
        Teleport distribution; scaled to sum 1. An array, or a list of floats, has one weight a node; one in
        device memory is copied to main memory, where answers are certified.
    dangling : {"teleport", "uniform"}, or a distribution in the form of ``personalization``
        Where the mass of dangling nodes goes.
    start : array of float64, shape (nodes,), optional
        First iterate, scaled to mass 1; uniform by default. One in device memory, known by
        ``__cuda_array_interface__`` or DLPack, is not copied if the engine works on the device. Method ``refine``
        then begins with outer steps, also on graphs that a reduced problem would solve.
    controller : Controller or RefinementPolicy, optional
        Precision policy of the method: the paper's rule, or `cpms.AdaptiveReduction`.
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
    Solves x = damping (P x + w s) + (1 - damping) v as in Algorithm 1 of Grützmacher et al., with
    the dangling mass s damped, which its line 6 as printed leaves out and mass needs.

    Examples
    --------
    >>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0])
    >>> result = pagerank(graph, storage="cpms4", layout="csr")
    >>> result.converged, sum(result.iterations_by_bits.values()) == result.iterations
    (True, True)
    """
    agreement.require_same_call(locals())
    compiled_before_s = work_clock.compiled_s()
    require_graph(graph)
    if on_step is not None and not callable(on_step):
        raise InputError(f"on_step is {described(on_step)}; give a function of a cpms.Step")
    request = resolve(
        graph,
        method=method,
        storage=storage,
        layout=layout,
        engine=engine,
        damping=damping,
        tol=tol,
        norm=norm,
        max_iterations=max_iterations,
        iterations=iterations,
        personalization=personalization,
        dangling=dangling,
        start=start,
        precision=controller,
    )
    return solve_request(request, on_step, compiled_before_s=compiled_before_s)


def solve_request(
    request: Request, on_step: Callable[[Step], None] | None = None, *, compiled_before_s: float
) -> Result:
    """Prepare, solve and certify one problem; ``compiled_before_s`` is the work clock's when the call began."""
    problem, stopping = request.problem, request.stopping
    certifier, answer = Certifier(problem, stopping), _Answer()
    began = work_clock.now()
    if request.method == "refine":
        refinement = request.engine.refinement(problem)
        request = request.with_residual_format(refinement.default_residual_format)
        refinement.warm_up(request.policy.init()[0].storage)
        prepared, matrix_bytes = work_clock.now(), refinement.nbytes
        ranks, status, history = reduce_then_iterate(
            *(refinement, request.start, request.policy, stopping, certifier, answer.to_host, on_step),
            skip_reduction=request.start is not None or stopping.iterations is not None,
        )
    else:
        operator = request.engine.prepare(problem, request.storage, request.layout)
        prepared, matrix_bytes = work_clock.now(), operator.nbytes
        ranks, status, history = power(
            *(operator, request.initial_guess, request.controller, stopping, on_step),
            confirmed=certifier.is_below_tolerance,
            answer=answer.read,
        )
    solve_s = work_clock.now() - prepared - certifier.seconds
    status, residual_l1 = certifier.certify(ranks, status)
    return Result(
        graph=problem.graph,
        ranks=ranks,
        status=status,
        history=tuple(history),
        method=request.method,
        storage=request.storage.name,
        layout=request.layout,
        engine=request.engine.name,
        damping=problem.damping,
        tol=stopping.tol,
        norm=stopping.norm,
        residual_l1=residual_l1,
        residual_roundoff=residual.residual_roundoff(problem.graph),
        mass=mass(ranks),
        prepare_s=prepared - began,
        solve_s=solve_s,
        certify_s=certifier.seconds,
        matrix_bytes=matrix_bytes,
        device_ranks=answer.scaled_device_ranks(),
        compile_s=work_clock.compiled_s() - compiled_before_s,
    )


class _Answer:
    """Copies answers to the host, and holds the last one in device memory if the engine has it there."""

    def __init__(self) -> None:
        self.device_ranks: Any | None = None

    def read(self, operator: Operator[Any], x: Any, segments: int) -> Floats:
        """Return a vector of an operator on the host."""
        self.device_ranks = operator.read_device(x, segments)
        return operator.read(x, segments) if self.device_ranks is None else copy_to_host(self.device_ranks)

    def to_host(self, x: Any) -> Floats:
        """Return an array, wherever it is, on the host."""
        self.device_ranks = x if on_device(x) else None
        return copy_to_host(x) if on_device(x) else x

    def scaled_device_ranks(self) -> Any | None:
        """Return the last answer on the device, scaled to mass 1; None if it was on the host."""
        return None if self.device_ranks is None else self.device_ranks / self.device_ranks.sum()
