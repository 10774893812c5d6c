"""Bandwidth of the conversion in place, and of a copy of the same bytes.

The conversion permutes segments in place, and takes at least the time of a copy of the array. Both alternate.
"""

from __future__ import annotations

import statistics
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from cpms import engines
from cpms.base.errors import UnsupportedError
from cpms.base.types import Floats
from cpms.experiment.config import Cell, Repeated, Stateless
from cpms.experiment.config_types import StorageName
from cpms.experiment.timers import WallTimer, copying, in_turn
from cpms.formats.formats import SegmentFormat, format_named
from cpms.storage.array import SegmentedArray, convert_inplace


class Config(Repeated):
    """The fields of such an experiment."""

    storages: list[StorageName] = Field(min_length=1)
    sizes: list[Annotated[int, Field(ge=1)]] = Field(min_length=1)
    samples: int = Field(default=9, ge=1)
    device: Literal["cpu", "cuda"] = "cpu"
    later: ClassVar[set[str]] = {"device"}

    def cells(self) -> list[Cell]:
        """Return one cell a size, format and repetition."""
        storages: list[Cell] = [{"storage": storage} for storage in self.storages]
        fixed = {"samples": self.samples, **self.given_later()}
        return self.in_rounds([{"values": size} for size in self.sizes], storages, **fixed)


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
        stored: list[SegmentedArray] = []
        timers = {
            "copy": WallTimer(copying(values)),
            "convert": WallTimer(lambda: stored.append(convert_inplace(values, storage))),
            "restore": WallTimer(lambda: stored.pop().restore_inplace()),
        }
        in_turn(list(timers.values()), cell["samples"])
        return _columns(values.nbytes, {name: timer.samples_ms for name, timer in timers.items()})


def _columns(nbytes: int, samples_ms: dict[str, list[float]]) -> dict[str, Any]:
    """Return the rate of each work in gigabytes a second, read plus written, from its times."""
    columns: dict[str, Any] = {"bytes": nbytes}
    for name, taken in samples_ms.items():
        columns |= {
            f"{name}_gbps": 2e-6 * nbytes / statistics.median(taken),
            f"{name}_least_gbps": 2e-6 * nbytes / max(taken),
            f"{name}_most_gbps": 2e-6 * nbytes / min(taken),
        }
    return columns


def _on_device(cell: Cell, storage: SegmentFormat) -> dict[str, Any]:
    """Time copy, conversion and restoration on a GPU by CUDA events."""
    engines.get("cuda")
    import cupy

    values = cupy.random.default_rng(1).random(cell["values"])
    copy = cupy.empty_like(values)
    events = [cupy.cuda.Event() for _ in range(4)]
    samples_ms: dict[str, list[float]] = {"copy": [], "convert": [], "restore": []}
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
            for name, begin, end in zip(samples_ms, events, events[1:], strict=False):
                samples_ms[name].append(cupy.cuda.get_elapsed_time(begin, end))
    return _columns(int(values.nbytes), samples_ms)
