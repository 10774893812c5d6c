"""The product of one rank's rows, by a single-node engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from cpms import engines
from cpms.backends.mpi.shares.rows import GraphRows
from cpms.base.errors import InputError, UnsupportedError
from cpms.base.types import Floats
from cpms.contracts.engine import Engine
from cpms.engines import cpu, serial
from cpms.formats.formats import FP64
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem
from cpms.storage.array import SegmentedArray

_NOT_LOCAL = ("mpi", "mpi_cuda", "cusparse_omega")
"""Engines that are ranks themselves, and one whose sweep conserves mass, so that no product is in it."""
LOCAL = tuple(name for name in engines.names() if name not in _NOT_LOCAL)
"""Engines whose products ranks can use; ``cuda`` keeps vectors on devices, so it is prepared elsewhere."""


class Product(ABC):
    """Multiplies some of a rank's rows.

    Parameters
    ----------
    nbytes : int
        Of the rank's part of the matrix.
    of_shares : bool
        Whether vectors are divided by out-degrees.
    in_pieces : bool
        Whether some rows cost less than all.
    """

    nbytes: int
    of_shares: bool
    in_pieces = True

    @abstractmethod
    def multiply(self, x: Floats, out: Floats, low: int, high: int) -> None:
        """Write rows ``low`` to ``high`` of damping P x into ``out``, both as the layout stores vectors."""


class _Serial(Product):
    def __init__(self, problem: Problem, layout: str) -> None:
        self.of_shares = layout == "pattern"
        self._operator = serial.ENGINE.prepare(problem, FP64, layout)
        self.nbytes = self._operator.nbytes

    def multiply(self, x: Floats, out: Floats, low: int, high: int) -> None:
        self._operator.multiply(x, out, low, high)


class _Cpu(Product):
    """A sweep of engine ``cpu`` in which nothing teleports, over the cuts that lie in the rows asked for."""

    def __init__(self, problem: Problem, layout: str) -> None:
        self.of_shares = layout == "pattern"
        self._operator = cpu.ENGINE.prepare(_without_teleport(problem, 1), FP64, layout)
        self.nbytes = self._operator.nbytes

    def multiply(self, x: Floats, out: Floats, low: int, high: int) -> None:
        within = [(max(low, begin), min(high, end)) for begin, end in self._operator.parts]
        limited = replace(self._operator, parts=[part for part in within if part[0] < part[1]])
        if limited.parts:
            limited.sweep(_stored(x), _stored(out), Level(1, 1), 0)


class _Any(Product):
    """A sweep of any engine in which nothing teleports: vectors go through main memory, all rows at once."""

    of_shares, in_pieces = False, False

    def __init__(self, engine: Engine, problem: Problem, layout: str) -> None:
        there = layout_there(engine.name, layout)
        given = _without_teleport(problem, problem.graph.nodes)
        reason = engine.unsupported(given, FP64, there)
        if reason:
            raise UnsupportedError(reason)
        self._operator = engine.prepare(given, FP64, there)
        self.nbytes = self._operator.nbytes

    def multiply(self, x: Floats, out: Floats, low: int, high: int) -> None:
        found = self._operator.empty()
        self._operator.sweep(self._operator.load(x), found, Level(1, 1), 0)
        out[low:high] = self._operator.read(found, 1)[low:high]


def layout_there(local: str, layout: str) -> str:
    """Return the layout asked for, or the first that the engine has if that is none of its own.

    Examples
    --------
    >>> layout_there("scipy", "pattern"), layout_there("cpu", "pattern")
    ('csr', 'pattern')
    """
    layouts = engines.get_any(local).layouts
    return layout if layout in layouts else layouts[0]


def product(local: str, rows: GraphRows, damping: float, layout: str) -> Product:
    """Prepare the product of a rank's rows.

    Raises
    ------
    InputError
        If that engine is not one of `LOCAL`.
    UnavailableError, UnsupportedError
        If this machine cannot run the engine, or the engine not do this.
    """
    if local not in LOCAL:
        raise InputError(f"ranks cannot multiply by engine {local!r}; they can by {', '.join(LOCAL)}")
    problem = Problem(rows, damping)
    made: dict[str, Any] = {"cpu": _Cpu, "serial": _Serial}
    prepared: Product = made[local](problem, layout) if local in made else _Any(engines.get(local), problem, layout)
    return prepared


def _without_teleport(problem: Problem, nodes: int) -> Problem:
    return Problem(problem.graph, problem.damping, np.zeros(nodes))


def _stored(values: Floats) -> SegmentedArray:
    return SegmentedArray(values.view(np.uint8), len(values), FP64)
