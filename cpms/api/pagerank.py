"""PageRank of a graph: what was asked for, solved by a method on an engine, and certified."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from cpms import engines
from cpms.api.result import Result
from cpms.backends.mpi.exchange import agreement
from cpms.base import work_clock
from cpms.base.errors import InputError, UnsupportedError
from cpms.base.text.suggestions import unknown
from cpms.base.types import DanglingRule, Floats, Norm
from cpms.base.validation import described
from cpms.certify import residual
from cpms.certify.certificate import Certifier, mass
from cpms.contracts.operator import Operator
from cpms.contracts.status import Step
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import FP64, Format, format_of
from cpms.graph.graph import Graph, require_graph
from cpms.precision.controllers import Controller, default_controller
from cpms.precision.refinement_policy import RefinementPolicy, default_policy, planned_storage
from cpms.problems.initial_guess import initial_guess
from cpms.problems.pagerank import Problem
from cpms.problems.personalization import teleport_distribution
from cpms.solvers.power import power
from cpms.solvers.refine import refined
from cpms.storage.device import copy_to_host, on_device, to_host

Method = Literal["power", "refine"]
METHODS: tuple[str, ...] = get_args(Method)


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
    dangling: DanglingRule = "teleport",
    start: Floats | None = None,
    controller: Controller | RefinementPolicy | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Result:
    """Compute PageRank and certify it.

    Parameters
    ----------
    graph : Graph
    method : {"power", "refine"}
        Power iteration, or sweeps on the residual that read few bits; see `cpms.solvers.refine`.
    storage : str or Format
        Of ``power``: format of the iterate and, in layouts that store them, of the matrix values;
        ``auto`` is fp64. Of ``refine``: format of the residual; ``auto`` is the fastest: fp16, but fp32 on engine
        ``cpu`` below 2^17 nodes, and e5m2 where a GPU's nodes keep what rounding loses; of a segment format its
        first segment.
    layout : {"auto", "csr", "ell", "pattern", "coo"}
        ``auto`` is the pattern, or csr for weighted graphs; with an engine that has neither, its own.
    engine : str
        One of `cpms.engines.names`, or ``auto``: a CUDA device where there is one with room for the
        graph, else ``cpu``.
    damping : float
    tol : float
        Stop when the norm of the change falls below it; first looked at after two iterations.
    norm : {"l1", "l2", "linf"}
    max_iterations : int
    iterations : int, optional
        Do exactly so many, whatever the residual.
    personalization : sequence of node ids, mapping of node id to weight, or array, optional
        Teleport distribution; scaled to sum 1. An array, or a list of floats, has one weight a node; one in
        device memory is brought to main memory, where answers are certified.
    dangling : {"teleport", "uniform"}
        Where the mass of dangling nodes goes.
    start : array of float64, shape (nodes,), optional
        First iterate, scaled to mass 1; uniform by default. One in device memory, known by
        ``__cuda_array_interface__`` or DLPack, stays there if the engine works there. Method ``refine`` then
        goes in rounds from there, even where passes over the graph or its core alone would do.
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
    given = storage_asked_for(storage, method)
    teleport = None if personalization is None else teleport_distribution(graph, personalization)
    problem = Problem(graph, damping, teleport, dangling)
    stopping = Stopping(tol, norm, max_iterations, iterations)
    executor = engines.chosen(engine, problem, method, storage=given or FP64, layout=resolved_layout(graph, layout))
    if method not in executor.methods:
        raise UnsupportedError(f"engine {executor.name} has no method {method!r}; it has {', '.join(executor.methods)}")
    start = start if executor.takes_device_arrays else to_host(start)
    first = None if start is None else initial_guess(graph, start)
    referee, kept = Certifier(problem, stopping), _Kept()
    began = work_clock.now()
    if method == "refine":
        policy, chosen = _refining(controller, given, executor.default_residual_format)
        chosen_layout = _refine_layout(graph, layout)
        refinement = executor.refinement(problem)
        if controller is None and given is None and refinement.default_residual_format:
            policy, chosen = _refining(None, None, refinement.default_residual_format)
        refinement.warm_up(policy.init()[0].storage)
        prepared, matrix_bytes = work_clock.now(), refinement.nbytes
        solved = refined(
            *(refinement, first, policy, stopping, referee, kept.of, on_step),
            in_rounds=start is not None or iterations is not None,
        )
    else:
        chosen, chosen_layout = given or FP64, resolved_layout(graph, layout)
        if layout == "auto" and chosen_layout not in executor.layouts:
            chosen_layout = executor.layouts[0]
        reason = executor.unsupported(problem, chosen, chosen_layout)
        if reason:
            raise UnsupportedError(reason)
        rule = _controller(controller, chosen)
        first = initial_guess(graph, None) if first is None else first
        operator = executor.prepare(problem, chosen, chosen_layout)
        prepared, matrix_bytes = work_clock.now(), operator.nbytes
        solved = power(operator, first, rule, stopping, on_step, confirmed=referee.is_below_tolerance, answer=kept.read)
    solve_s = work_clock.now() - prepared - referee.seconds
    ranks, status, history = solved
    checked, residual_l1 = referee.certify(ranks, status)
    return Result(
        graph=graph,
        ranks=ranks,
        status=checked,
        history=tuple(history),
        method=method,
        storage=chosen.name,
        layout=chosen_layout,
        engine=executor.name,
        damping=problem.damping,
        tol=stopping.tol,
        norm=norm,
        residual_l1=residual_l1,
        residual_roundoff=residual.residual_roundoff(graph),
        mass=mass(ranks),
        prepare_s=prepared - began,
        solve_s=solve_s,
        certify_s=referee.seconds,
        matrix_bytes=matrix_bytes,
        device_ranks=kept.scaled(),
        compile_s=work_clock.compiled_s() - compiled_before_s,
    )


