"""Rounding of arrays to a format: `cpms.quantize` against pychop, gfloat and casts of NumPy and ml_dtypes.

All contestants round the same float64 values in turn, after a warm-up, and a copy of the array is the lower bound.
Answers are compared with those of cpms, value by value. pychop (Carson and Chen, 2024) and gfloat run on one thread of
NumPy; cpms runs on all that the process has. Contestants that lack a format, or are not installed, are left out. On a
GPU, cpms and casts of CuPy round arrays in device memory, and cpms's answer is compared with that in main memory.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from cpms import engines
from cpms.experiment.config import Cell, Stateless
from cpms.experiment.kinds import conversion
from cpms.experiment.kinds.rounding.contestants import Work, by_cast, by_gfloat, by_pychop, module
from cpms.experiment.timers import Timer, WallTimer, copying, in_turn
from cpms.formats.formats import Format, format_named
from cpms.formats.microscaling import GROUP
from cpms.storage.device import copy_to_host
from cpms.storage.quantize import quantize

_PACKAGES = ("pychop", "gfloat", "ml_dtypes")
_COMPARED = 1 << 20
"""Values in device memory whose rounding is compared with that in main memory."""


class Config(conversion.Config):
    """The fields of such an experiment."""

    sizes: list[Annotated[int, Field(ge=GROUP)]] = Field(min_length=1)
    samples: int = Field(default=7, ge=1)


class Context(Stateless):
    """No state between cells."""

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Time a copy and every contestant in turn; count the values that are not those of cpms."""
        storage, size = format_named(cell["storage"]), int(cell["values"]) // GROUP * GROUP
        on_device = cell.get("device") == "cuda"
        if on_device:
            engines.get("cuda")
        arrays: Any = import_module("cupy") if on_device else np
        values = arrays.random.default_rng(1).standard_normal(size)
        contestants: dict[str, Work] = {"cpms": lambda: quantize(values, storage)}
        for made in (_device_cast,) if on_device else (by_pychop, by_gfloat, by_cast):
            contestants.update(made(storage, values))
        answers = {name: work() for name, work in contestants.items()}
        differing = {name: int((answer != answers["cpms"]).sum()) for name, answer in answers.items()}
        del answers
        more = _compared(storage, values[:_COMPARED]) if on_device else _versions()
        works: dict[str, Any] = {"copy": copying(values) if on_device else values.copy, **contestants}
        timers = {name: Timer(work) if on_device else WallTimer(work) for name, work in works.items()}
        in_turn(list(timers.values()), cell["samples"])
        return {
            "bytes": int(values.nbytes),
            "copy": timers["copy"].columns(),
            "results": [
                {"contestant": name, **timers[name].columns(), "differing": count} for name, count in differing.items()
            ],
            **more,
        }


def _device_cast(storage: Format, values: Any) -> dict[str, Work]:
    return by_cast(storage, values) if storage.name in ("fp16", "fp32") else {}


def _compared(storage: Format, few: Any) -> dict[str, Any]:
    """Return how many of some values in device memory are rounded otherwise than in main memory."""
    there, here = copy_to_host(quantize(few, storage)), quantize(copy_to_host(few), storage)
    return {"differing_from_main_memory": int((here != there).sum())}


def _versions() -> dict[str, str]:
    return {f"version_{package}": metadata.version(package) for package in _PACKAGES if module(package)}
