"""Contestants of whole solves: an engine, a storage format and a method, prepared once and solved many times.

Operators and refinements are reused from solve to solve, so that times hold no preparation; a level controller with a
state in its operator gets a new operator each time. Memory is that of all prepared contestants of a problem together.
"""

from __future__ import annotations

import tempfile
from importlib import import_module
from operator import methodcaller
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from cpms import engines
from cpms.api.request import requested_storage
from cpms.backends.cuda.reduction.reduced_refinement import prepared
from cpms.backends.opencl.choice import Choice, chosen
from cpms.base import threads, work_clock
from cpms.base.errors import UnsupportedError
from cpms.contracts.engine import Engine
from cpms.contracts.operator import Operator
from cpms.contracts.refinement import Refinement
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import Stopping
from cpms.experiment.config import Strict
from cpms.experiment.config_types import AUTO, EngineName, GraphName, LayoutName, StorageOrAuto
from cpms.experiment.graph_files import as_arguments
from cpms.experiment.memory_footprint import held_bytes
from cpms.formats.formats import DOUBLE_BITS, Format, format_named
from cpms.mpi import launch
from cpms.precision.controllers import AtMost, Controller, Fixed, WriteAhead, default_controller
from cpms.precision.refinement_policy import default_policy
from cpms.problems.pagerank import Problem
from cpms.solvers.power import power
from cpms.solvers.refine import outer_iteration, solve_by_reduction
from cpms.storage.device import host_float64

_SINCE_FIRST_ROWS = (
    *("most_read", "method", "whole", "plain", "fixed", "tol", "only", "ranks", "device"),
    *("error_feedback", "convergence_estimate"),
)
_TIMEOUT_S = 600.0
"""Time limit of a solve by ranks; a longer one is recorded as a failure."""


class Contestant(Strict):
    """An engine, a storage format and a method.

    ``write_ahead`` is the number of segments written beyond those read; ``most_read`` is the number of segments read
    before the switch to float64; ``fixed`` reads all bits in every iteration; ``whole`` turns off trimming and
    lumping, and ``plain`` Anderson acceleration; ``error_feedback`` and ``convergence_estimate`` turn off these parts
    of method ``refine`` on a GPU where they are false; ``tol`` replaces the experiment's; ``only`` lists the graphs of
    this contestant. ``ranks`` is for engine ``mpi``, which has one rank without it; ``device`` is for engine ``opencl``
    (see `cpms.backends.opencl.choice.Choice`).
    """

    engine: EngineName
    storage: StorageOrAuto = "fp64"
    layout: LayoutName | None = None
    write_ahead: int = Field(default=0, ge=0)
    most_read: int | None = Field(default=None, ge=1)
    method: Literal["power", "refine"] = "power"
    whole: bool = False
    plain: bool = False
    fixed: bool = False
    tol: float | None = Field(default=None, gt=0)
    only: list[GraphName] | None = None
    ranks: int | None = Field(default=None, ge=1)
    device: str | None = None
    error_feedback: bool = True
    convergence_estimate: bool = True

    @model_validator(mode="after")
    def _estimates_on_a_gpu(self) -> Contestant:
        if not self.convergence_estimate and (self.engine, self.method) != ("cuda_fused", "refine"):
            raise ValueError(
                "only method refine of engine cuda_fused estimates convergence; leave the key out elsewhere"
            )
        return self

    @model_validator(mode="after")
    def _auto_refines(self) -> Contestant:
        if self.storage == AUTO and (self.method != "refine" or self.ranks is not None):
            raise ValueError("storage auto is method refine's, on one device; name a format such as fp64")
        return self

    @model_validator(mode="after")
    def _ranks_are_of_mpi(self) -> Contestant:
        if self.ranks is not None and self.engine != "mpi":
            raise ValueError(f"ranks are engine mpi's, not engine {self.engine}'s; leave them out")
        return self

    def parameters(self) -> dict[str, Any]:
        """Return the keys of a cell; later ones are left out at their defaults, so that older cells keep names."""
        defaults = {name: type(self).model_fields[name].default for name in _SINCE_FIRST_ROWS}
        return {name: value for name, value in self if name not in defaults or value != defaults[name]}

    def controller(self) -> Controller:
        """Return the precision policy of method ``power``."""
        rule = Fixed() if self.fixed else default_controller(format_named(self.storage))
        rule = rule if self.most_read is None else AtMost(rule, self.most_read)
        return WriteAhead(rule, self.write_ahead) if self.write_ahead else rule


class Solved(NamedTuple):
    """The answer of a solve, and its times.

    Parameters
    ----------
    ranks : ndarray of float64, or None
        None where they were not copied from their device.
    status : Status
    bits : list of int
        Bits that each iteration read.
    step_s : list of float
        The time since the start at the end of each iteration; empty where it is not known.
    solve_s : float
    sizes : dict
        ``matrix_bytes``, and ``held_bytes`` of the matrix, the vectors and all other arrays of the engine.
    """

    ranks: Any
    status: Status
    bits: list[int]
    step_s: list[float]
    solve_s: float
    sizes: dict[str, int]


