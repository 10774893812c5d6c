"""Times of each pass of an iteration of conjugate gradients on a GPU, alone, with the bytes that it moves at least.

Passes of all ways alternate. They work on the vectors of a solve after eight iterations. Nothing is solved: a pass that
is launched again and again adds the same step each time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from cpms.api import product_engines
from cpms.api.linear.choice import chosen
from cpms.api.linear.prepared_system import PreparedSystem, widened
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

_ENGINE, _METHOD = "cuda", "cg"


class Way(Strict):
    """Formats of the matrix's values, and of r and p."""

    storage: MatrixStorageOrAuto = "auto"
    vectors: Literal["fp64", "fp32", "bfp16"] = "fp64"


class Config(SystemsConfig):
    """Linear systems, and the formats of matrix and vectors; figures compare with the first way."""

    right_hand_sides: list[Literal["ones", "random"]] = Field(default=["random"], min_length=1)  # type: ignore[assignment]
    ways: list[Way] = Field(min_length=1)
    samples: int = Field(default=11, ge=1)

    def cells(self) -> list[Cell]:
        """Return one cell a matrix and right-hand side: the passes of its ways take turns within it."""
        return self.cells_by_system(ways=[way.model_dump() for way in self.ways], samples=self.samples)


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


def _prepared(system: LinearSystem, b: Floats, way: dict[str, Any]) -> tuple[dict[str, Any], CudaCg]:
    """Return the columns of a way, and its vectors after iterations."""
    choice = widened(system, chosen(system, _METHOD, way["storage"], way["vectors"], _ENGINE))
    prepared = PreparedSystem.of(system, choice, _ENGINE, None)
    exact, recorder = prepared.exact, Recorder(RING, 1.0, None, work_clock.now)
    task = SolveTask(exact, prepared.stored, exact.upload(b), 0.0, recorder, choice.vectors, prepared.read)
    iterations = prepared.stored.conjugate_gradients(task, task.zeros())
    if not isinstance(iterations, CudaCg):
        raise UnsupportedError(f"passes are not fused for vectors in {way['vectors']}")
    iterations.replace_residual()
    iterations.run(RING)
    stored = "pattern" if choice.storage is None else choice.storage.name
    return {"engine": _ENGINE, "method": _METHOD, **way, "stored_as": stored, "bits": iterations.bits}, iterations
