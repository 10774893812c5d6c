"""Times of each pass of an iteration of conjugate gradients or GMRES on a GPU, alone, with the bytes that it moves.

Passes of all ways alternate. Those of conjugate gradients work on the vectors of a solve after eight iterations, and
those of GMRES on the basis of fifty steps. Nothing is solved: a pass that is launched again and again adds the same
step each time. Bytes are the least that a pass can move.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from cpms.api import product_engines
from cpms.api.linear.choice import chosen
from cpms.api.linear.prepared_system import PreparedSystem, widened
from cpms.backends.cuda.krylov.arnoldi import CudaArnoldi
from cpms.backends.cuda.krylov.cg import RING, CudaCg
from cpms.base import work_clock
from cpms.base.errors import UnsupportedError
from cpms.base.types import Floats
from cpms.contracts.linear_solve import Recorder, SolveTask
from cpms.experiment.config import Cell, Strict
from cpms.experiment.config_types import MatrixStorageOrAuto
from cpms.experiment.linear_systems import OnSystems, SystemsConfig
from cpms.experiment.timers import Timer, copy_rates, in_turn, with_rate
from cpms.problems.linear_system import LinearSystem
from cpms.solvers.linear.gmres import RESTART, cycle_limits

_ENGINE = "cuda"
_STEPS, _TOL = 50, 1e-10
"""Steps of a cycle of GMRES before its passes are timed, and the tolerance that decides the digits of its basis."""


class Way(Strict):
    """A method, and the formats of the matrix's values and of vectors: r and p, or the basis."""

    method: Literal["cg", "gmres"] = "cg"
    storage: MatrixStorageOrAuto = "auto"
    vectors: Literal["fp64", "fp32", "bfp16", "bfp32", "bytes", "blocks"] = "fp64"

    @model_validator(mode="after")
    def fused(self) -> Self:
        """Refuse formats in which the passes of a method are not fused."""
        if self.method == "cg" and self.vectors not in _OF_CG:
            raise ValueError(f"cg has fused passes for vectors in {', '.join(_OF_CG)}, not in {self.vectors}")
        return self


_OF_CG = ("fp64", "fp32", "bfp16")
"""Formats of r and p for which the passes of conjugate gradients are fused."""


class Config(SystemsConfig):
    """Linear systems, and the formats of matrix and vectors; figures compare with the first way."""

    right_hand_sides: list[Literal["ones", "random"]] = Field(default=["random"], min_length=1)  # type: ignore[assignment]
    ways: list[Way] = Field(min_length=1)
    samples: int = Field(default=11, ge=1)

    def cells(self) -> list[Cell]:
        """Return one cell a matrix and right-hand side: the passes of its ways take turns within it."""
        ways = [way.model_dump(exclude={"method"} if way.method == "cg" else None) for way in self.ways]
        return self.cells_by_system(ways=ways, samples=self.samples)


class Context(OnSystems):
    """The matrix of consecutive cells."""

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Time each pass of each way in turn."""
        rates = copy_rates([product_engines.chosen(_ENGINE)])  # Before a matrix takes memory.
        matrix, b = self.system_of(cell)
        # Ways share arrangements and formats, which take longer to find than passes to measure.
        system = LinearSystem(replace(matrix, shared={}))
        found: list[dict[str, Any]] = []
        timers: list[Timer] = []
        for way in cell["ways"]:
            columns, iterations = _prepared(system, b, way)
            for stage, launch in iterations.stages().items():
                timers.append(Timer(launch, same=True))
                found.append({**columns, "stage": stage, "least_bytes": iterations.stage_bytes[stage]})
        in_turn(timers, cell["samples"])
        lines = [with_rate({**line, **timer.columns()}) for line, timer in zip(found, timers, strict=True)]
        return {"rows": matrix.rows, "entries": matrix.entries, **rates, "contestants": lines}


def _prepared(system: LinearSystem, b: Floats, way: dict[str, Any]) -> tuple[dict[str, Any], CudaCg | CudaArnoldi]:
    """Return the columns of a way, and its vectors after iterations."""
    method = way.get("method", "cg")
    choice = widened(system, chosen(system, method, way["storage"], way["vectors"], _ENGINE))
    prepared = PreparedSystem.of(system, choice, _ENGINE, None)
    exact, count = prepared.exact, RING if method == "cg" else _STEPS
    goal, recorder = _TOL * float(np.linalg.norm(b)), Recorder(count, 1.0, None, work_clock.now)
    task = SolveTask(exact, prepared.stored, exact.upload(b), goal, recorder, choice.vectors, prepared.read)
    iterations, bits = _of_cg(task) if method == "cg" else _of_gmres(task)
    stored = "pattern" if choice.storage is None else choice.storage.name
    return {"engine": _ENGINE, **way, "method": method, "stored_as": stored, "bits": bits}, iterations


def _of_cg(task: SolveTask) -> tuple[CudaCg, int]:
    """Return iterations that have been done, and the bits of r and p."""
    iterations = task.stored.conjugate_gradients(task, task.zeros())
    if not isinstance(iterations, CudaCg):
        raise UnsupportedError("passes of cg are not fused for these formats")
    iterations.replace_residual()
    iterations.run(RING)
    return iterations, iterations.bits


def _of_gmres(task: SolveTask) -> tuple[CudaArnoldi, int]:
    """Return steps that have been done, and the mean bits of a value of the basis."""
    steps = task.stored.arnoldi(task, RESTART)
    if not isinstance(steps, CudaArnoldi):
        raise UnsupportedError("passes of gmres are not fused for these formats")
    r, size = task.residual(task.zeros())
    steps.begin(r, size, cycle_limits(task, size, RESTART))
    while steps.run():
        pass
    return steps, round(sum(steps.bits) / len(steps.bits))
