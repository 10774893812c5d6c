"""Conversion in place against a copy of the same bytes, in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cpms import threads
from cpms.errors import UnsupportedError
from cpms.experiment.config import Cell, Experiment
from cpms.format import SegmentFormat, format_named
from cpms.segmented import SegmentedArray, convert_inplace

Floats = npt.NDArray[np.float64]


class Config(Experiment):
    """What such an experiment may set."""

    storages: list[str] = Field(min_length=1)
    sizes: list[Annotated[int, Field(ge=1)]] = Field(min_length=1)
    samples: int = Field(default=9, ge=1)

    def cells(self) -> list[Cell]:
        """Return one cell a size, format and repetition."""
        return [
            {"values": size, "storage": storage, "samples": self.samples, "repetition": repetition}
            for size in self.sizes
            for repetition in range(self.repetitions)
            for storage in self.storages
        ]


class Context:
    """Nothing is kept between cells."""

    def __init__(self, config: Config) -> None:
        del config

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Time copy, conversion and restoration in turn; bytes count as read plus written."""
        storage = format_named(cell["storage"])
        if not isinstance(storage, SegmentFormat):
            raise UnsupportedError(f"{storage.name} is a packed float; it does not convert in place")
        values: Floats = np.random.default_rng(1).random(int(cell["values"]))
        copy = np.empty_like(values)
        seconds: dict[str, list[float]] = {"copy": [], "convert": [], "restore": []}
        for sample in range(cell["samples"] + 1):
            spent = _turn(values, copy, storage)
            if sample:
                for name, value in spent.items():
                    seconds[name].append(value)
        moved = 2 * values.nbytes / 1e9
        columns: dict[str, Any] = {"bytes": values.nbytes}
        for name, taken in seconds.items():
            columns |= {
                f"{name}_gbps": moved / statistics.median(taken),
                f"{name}_least_gbps": moved / max(taken),
                f"{name}_most_gbps": moved / min(taken),
            }
        return columns


def _turn(values: Floats, copy: Floats, storage: SegmentFormat) -> dict[str, float]:
    held: list[SegmentedArray] = []

    def copied() -> None:
        cuts = threads.stretches(len(values), at_least=1 << 16, parts=threads.available())
        threads.each(lambda cut: np.copyto(copy[slice(*cut)], values[slice(*cut)]), cuts)

    return {
        "copy": _timed(copied),
        "convert": _timed(lambda: held.append(convert_inplace(values, storage))),
        "restore": _timed(lambda: held[0].restore_inplace()),
    }


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
