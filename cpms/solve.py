"""PageRank by power iteration, on sweeps only; line numbers are those of the paper's Algorithm 1."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cpms import engines, ranking
from cpms.engine import DanglingRule, Operator, Problem, Sweep
from cpms.errors import InputError, UnsupportedError
from cpms.format import FP64, Format, format_named
from cpms.graph import Graph
from cpms.precision import FLOAT64, Controller, Level, default_controller
from cpms.result import Result, Status, Step

Floats = npt.NDArray[np.float64]
Norm = Literal["l1", "l2", "linf"]
STALLED_ITERATIONS = 50
"""Iterations without a new smallest residual after which a solve at a fixed level is given up."""


@dataclass(frozen=True)
class Stopping:
    """When to stop: ``norm`` of the change below ``tol``, or after so many iterations."""

    tol: float = 1e-10
    norm: Norm = "l1"
    max_iterations: int = 1000
    iterations: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.tol) and self.tol > 0):
            raise InputError(f"tol is {self.tol}; it must be a positive number")
        if self.norm not in ("l1", "l2", "linf"):
            raise InputError(f"norm is {self.norm!r}; it can be l1, l2 or linf")
        if self.max_iterations < 1 or (self.iterations is not None and self.iterations < 1):
            raise InputError("max_iterations and iterations must be 1 or more")


def pagerank(
    graph: Graph,
    *,
    storage: str | Format = FP64,
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
    controller: Controller | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Result:
    """Compute PageRank and certify it.

    Parameters
    ----------
    graph : Graph
    storage : str or Format
        Storage format of the iterate and, in layouts that store them, of the matrix values.
    layout : {"auto", "csr", "ell", "pattern"}
        ``auto`` is the pattern, or csr for weighted graphs.
    engine : str
        One of `cpms.engines.names`, or ``auto``.
    damping : float
    tol : float
        Stop when the norm of the change falls below it; first looked at after two iterations.
    norm : {"l1", "l2", "linf"}
    max_iterations : int
    iterations : int, optional
        Do exactly so many, whatever the residual.
    personalization : sequence of node ids, mapping of node id to weight, or ndarray, optional
        Teleport distribution; scaled to sum 1. An array has one weight a node.
    dangling : {"teleport", "uniform"}
        Where the mass of dangling nodes goes.
    start : ndarray of float64, shape (nodes,), optional
        First iterate, scaled to mass 1; uniform by default.
    controller : Controller, optional
        Precision policy; the paper's rule by default.
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
    chosen = format_named(storage) if isinstance(storage, str) else storage
    teleport = None if personalization is None else teleport_distribution(graph, personalization)
    problem = Problem(graph, damping, teleport, dangling)
    stopping = Stopping(tol, norm, max_iterations, iterations)
    first = _start(graph, start)
    chosen_layout = resolved_layout(graph, layout)
    executor = engines.get(engine)
    reason = executor.unsupported(problem, chosen, chosen_layout)
    if reason:
        raise UnsupportedError(reason)
    began = time.perf_counter()
    operator = executor.prepare(problem, chosen, chosen_layout)
    prepared = time.perf_counter()
    referee = _Referee(problem, stopping)
    policy = controller or default_controller(chosen)
    ranks, status, history = power(operator, first, policy, stopping, on_step, confirmed=referee.confirms)
    solved = time.perf_counter() - referee.seconds
    checked, residual_l1 = referee.verdict(ranks, status)
    return Result(
        graph=graph,
        ranks=ranks,
        status=checked,
        history=tuple(history),
        method="power",
        storage=chosen.name,
        layout=chosen_layout,
        engine=executor.name,
        damping=damping,
        tol=tol,
        norm=norm,
        residual_l1=residual_l1,
        mass=float(ranks.sum()),
        prepare_s=prepared - began,
        solve_s=solved - prepared,
        matrix_bytes=operator.nbytes,
    )


def power(
    operator: Operator[Any],
    first: Floats,
    controller: Controller,
    stopping: Stopping,
    on_step: Callable[[Step], None] | None = None,
    *,
    confirmed: Callable[[Floats], bool] | None = None,
) -> tuple[Floats, Status, list[Step]]:
    """Iterate x = G(x) from ``first``, at the levels the controller chooses.

    A change below the tolerance ends the solve if ``confirmed`` says so of the answer, since values
    cut short also stop changing; else it goes on as long as the level rises or the change falls.
    """
    storage: Format = operator.storage
    level, state = controller.init(storage)
    x, out = operator.load(first), operator.empty()
    written = storage.segments
    if level == FLOAT64:
        operator, x, out = operator.to_float64(x, out)
        written = 0
    history: list[Step] = []
    began = time.perf_counter()
    while True:  # Line 4.
        _check_level(level, written)
        found = operator.sweep(x, out, level, len(history))  # Lines 5 to 7.
        x, out = out, x
        written = level.write
        read, wrote = (64 if level == FLOAT64 else storage.bits(segments) for segments in (level.read, level.write))
        change = _norm(found, stopping.norm)
        history.append(Step(len(history) + 1, change, level, read, wrote, found.mass, time.perf_counter() - began))
        if on_step:
            on_step(history[-1])
        status = _status(history, change, stopping)  # Line 9.
        if status not in (None, Status.CONVERGED):
            return operator.read(x, written), status, history
        following, state = controller.update(state, change)
        if status is Status.CONVERGED:
            ranks = operator.read(x, written)
            moves = following != level or 0.0 < change < history[-2].residual
            if confirmed is None or confirmed(ranks) or not moves or len(history) >= stopping.max_iterations:
                return ranks, status, history
        converts = following == FLOAT64 and level != FLOAT64
        if converts:
            operator, x, out = operator.to_float64(x, out)
            written = 0
        if converts or following.read > level.read:
            operator.scale(x, 1.0 / found.mass, written)
        level = following


