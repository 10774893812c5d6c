"""The request of a solve: what a caller gave, resolved once, before an engine prepares anything.

A solve of `cpms.PageRank` names a method, a storage format, a layout, an engine, a precision policy and a start, each
of which may be ``auto`` or missing and depends on the others. `resolve` decides them together and refuses impossible
combinations; `resolve_again` makes the request of a further solve from the first one, with the same decisions. All code
behind them reads a frozen `Request` and decides nothing again, but for one choice that rests on the prepared graph
(`Request.with_residual_format`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from cpms import engines
from cpms.base.errors import InputError, UnsupportedError
from cpms.base.text.suggestions import require_one_of
from cpms.base.types import DanglingRule, Floats, Norm
from cpms.base.validation import described
from cpms.contracts.batch import Query
from cpms.contracts.engine import Engine
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import FP64, FloatFormat, Format, format_of
from cpms.formats.quantization import quantiser
from cpms.graph.graph import Graph
from cpms.precision.controllers import Controller, default_controller
from cpms.precision.refinement_policy import RefinementPolicy, default_policy, planned_formats, planned_storage
from cpms.problems.initial_guess import initial_guess
from cpms.problems.pagerank import Problem
from cpms.problems.personalization import NodeDistribution, dangling_rule, teleport_distribution
from cpms.storage.device import host_float64, uniform_on_device

Method = Literal["power", "refine"]
METHODS: tuple[str, ...] = get_args(Method)
Personalization = int | str | Sequence[int | str] | Mapping[int | str, float]
"""The teleport distribution of a query, as a caller may give it."""
Dangling: TypeAlias = DanglingRule | NodeDistribution
"""Where the mass of dangling nodes goes: by a rule, or to a distribution of its own."""


@dataclass(frozen=True, eq=False)
class Request:
    """A solve, or a batch of solves, with every choice made.

    Parameters
    ----------
    problem : Problem
    method : {"power", "refine"}
    engine : Engine
    storage : Format
        Of ``power`` the format of the iterate, of ``refine`` that of the residual with which the policy begins.
    layout : str
    precision : Controller or RefinementPolicy
        The level controller of ``power``, or the policy of ``refine``.
    stopping : Stopping
    start : array of float64, shape (nodes,), or None
        Initial guess of mass 1. None: none was given to method ``refine``, which may then solve by a reduced problem.
    storage_by_default : bool
        Whether the caller gave neither a format nor a policy.
    queries : tuple of Query, or None
        Teleport distributions of a batch; None: one solve with the problem's own.
    """

    problem: Problem
    method: Method
    engine: Engine
    storage: Format
    layout: str
    precision: Controller | RefinementPolicy
    stopping: Stopping
    start: Floats | None
    storage_by_default: bool
    queries: tuple[Query, ...] | None = None

    def with_residual_format(self, preferred: FloatFormat | None) -> Request:
        """Return the request with the residual format that the prepared graph prefers, where none was given."""
        if preferred is None or not self.storage_by_default:
            return self
        storage = format_of(preferred)
        return replace(self, storage=storage, precision=default_policy(storage))

    def with_graph(self, graph: Graph) -> Request:
        """Return the request on a graph of the same nodes."""
        return replace(self, problem=replace(self.problem, graph=graph))

    @property
    def stated(self) -> dict[str, Any]:
        """What a result states of its request."""
        return {
            "graph": self.problem.graph,
            "method": self.method,
            "storage": self.storage.name,
            "layout": self.layout,
            "engine": self.engine.name,
            "damping": self.problem.damping,
            "tol": self.stopping.tol,
            "norm": self.stopping.norm,
        }

    @property
    def initial_guess(self) -> Floats:
        """The start of power iteration or of a batch, which always have one."""
        assert self.start is not None  # noqa: S101
        return self.start

    @property
    def controller(self) -> Controller:
        """The level controller of method ``power``."""
        assert isinstance(self.precision, Controller)  # noqa: S101
        return self.precision

    @property
    def policy(self) -> RefinementPolicy:
        """The precision policy of method ``refine``."""
        assert isinstance(self.precision, RefinementPolicy)  # noqa: S101
        return self.precision


def resolve(
    graph: Graph,
    *,
    method: Method,
    storage: str | Format,
    engine: str,
    damping: float,
    tol: float,
    norm: Norm,
    max_iterations: int,
    dangling: Dangling,
    start: Floats | None,
    precision: Controller | RefinementPolicy | None,
    layout: str = "auto",
    iterations: int | None = None,
    personalization: NodeDistribution | None = None,
    queries: Iterable[Personalization] | None = None,
) -> Request:
    """Decide everything that a solve needs; parameters are those of `cpms.PageRank` and its solves.

    One query for engine ``auto`` has no other query to share the matrix with, so it becomes a solve of its own.

    Raises
    ------
    InputError, UnsupportedError, UnavailableError
        As `cpms.pagerank` does.

    Examples
    --------
    >>> request = resolve(
    ...     Graph.from_edges([0, 1], [1, 0]), method="refine", storage="auto", engine="cpu", damping=0.85, tol=1e-10,
    ...     norm="l1", max_iterations=1000, dangling="teleport", start=None, precision=None)
    >>> request.layout, request.storage.name, type(request.policy).__name__
    ('pattern', 'fp32', 'AdaptiveReduction')
    """
    given = requested_storage(storage, method)
    batch: tuple[Query, ...] | None = None
    if queries is not None:
        require_batchable(method, given, precision)
        batch = _parsed(graph, queries)
        if len(batch) == 1 and isinstance(engine, str) and engine == "auto":
            personalization, batch = batch[0].teleport(graph.nodes), None
    teleport = None if personalization is None else teleport_distribution(graph, personalization)
    problem = Problem(graph, damping, teleport, dangling_rule(graph, dangling))
    stopping = Stopping(tol, norm, max_iterations, iterations)
    of_graph = resolved_layout(graph, layout)
    work: Literal["power", "refine", "batch"] = "batch" if batch is not None else method
    executor = engines.chosen(engine, problem, work, storage=given or FP64, layout=of_graph)
    refusal = executor.refuses_weights(problem, work)
    if refusal:
        raise UnsupportedError(refusal)
    if batch is None and method not in executor.methods:
        raise UnsupportedError(f"engine {executor.name} has no method {method!r}; it has {', '.join(executor.methods)}")
    guess = _guess(graph, executor, start, required=method == "power" or batch is not None, batch=batch is not None)
    choice: tuple[Controller | RefinementPolicy, Format, str]
    if method == "refine":
        choice = _refine_choice(graph, layout, precision, given, executor.default_residual_format)
        _require_readable(executor, choice[0], batch=batch is not None)
    elif batch is not None:
        choice = _controller(precision, FP64), FP64, of_graph
    else:
        choice = _power_choice(executor, problem, layout, precision, given or FP64)
    return Request(
        problem=problem,
        method=method,
        engine=executor,
        storage=choice[1],
        layout=choice[2],
        precision=choice[0],
        stopping=stopping,
        start=guess,
        storage_by_default=given is None and precision is None,
        queries=batch,
    )


def resolve_again(
    decided: Request,
    *,
    tol: float,
    norm: Norm,
    max_iterations: int,
    dangling: Dangling,
    start: Floats | None,
    iterations: int | None = None,
    personalization: NodeDistribution | None = None,
    queries: Iterable[Personalization] | None = None,
) -> Request:
    """Return the request of another solve with the engine, format, layout and policy of an earlier one.

    Nothing is decided again: memory that a preparation occupies does not count against the engine that holds it. A
    single query with a request that is no batch becomes a solve of its own, as in `resolve`.

    Raises
    ------
    InputError
        If an argument is out of range or names a node that does not exist.

    Examples
    --------
    >>> options = {"tol": 1e-10, "norm": "l1", "max_iterations": 1000, "dangling": "teleport", "start": None}
    >>> first = resolve(
    ...     Graph.from_edges([0, 1], [1, 0]), method="power", storage="auto", engine="cpu", damping=0.85,
    ...     precision=None, **options)
    >>> again = resolve_again(first, personalization=[1], **options)
    >>> again.engine is first.engine, again.problem.teleport.tolist()
    (True, [0.0, 1.0])
    """
    graph = decided.problem.graph
    batch = None if queries is None else _parsed(graph, queries)
    if batch is not None and decided.queries is None:
        personalization, batch = batch[0].teleport(graph.nodes), None
    teleport = None if personalization is None else teleport_distribution(graph, personalization)
    required = decided.method == "power" or batch is not None
    return replace(
        decided,
        problem=Problem(graph, decided.problem.damping, teleport, dangling_rule(graph, dangling)),
        stopping=Stopping(tol, norm, max_iterations, iterations),
        start=_guess(graph, decided.engine, start, required=required, batch=batch is not None),
        queries=batch,
    )


def _guess(graph: Graph, engine: Engine, start: Any | None, *, required: bool, batch: bool) -> Floats | None:
    """Return the initial guess, in main memory unless the engine loads device arrays; None if none is required.

    The uniform one is made where the engine loads it from.
    """
    if batch or not engine.takes_device_arrays:
        start = host_float64(start)
    elif required and start is None:
        return uniform_on_device(graph.nodes)
    return initial_guess(graph, start) if required or start is not None else None


def requested_storage(storage: str | Format, method: str) -> Format | None:
    """Return the format that was named; None for ``auto``, which method and engine decide.

    Raises
    ------
    InputError
        If there is no such method or format.
    """
    require_one_of("method", method, METHODS)
    if isinstance(storage, str) and storage == "auto":
        return None
    return format_of(storage)


def resolved_layout(graph: Graph, layout: str) -> str:
    """Return the layout that ``auto`` stands for, or the one given."""
    if not isinstance(layout, str):
        raise InputError(f"layout is {described(layout)}; give the name of one, such as csr, or auto")
    if layout != "auto":
        return layout
    return "pattern" if graph.weights is None else "csr"


def _controller(controller: Controller | RefinementPolicy | None, storage: Format) -> Controller:
    if isinstance(controller, RefinementPolicy):
        raise InputError("this controller plans outer steps of method 'refine'; give a Controller, or method='refine'")
    if not isinstance(controller, Controller | None):
        raise InputError(f"controller is {described(controller)}; give one such as cpms.Threshold()")
    return controller or default_controller(storage)


def _power_choice(
    engine: Engine, problem: Problem, layout: str, controller: Controller | RefinementPolicy | None, storage: Format
) -> tuple[Controller, Format, str]:
    """Return the controller of method ``power``, the format of the iterate, and the layout that the engine has."""
    chosen = resolved_layout(problem.graph, layout)
    if layout == "auto" and chosen not in engine.layouts:
        chosen = engine.layouts[0]
    engine.require_supported(problem, storage, chosen)
    return _controller(controller, storage), storage, chosen


def _refine_choice(
    graph: Graph, layout: str, policy: Controller | RefinementPolicy | None, given: Format | None, default: Format
) -> tuple[RefinementPolicy, Format, str]:
    """Return the policy of method ``refine``, the format with which it begins, and the layout."""
    if isinstance(policy, Controller):
        raise InputError("this controller is for method 'power'; give a cpms.RefinementPolicy, or method='power'")
    if not isinstance(policy, RefinementPolicy | None):
        raise InputError(
            f"controller is {described(policy)}; give a policy such as cpms.AdaptiveReduction((cpms.FP16,))"
        )
    storage = planned_storage(policy, given, default)
    policy = policy or default_policy(storage)
    own = resolved_layout(graph, "auto")
    if layout not in ("auto", own):
        given_with = "without" if graph.weights is None else "with"
        raise UnsupportedError(
            f"method 'refine' has the layout {own!r} {given_with} weights, not {described(layout)}; use auto"
        )
    return policy, storage, own


def _require_readable(engine: Engine, policy: Controller | RefinementPolicy, *, batch: bool) -> None:
    """Refuse policies that plan formats which inner sweeps of the engine do not read."""
    assert isinstance(policy, RefinementPolicy)  # noqa: S101
    for storage in planned_formats(policy):
        refusal = engine.refuses_residual(storage)
        if refusal:
            raise UnsupportedError(refusal)
        if batch:
            quantiser(storage)


def require_batchable(method: str, given: Format | None, policy: Controller | RefinementPolicy | None) -> None:
    """Refuse formats and policies that no batch of queries takes."""
    if policy is not None and method == "power":
        raise InputError("this policy plans outer steps of method 'refine'; leave it out, or give method='refine'")
    if not isinstance(policy, RefinementPolicy | None):
        raise InputError(f"policy is {described(policy)}; give one such as cpms.AdaptiveReduction((cpms.FP16,))")
    if method == "power" and given not in (None, FP64):
        raise UnsupportedError(f"batches iterate in fp64, not {given.name}; use method refine, or one at a time")


def _parsed(graph: Graph, queries: Iterable[Personalization]) -> tuple[Query, ...]:
    return tuple(_query(graph, query, index) for index, query in enumerate(queries))


def _query(graph: Graph, query: Personalization, index: int) -> Query:
    """Return the teleport distribution of a query as nodes and weights; an error says which query is wrong."""
    try:
        values = teleport_distribution(graph, [query] if isinstance(query, int | str | np.integer) else query)
    except InputError as error:
        raise InputError(f"query {index}: {error}") from None
    nodes = np.flatnonzero(values)
    return Query(nodes, values[nodes])