class _Kept:
    """Keeps the last answer in device memory, if it was there."""

    def __init__(self) -> None:
        self.answer: Any | None = None

    def read(self, operator: Operator[Any], x: Any, segments: int) -> Floats:
        self.answer = operator.read_device(x, segments)
        if self.answer is None:
            return operator.read(x, segments)
        return copy_to_host(self.answer)

    def of(self, x: Any) -> Floats:
        self.answer = x if on_device(x) else None
        return copy_to_host(x) if on_device(x) else x

    def scaled(self) -> Any | None:
        return None if self.answer is None else self.answer / self.answer.sum()


def storage_asked_for(storage: str | Format, method: str) -> Format | None:
    """Return the format, given by its name or not; None: what method and engine choose.

    Raises
    ------
    InputError
        If there is no such method or format.
    """
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(unknown("method", method, METHODS))
    if isinstance(storage, str) and storage == "auto":
        return None
    return format_of(storage)


def _controller(controller: Controller | RefinementPolicy | None, storage: Format) -> Controller:
    if isinstance(controller, RefinementPolicy):
        raise InputError("this controller plans rounds of method 'refine'; give a Controller, or method='refine'")
    if not isinstance(controller, Controller | None):
        raise InputError(f"controller is {described(controller)}; give one such as cpms.Threshold()")
    return controller or default_controller(storage)


def _refining(
    controller: Controller | RefinementPolicy | None, given: Format | None, otherwise: Format
) -> tuple[RefinementPolicy, Format]:
    """Return a policy, and the format with which it begins; without one that which was given, or else another."""
    if isinstance(controller, Controller):
        raise InputError(
            "this controller raises levels of method 'power'; give a RefinementPolicy policy, or method='power'"
        )
    if not isinstance(controller, RefinementPolicy | None):
        raise InputError(
            f"controller is {described(controller)}; give a policy such as cpms.AdaptiveReduction((cpms.FP16,))"
        )
    chosen = planned_storage(controller, given, otherwise)
    return controller or default_policy(chosen), chosen


def _refine_layout(graph: Graph, layout: str) -> str:
    if graph.weights is not None:
        raise UnsupportedError(
            f"method 'refine' stores no values, but {graph.name} has weights; use power, or ignore them"
        )
    if not isinstance(layout, str) or layout not in ("auto", "pattern"):
        raise UnsupportedError(f"method 'refine' has the layout 'pattern', not {described(layout)}; use auto")
    return "pattern"


def resolved_layout(graph: Graph, layout: str) -> str:
    """Return the layout that ``auto`` stands for, or the one given."""
    if not isinstance(layout, str):
        raise InputError(f"layout is {described(layout)}; give the name of one, such as csr, or auto")
    if layout != "auto":
        return layout
    return "pattern" if graph.weights is None else "csr"