def teleport_distribution(
    graph: Graph, personalization: Sequence[int | str] | Mapping[int | str, float] | Floats
) -> Floats:
    """Return the teleport distribution v of sum 1, shape (nodes,).

    Raises
    ------
    InputError
        If a node does not exist or is named twice, or a weight is not finite and at least 0.

    Examples
    --------
    >>> teleport_distribution(Graph.from_edges([0], [1]), [1]).tolist()
    [0.0, 1.0]
    """
    if isinstance(personalization, np.ndarray) and personalization.dtype.kind == "f":
        weights = personalization.astype(np.float64)
        if weights.shape != (graph.nodes,):
            raise InputError(f"personalization has shape {weights.shape}; give one weight a node, {graph.nodes}")
    else:
        weights = np.zeros(graph.nodes)
        named = _weights_by_node(personalization)
        indices = [graph.index_of(node) for node in named]
        if len(set(indices)) < len(personalization):
            raise InputError("personalization names a node twice; give each once, or a mapping of node to weight")
        weights[indices] = list(named.values())
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not ((weights >= 0).all() and 0 < total < math.inf):
        raise InputError("personalization weights must be not negative, not all zero, and of finite sum")
    weights /= total
    return weights


def _weights_by_node(personalization: Any) -> dict[int | str, float]:
    try:
        if isinstance(personalization, Mapping):
            return {node: float(weight) for node, weight in personalization.items()}
        if not isinstance(personalization, str):
            return dict.fromkeys(personalization, 1.0)
    except (TypeError, ValueError):
        pass
    raise InputError(
        f"personalization is {personalization!r}; give a list of node ids, a mapping of node id to weight, or an array"
    )


def resolved_layout(graph: Graph, layout: str) -> str:
    """Return the layout that ``auto`` stands for, or the one given."""
    if layout != "auto":
        return layout
    return "pattern" if graph.weights is None else "csr"


def _start(graph: Graph, start: Floats | None) -> Floats:
    if start is None:
        return np.full(graph.nodes, 1.0 / graph.nodes)  # Line 1.
    try:
        given = np.asarray(start, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"start is no array of numbers; give {graph.nodes}") from None
    with np.errstate(over="ignore"):
        total = given.sum()
    if given.shape != (graph.nodes,) or not ((given >= 0).all() and 0 < total < math.inf):
        raise InputError(f"start must hold {graph.nodes} values of at least 0, of a finite sum above 0")
    scaled: Floats = given / total
    return scaled


def _check_level(level: Level, written: int) -> None:
    if level == FLOAT64:
        return
    if not written:
        raise InputError(f"the controller asks for {level} after float64; what was converted stays float64")
    if level.read > written:
        raise InputError(f"the controller reads {level.read} segments where only {written} were written")


def _norm(found: Sweep, norm: Norm) -> float:
    return {"l1": found.l1, "l2": found.l2, "linf": found.linf}[norm]


def _status(history: list[Step], change: float, stopping: Stopping) -> Status | None:
    done = len(history)
    if not (math.isfinite(change) and math.isfinite(history[-1].mass) and history[-1].mass > 0):
        return Status.NON_FINITE
    if stopping.iterations is not None:
        return Status.FIXED if done == stopping.iterations else None
    if done >= 2 and change < stopping.tol:
        return Status.CONVERGED
    if done >= stopping.max_iterations:
        return Status.MAX_ITERATIONS
    bits = history[-1].bits
    here = [step.residual for step in itertools.takewhile(lambda step: step.bits == bits, reversed(history))]
    recent, before = here[:STALLED_ITERATIONS], here[STALLED_ITERATIONS:]
    return Status.STAGNATED if before and min(recent) >= min(before) else None


class _Referee:
    """Recomputes residuals in float64; the ``seconds`` that takes are no part of a solve."""

    def __init__(self, problem: Problem, stopping: Stopping) -> None:
        self.seconds = 0.0
        self._problem = problem
        self._stopping = stopping
        self._confirmed: tuple[Floats, float] | None = None

    def confirms(self, ranks: Floats) -> bool:
        """Return whether the residual of an answer is below the tolerance; scale the answer to mass 1."""
        began = time.perf_counter()
        status, residual_l1 = _verified(self._problem, ranks, Status.CONVERGED, self._stopping)
        self._confirmed = (ranks, residual_l1) if status is Status.CONVERGED else None
        self.seconds += time.perf_counter() - began
        return self._confirmed is not None

    def verdict(self, ranks: Floats, status: Status) -> tuple[Status, float]:
        """Return what is left of a status, and the residual of the answer in L1."""
        if self._confirmed is not None and self._confirmed[0] is ranks:
            return status, self._confirmed[1]
        return _verified(self._problem, ranks, status, self._stopping)


def _verified(problem: Problem, ranks: Floats, status: Status, stopping: Stopping) -> tuple[Status, float]:
    """Return the status that the recomputed residual confirms, and that residual in L1."""
    if status is Status.NON_FINITE:
        return status, math.inf
    total = ranks.sum()
    if not 0.5 < total < 2.0:
        return Status.NON_FINITE, math.inf
    ranks /= total
    residual_l1 = ranking.residual(problem, ranks)
    in_norm = residual_l1 if stopping.norm == "l1" else ranking.residual(problem, ranks, stopping.norm)
    if status is Status.CONVERGED and in_norm >= stopping.tol:
        return Status.UNVERIFIED, residual_l1
    return status, residual_l1
