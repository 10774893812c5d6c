"""Bandwidth of the conversion in place, beside a copy of the same bytes.

The conversion is an in-place permutation of segments; a copy of the array is its lower bound. Both alternate.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from cpms import engines
from cpms.base import threads
from cpms.base.errors import UnsupportedError
from cpms.base.types import Floats
from cpms.experiment.config import Cell, Repeated, Stateless
from cpms.experiment.config_types import StorageName
from cpms.formats.formats import SegmentFormat, format_named
from cpms.storage.array import SegmentedArray, convert_inplace


class Config(Repeated):
    """The fields of such an experiment."""

    storages: list[StorageName] = Field(min_length=1)
    sizes: list[Annotated[int, Field(ge=1)]] = Field(min_length=1)
    samples: int = Field(default=9, ge=1)
    device: Literal["cpu", "cuda"] = "cpu"

    def cells(self) -> list[Cell]:
        """Return one cell a size, format and repetition."""
        return [
            {
                "values": size,
                "storage": storage,
                "samples": self.samples,
                "repetition": repetition,
                **({} if self.device == "cpu" else {"device": self.device}),
            }
            for size in self.sizes
            for repetition in range(self.repetitions)
            for storage in self.storages
        ]

    def resolved(self, cell: Cell) -> Cell:
        """Return a cell with its device."""
        return {"device": "cpu", **cell}


class Context(Stateless):
    """No state between cells."""

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Time copy, conversion and restoration in turn; bytes count as read plus written."""
        storage = format_named(cell["storage"])
        if not isinstance(storage, SegmentFormat):
            raise UnsupportedError(f"{storage.name} is a packed float; it does not convert in place")
        if cell.get("device") == "cuda":
            return _on_device(cell, storage)
        values: Floats = np.random.default_rng(1).random(int(cell["values"]))
        copy = np.empty_like(values)
        seconds: dict[str, list[float]] = {"copy": [], "convert": [], "restore": []}
        for sample in range(cell["samples"] + 1):
            spent = _turn(values, copy, storage)
            if sample:
                for name, value in spent.items():
                    seconds[name].append(value)
        return _columns(values.nbytes, seconds)


def _columns(nbytes: int, seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Return gigabytes a second, read plus written, from the seconds of each."""
    columns: dict[str, Any] = {"bytes": nbytes}
    for name, taken in seconds.items():
        columns |= {
            f"{name}_gbps": 2e-9 * nbytes / statistics.median(taken),
            f"{name}_least_gbps": 2e-9 * nbytes / max(taken),
            f"{name}_most_gbps": 2e-9 * nbytes / min(taken),
        }
    return columns


def _on_device(cell: Cell, storage: SegmentFormat) -> dict[str, Any]:
    """Time copy, conversion and restoration on a GPU by CUDA events."""
    engines.get("cuda")
    import cupy

    values = cupy.random.default_rng(1).random(cell["values"])
    copy = cupy.empty_like(values)
    events = [cupy.cuda.Event() for _ in range(4)]
    seconds: dict[str, list[float]] = {"copy": [], "convert": [], "restore": []}
    for sample in range(cell["samples"] + 2):
        events[0].record()
        cupy.copyto(copy, values)
        events[1].record()
        stored = convert_inplace(values, storage)
        events[2].record()
        stored.restore_inplace()
        events[3].record()
        events[3].synchronize()
        if sample > 1:
            for name, begin, end in zip(seconds, events, events[1:], strict=False):
                seconds[name].append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
    return _columns(int(values.nbytes), seconds)


def _turn(values: Floats, copy: Floats, storage: SegmentFormat) -> dict[str, float]:
    stored: list[SegmentedArray] = []

    def copied() -> None:
        ranges = threads.ranges(len(values), at_least=1 << 16, parts=threads.available())
        threads.each(lambda part: np.copyto(copy[slice(*part)], values[slice(*part)]), ranges)

    return {
        "copy": _timed(copied),
        "convert": _timed(lambda: stored.append(convert_inplace(values, storage))),
        "restore": _timed(lambda: stored[0].restore_inplace()),
    }


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