class Solver:
    """Solves one problem for contestants in turn; an operator that a solve does not change is prepared once.

    Parameters
    ----------
    problem : Problem
    source : str
        The argument of `cpms.load` for the graph, for ranks that load it themselves.
    read_options : dict, optional
        Options of `cpms.load` with which it is read.
    layout : str
        The layout of contestants that name none.
    tol : float
    """

    def __init__(
        self, problem: Problem, source: str, *, layout: str, tol: float, read_options: dict[str, Any] | None = None
    ) -> None:
        self.problem = problem
        self._read_options = read_options or {}
        self._source, self._layout, self._tol = source, layout, tol
        self._operators: dict[tuple[str | None, ...], Operator[Any]] = {}
        self._refinements: dict[tuple[str, bool], Refinement] = {}
        self._initial_guesses: dict[bool, Any] = {False: np.full(problem.graph.nodes, 1.0 / problem.graph.nodes)}

    def solve(self, contestant: Contestant, *, on_device: bool = False) -> Solved:
        """Solve; with ``on_device`` ranks stay in device memory and sizes are unknown.

        Raises
        ------
        UnsupportedError
            If the engine cannot do this.
        UnavailableError
            If this machine has no such engine.
        """
        if contestant.only is not None and self._source not in contestant.only:
            raise UnsupportedError("the experiment leaves it out here")
        executor = engines.get(contestant.engine)
        if contestant.method not in executor.methods:
            raise UnsupportedError(f"engine {executor.name} has no method {contestant.method!r}")
        if contestant.ranks is not None:
            return self._over_ranks(executor, contestant, on_device=on_device)
        with chosen(Choice(contestant.device)):
            return (self._by_refinement if contestant.method == "refine" else self._by_power)(
                executor, contestant, on_device=on_device
            )

    def _by_power(self, executor: Engine, contestant: Contestant, *, on_device: bool) -> Solved:
        storage, controller = format_named(contestant.storage), contestant.controller()
        operator = self._operator(executor, contestant, storage, reuse=controller.constant)
        options: dict[str, Any] = {}
        if on_device:
            options["answer"] = lambda operator, x, segments: operator.read_device(x, segments)
        ranks, status, history = power(
            operator, self._initial_guess(executor), controller, self._stopping(contestant), **options
        )
        sizes = {} if on_device else _sizes(operator, operator.empty(), operator.empty())
        return _solved(ranks, status, history, sizes)

    def _by_refinement(self, executor: Engine, contestant: Contestant, *, on_device: bool) -> Solved:
        key = contestant.engine, contestant.convergence_estimate
        if key not in self._refinements:
            self._refinements[key] = (
                executor.refinement(self.problem)
                if contestant.convergence_estimate
                else prepared(self.problem, contestant.engine, estimates=False)
            )
        refinement = self._refinements[key]
        refinement.anderson, refinement.error_feedback = not contestant.plain, contestant.error_feedback
        by_default = refinement.default_residual_format or executor.default_residual_format
        storage = requested_storage(contestant.storage, contestant.method) or by_default
        policy, stopping = default_policy(storage), self._stopping(contestant)
        began = work_clock.now()
        found = None if contestant.whole else solve_by_reduction(refinement, policy, stopping)
        spent_s = work_clock.now() - began
        if found is not None:
            steps = found[2]
            # A direct solve has no step whose time could be taken.
            spent_s, bits = (steps[-1].seconds, [step.bits for step in steps]) if steps else (spent_s, [DOUBLE_BITS])
            ranks = found[0] if on_device else host_float64(found[0])
            return Solved(ranks, found[1], bits, [spent_s], spent_s, {} if on_device else _sizes(refinement))
        answer = methodcaller("read_device" if on_device else "read")
        ranks, status, history = outer_iteration(
            refinement, self._initial_guess(executor), policy, stopping, answer=answer
        )
        return _solved(ranks, status, history, {} if on_device else _sizes(refinement))

    def _over_ranks(self, executor: Engine, contestant: Contestant, *, on_device: bool) -> Solved:
        """Start new ranks that solve twice, and return the second solve, since the first compiles."""
        assert contestant.ranks is not None  # noqa: S101
        layout, tol = contestant.layout or self._layout, self._stopping(contestant).tol
        executor.require_supported(self.problem, format_named(contestant.storage), layout)
        lanes = max(1, threads.available() // contestant.ranks)
        options = ["--whole", "--layout", layout, "--tol", str(tol), "--threads", str(lanes), "--repeat", "2"]
        options += as_arguments(self._read_options)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ranks.npy"
            texts = options if on_device else [*options, "--output", str(path)]
            found = launch.report(contestant.ranks, self._source, texts, timeout_s=_TIMEOUT_S)
            ranks = None if on_device else np.load(path, allow_pickle=False)
        bits = [64] * found["iterations"]
        sizes = {} if on_device else {"matrix_bytes": sum(found["matrix_bytes_by_rank"])}
        return Solved(ranks, Status(found["status"]), bits, [], found["solve_samples_s"][-1], sizes)

    def _stopping(self, contestant: Contestant) -> Stopping:
        return Stopping(self._tol if contestant.tol is None else contestant.tol)

    def _initial_guess(self, executor: Engine) -> Any:
        takes_device_arrays = executor.takes_device_arrays
        if takes_device_arrays not in self._initial_guesses:
            self._initial_guesses[takes_device_arrays] = import_module("cupy").asarray(self._initial_guesses[False])
        return self._initial_guesses[takes_device_arrays]

    def _operator(self, executor: Engine, contestant: Contestant, storage: Format, *, reuse: bool) -> Operator[Any]:
        layout = contestant.layout or self._layout
        key = contestant.engine, contestant.device, contestant.storage, layout
        if key in self._operators:
            return self._operators[key]
        operator = executor.prepare(self.problem, storage, layout)
        if reuse:
            self._operators[key] = operator
        return operator


def _sizes(prepared: Operator[Any] | Refinement, *vectors: Any) -> dict[str, int]:
    return {"matrix_bytes": prepared.nbytes, "held_bytes": held_bytes(prepared, *vectors)}


def _solved(ranks: Any, status: Status, history: list[Step], sizes: dict[str, int]) -> Solved:
    # Times of the history exclude copies of vectors to and from a device, which a caller may not need.
    step_s = [step.seconds for step in history]
    return Solved(ranks, status, [step.bits for step in history], step_s, step_s[-1], sizes)
