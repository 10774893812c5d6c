"""Rounding of arrays to a format: `cpms.quantize` against pychop, gfloat and casts of NumPy and ml_dtypes.

All contestants round the same float64 values in turn, after a warm-up, and a copy of the array is the lower bound.
Answers are compared with those of cpms, value by value. pychop (Carson and Chen, 2024) and gfloat
run on one thread of NumPy; cpms runs on all that the process has. Contestants that lack a format, or are not installed,
are left out. On a GPU, cpms and casts of CuPy round arrays in device memory, and cpms's answer is compared with that in
main memory.
"""

from __future__ import annotations

from importlib import metadata
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from cpms.experiment.config import Cell, Stateless
from cpms.experiment.kinds import conversion
from cpms.experiment.kinds.rounding.contestants import Work, by_cast, by_gfloat, by_pychop, module
from cpms.experiment.kinds.rounding.device import measured_on_device
from cpms.experiment.timers import WallTimer, in_turn
from cpms.formats.formats import format_named
from cpms.formats.microscaling import GROUP
from cpms.storage.quantize import quantize

_PACKAGES = ("pychop", "gfloat", "ml_dtypes")


class Config(conversion.Config):
    """The fields of such an experiment."""

    sizes: list[Annotated[int, Field(ge=GROUP)]] = Field(min_length=1)
    samples: int = Field(default=7, ge=1)


class Context(Stateless):
    """No state between cells."""

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Time a copy and every contestant in turn; count the values that are not those of cpms."""
        storage, size = format_named(cell["storage"]), int(cell["values"]) // GROUP * GROUP
        if cell.get("device") == "cuda":
            return measured_on_device(storage, size, int(cell["samples"]))
        values = np.random.default_rng(1).standard_normal(size)
        contestants: dict[str, Work] = {"copy": values.copy, "cpms": lambda: quantize(values, storage)}
        for made in (by_pychop, by_gfloat, by_cast):
            contestants.update(made(storage, values))
        answers = {name: work() for name, work in contestants.items()}
        timers = {name: WallTimer(work) for name, work in contestants.items()}
        in_turn(list(timers.values()), cell["samples"])
        results = [
            {"contestant": name, **timer.columns(), "differing": int((answers[name] != answers["cpms"]).sum())}
            for name, timer in timers.items()
            if name != "copy"
        ]
        versions = {f"version_{package}": metadata.version(package) for package in _PACKAGES if module(package)}
        return {"bytes": int(values.nbytes), "copy": timers["copy"].columns(), "results": results, **versions}
