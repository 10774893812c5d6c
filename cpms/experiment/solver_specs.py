"""Contestants of whole solves: an engine and what it is asked to do, prepared once and solved again and again."""

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
from cpms.storage.device import to_host

_SINCE_FIRST_ROWS = ("most_read", "method", "whole", "plain", "fixed", "tol", "only", "ranks", "device")
_TIMEOUT_S = 600.0
"""Ranks that take longer cannot take part."""


class Contestant(Strict):
    """An engine, a storage format and a method.

    ``write_ahead`` writes so many segments more than are read; ``most_read`` goes to float64 rather than read more
    segments; ``fixed`` reads all of the storage's bits from first to last; ``whole`` sweeps over all nodes, also where
    passes would do for some, and ``plain`` goes without extrapolation; ``tol`` stands in for the experiment's; ``only``
    names the graphs to take part in. ``ranks`` is engine ``mpi``'s, which without it runs on one; ``device`` is engine
    ``opencl``'s (see `cpms.backends.opencl.Choice`).
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
        """Return what a cell holds; what was added later goes without saying, so that older cells keep their names."""
        defaults = {name: type(self).model_fields[name].default for name in _SINCE_FIRST_ROWS}
        return {name: given for name, given in self if name not in defaults or given != defaults[name]}

    def controller(self) -> Controller:
        """Return the precision policy of method ``power``."""
        rule = Fixed() if self.fixed else default_controller(format_named(self.storage))
        rule = rule if self.most_read is None else AtMost(rule, self.most_read)
        return WriteAhead(rule, self.write_ahead) if self.write_ahead else rule


class Solved(NamedTuple):
    """What a solve found.

    Parameters
    ----------
    ranks : ndarray of float64, or None
        None where they were left on their device.
    status : Status
    bits : list of int
        Read by each iteration.
    step_s : list of float
        When each ended; empty where that is not known.
    solve_s : float
    sizes : dict
        ``matrix_bytes``, and ``held_bytes``: of the matrix, the vectors and all else the engine keeps.
    """

    ranks: Any
    status: Status
    bits: list[int]
    step_s: list[float]
    solve_s: float
    sizes: dict[str, int]


class Solver:
    """Solves one problem for contestants in turn; operators that a solve leaves as they were are prepared once.

    Parameters
    ----------
    problem : Problem
    source : str
        What `cpms.load` makes the graph of, for ranks that load it themselves.
    read_options : dict, optional
        Options of `cpms.load` with which it is read.
    layout : str
        Of contestants that name none.
    tol : float
    """

    def __init__(
        self, problem: Problem, source: str, *, layout: str, tol: float, read_options: dict[str, Any] | None = None
    ) -> None:
        self.problem = problem
        self._read_options = read_options or {}
        self._source, self._layout, self._tol = source, layout, tol
        self._kept: dict[tuple[str | None, ...], Operator[Any]] = {}
        self._refinements: dict[str, Refinement] = {}
        self._firsts: dict[bool, Any] = {False: np.full(problem.graph.nodes, 1.0 / problem.graph.nodes)}

    def solve(self, given: Contestant, *, leave: bool = False) -> Solved:
        """Solve; ``leave`` the ranks on their device, and sizes unknown.

        Raises
        ------
        UnsupportedError
            If the engine cannot do this.
        UnavailableError
            If this machine has no such engine.
        """
        if given.only is not None and self._source not in given.only:
            raise UnsupportedError("the experiment leaves it out here")
        executor = engines.get(given.engine)
        if given.method not in executor.methods:
            raise UnsupportedError(f"engine {executor.name} has no method {given.method!r}")
        if given.ranks is not None:
            return self._over_ranks(executor, given, leave=leave)
        with chosen(Choice(given.device)):
            return (self._refined if given.method == "refine" else self._iterated)(executor, given, leave=leave)

    def _iterated(self, executor: Engine, given: Contestant, *, leave: bool) -> Solved:
        storage, controller = format_named(given.storage), given.controller()
        operator = self._operator(executor, given, storage, keep=controller.constant)
        options: dict[str, Any] = {"answer": _left_where_it_is} if leave else {}
        ranks, status, history = power(operator, self._first(executor), controller, self._stopping(given), **options)
        sizes = {} if leave else _sizes(operator, operator.empty(), operator.empty())
        return _solved(ranks, status, history, sizes)

    def _refined(self, executor: Engine, given: Contestant, *, leave: bool) -> Solved:
        if given.engine not in self._refinements:
            self._refinements[given.engine] = executor.refinement(self.problem)
        refinement = self._refinements[given.engine]
        refinement.anderson = not given.plain
        by_default = refinement.default_residual_format or executor.default_residual_format
        storage = requested_storage(given.storage, given.method) or by_default
        policy, stopping = default_policy(storage), self._stopping(given)
        began = work_clock.now()
        found = None if given.whole else solve_by_reduction(refinement, policy, stopping)
        spent_s = work_clock.now() - began
        if found is not None:
            steps = found[2]
            # Without sweeps there is no step to tell when the answer was there.
            spent_s, bits = (steps[-1].seconds, [step.bits for step in steps]) if steps else (spent_s, [DOUBLE_BITS])
            ranks = found[0] if leave else to_host(found[0])
            return Solved(ranks, found[1], bits, [spent_s], spent_s, {} if leave else _sizes(refinement))
        answer = methodcaller("read_device" if leave else "read")
        ranks, status, history = outer_iteration(refinement, self._first(executor), policy, stopping, answer=answer)
        return _solved(ranks, status, history, {} if leave else _sizes(refinement))

    def _over_ranks(self, executor: Engine, given: Contestant, *, leave: bool) -> Solved:
        """Start ranks anew, let them solve twice, since the first solve compiles, and take the second."""
        assert given.ranks is not None  # noqa: S101
        layout, tol = given.layout or self._layout, self._stopping(given).tol
        reason = executor.unsupported(self.problem, format_named(given.storage), layout)
        if reason:
            raise UnsupportedError(reason)
        lanes = max(1, threads.available() // given.ranks)
        options = ["--whole", "--layout", layout, "--tol", str(tol), "--threads", str(lanes), "--repeat", "2"]
        options += as_arguments(self._read_options)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ranks.npy"
            texts = options if leave else [*options, "--output", str(path)]
            found = launch.report(given.ranks, self._source, texts, timeout_s=_TIMEOUT_S)
            ranks = None if leave else np.load(path, allow_pickle=False)
        bits = [64] * found["iterations"]
        sizes = {} if leave else {"matrix_bytes": sum(found["matrix_bytes_by_rank"])}
        return Solved(ranks, Status(found["status"]), bits, [], found["solve_samples_s"][-1], sizes)

    def _stopping(self, given: Contestant) -> Stopping:
        return Stopping(self._tol if given.tol is None else given.tol)

    def _first(self, executor: Engine) -> Any:
        there = executor.takes_device_arrays
        if there not in self._firsts:
            self._firsts[there] = import_module("cupy").asarray(self._firsts[False])
        return self._firsts[there]

    def _operator(self, executor: Engine, given: Contestant, storage: Format, *, keep: bool) -> Operator[Any]:
        layout = given.layout or self._layout
        key = given.engine, given.device, given.storage, layout
        if key in self._kept:
            return self._kept[key]
        operator = executor.prepare(self.problem, storage, layout)
        if keep:
            self._kept[key] = operator
        return operator


def _left_where_it_is(operator: Operator[Any], x: Any, segments: int) -> Any:
    """Return an answer that nobody reads."""
    return operator.read_device(x, segments)


def _sizes(prepared: Operator[Any] | Refinement, *vectors: Any) -> dict[str, int]:
    return {"matrix_bytes": prepared.nbytes, "held_bytes": held_bytes(prepared, *vectors)}


def _solved(ranks: Any, status: Status, history: list[Step], sizes: dict[str, int]) -> Solved:
    # The history's times leave out bringing vectors to and from a device, which a caller may not need.
    step_s = [step.seconds for step in history]
    return Solved(ranks, status, [step.bits for step in history], step_s, step_s[-1], sizes)
