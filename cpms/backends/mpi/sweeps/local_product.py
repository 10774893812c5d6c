"""The product of one rank's rows, by a single-node engine without teleport."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from cpms.backends.mpi.shares.rows import GraphRows
from cpms.base.types import Floats
from cpms.contracts.engine import Engine
from cpms.formats.formats import FP64
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem
from cpms.storage.array import SegmentedArray


class Product(ABC):
    """Multiplies some of a rank's rows.

    Parameters
    ----------
    nbytes : int
        Of the rank's part of the matrix.
    of_contributions : bool
        Whether vectors are contributions, x over out-degree.
    in_parts : bool
        Whether the product of some rows costs less than that of all.
    """

    nbytes: int
    of_contributions: bool
    in_parts = True

    @abstractmethod
    def multiply(self, x: Floats, out: Floats, low: int, high: int) -> None:
        """Write rows ``low`` to ``high`` of damping P x into ``out``, both as the layout stores vectors."""


class _Serial(Product):
    def __init__(self, engine: Engine, problem: Problem, layout: str) -> None:
        self.of_contributions = layout == "pattern"
        self._operator: Any = engine.prepare(problem, FP64, layout)
        self.nbytes = self._operator.nbytes

    def multiply(self, x: Floats, out: Floats, low: int, high: int) -> None:
        self._operator.multiply(x, out, low, high)


class _Cpu(Product):
    """A sweep of engine ``cpu`` without teleport, over the ranges within the requested rows."""

    def __init__(self, engine: Engine, problem: Problem, layout: str) -> None:
        self.of_contributions = layout == "pattern"
        self._operator: Any = engine.prepare(_without_teleport(problem, 1), FP64, layout)
        self.nbytes = self._operator.nbytes

    def multiply(self, x: Floats, out: Floats, low: int, high: int) -> None:
        within = [(max(low, begin), min(high, end)) for begin, end in self._operator.parts]
        limited = replace(self._operator, parts=[part for part in within if part[0] < part[1]])
        if limited.parts:
            limited.sweep(_stored(x), _stored(out), Level(1, 1), 0)


class _Any(Product):
    """A sweep of any engine without teleport: vectors pass through main memory, for all rows at once."""

    of_contributions, in_parts = False, False

    def __init__(self, engine: Engine, problem: Problem, layout: str) -> None:
        there = layout_there(engine, layout)
        given = _without_teleport(problem, problem.graph.nodes)
        engine.require_supported(given, FP64, there)
        self._operator = engine.prepare(given, FP64, there)
        self.nbytes = self._operator.nbytes

    def multiply(self, x: Floats, out: Floats, low: int, high: int) -> None:
        found = self._operator.empty()
        self._operator.sweep(self._operator.load(x), found, Level(1, 1), 0)
        out[low:high] = self._operator.read(found, 1)[low:high]


def layout_there(engine: Engine, layout: str) -> str:
    """Return the layout asked for, or the engine's first layout if the engine lacks the one asked for.

    Examples
    --------
    >>> from cpms import engines
    >>> [layout_there(engines.get_any(name), "pattern") for name in ("scipy", "cpu")]
    ['csr', 'pattern']
    """
    return layout if layout in engine.layouts else engine.layouts[0]


def product(engine: Engine, rows: GraphRows, damping: float, layout: str) -> Product:
    """Prepare the product of a rank's rows by a single-node engine.

    Raises
    ------
    UnsupportedError
        If the engine cannot do this.
    """
    products: dict[str, type[_Serial | _Cpu]] = {"cpu": _Cpu, "serial": _Serial}
    return products.get(engine.name, _Any)(engine, Problem(rows, damping), layout)


def _without_teleport(problem: Problem, nodes: int) -> Problem:
    return Problem(problem.graph, problem.damping, np.zeros(nodes))


def _stored(values: Floats) -> SegmentedArray:
    return SegmentedArray(values.view(np.uint8), len(values), FP64)
