"""The product of one rank's rows, by a single-node engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from cpms.engine import Floats, Problem
from cpms.engines import cpu, serial
from cpms.errors import InputError
from cpms.format import FP64
from cpms.mpi.rows import GraphRows
from cpms.precision import Level
from cpms.segmented import SegmentedArray

LOCAL = ("cpu", "serial", "cuda")
"""Engines whose products ranks can use; ``cuda`` keeps vectors on devices, so it is prepared elsewhere."""


class Product(ABC):
    """Multiplies some of a rank's rows."""

    nbytes: int

    @abstractmethod
    def multiply(self, x: Floats, out: Floats, low: int, high: int) -> None:
        """Write rows ``low`` to ``high`` of damping P x into ``out``, both as the layout stores vectors."""


class _Serial(Product):
    def __init__(self, problem: Problem, layout: str) -> None:
        self._operator = serial.ENGINE.prepare(problem, FP64, layout)
        self.nbytes = self._operator.nbytes

    def multiply(self, x: Floats, out: Floats, low: int, high: int) -> None:
        self._operator.multiply(x, out, low, high)


class _Cpu(Product):
    """A sweep of engine ``cpu`` in which nothing teleports, over the cuts that lie in the rows asked for."""

    def __init__(self, problem: Problem, layout: str) -> None:
        without_teleport = Problem(problem.graph, problem.damping, np.zeros(1))
        self._operator = cpu.ENGINE.prepare(without_teleport, FP64, layout)
        self.nbytes = self._operator.nbytes

    def multiply(self, x: Floats, out: Floats, low: int, high: int) -> None:
        within = [(max(low, begin), min(high, end)) for begin, end in self._operator.parts]
        limited = replace(self._operator, parts=[part for part in within if part[0] < part[1]])
        if limited.parts:
            limited.sweep(_stored(x), _stored(out), Level(1, 1), 0)


def product(local: str, rows: GraphRows, damping: float, layout: str) -> Product:
    """Prepare the product of a rank's rows.

    Raises
    ------
    InputError
        If that engine is not one of `LOCAL`.
    """
    made: dict[str, Any] = {"cpu": _Cpu, "serial": _Serial}
    if local not in made:
        raise InputError(f"ranks cannot multiply by engine {local!r}; they can by {' or '.join(made)}")
    prepared: Product = made[local](Problem(rows, damping), layout)
    return prepared


def _stored(values: Floats) -> SegmentedArray:
    return SegmentedArray(values.view(np.uint8), len(values), FP64)
