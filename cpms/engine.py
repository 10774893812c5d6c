"""The contract between algorithms and engines: problems, sweeps, operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from cpms import work_clock
from cpms.errors import InputError, UnsupportedError
from cpms.format import FP16, FloatFormat, Format
from cpms.graph import Graph, require_graph
from cpms.near import nearest
from cpms.precision import Level
from cpms.real_arrays import doubles
from cpms.scalars import described, real

Floats: TypeAlias = npt.NDArray[np.float64]
if TYPE_CHECKING:
    from cpms.batch import Batch
    from cpms.batch_refine import RefiningBatch

DanglingRule: TypeAlias = Literal["teleport", "uniform"]
DANGLING_RULES: tuple[str, ...] = get_args(DanglingRule)
Norm: TypeAlias = Literal["l1", "l2", "linf"]
Vector = TypeVar("Vector")
_LEAST_SUM = float(np.finfo(np.float64).smallest_normal)
"""Least total weight that leaves a node: the reciprocal of a smaller one may be infinite."""


@dataclass(frozen=True, eq=False)
class Problem:
    """x = damping (P x + w s) + (1 - damping) v, with s the mass of x on dangling nodes.

    P is the transposed adjacency matrix with each column divided by its sum, v the teleport
    distribution, and w either v or uniform.

    Parameters
    ----------
    graph : Graph
    damping : float
        Strictly between 0 and 1.
    teleport : ndarray of float64, shape (nodes,), optional
        v, of sum 1; None is uniform. One number, shape (1,), is that of every node.
    dangling : {"teleport", "uniform"}
        Where the mass of dangling nodes goes: w = v, or w uniform.
    """

    graph: Graph
    damping: float = 0.85
    teleport: Floats | None = None
    dangling: DanglingRule = "teleport"

    def __post_init__(self) -> None:
        object.__setattr__(self, "damping", real("damping", self.damping))
        if not 0.0 < self.damping < 1.0:
            raise InputError(f"damping is {self.damping}; it must lie strictly between 0 and 1")
        require_graph(self.graph)
        if not isinstance(self.dangling, str) or self.dangling not in DANGLING_RULES:
            rules = " or ".join(map(repr, DANGLING_RULES))
            raise InputError(f"dangling is {described(self.dangling)}; it can be {rules}")
        if self.teleport is not None:
            object.__setattr__(self, "teleport", doubles("teleport", self.teleport))
            if self.teleport.shape not in ((self.graph.nodes,), (1,)):
                raise InputError(f"teleport has shape {self.teleport.shape}; give one number a node, or one for all")
        if self.graph.weights is not None:
            sums = self.graph.out_weight
            wrong = np.flatnonzero((self.graph.out_degree > 0) & ~((sums >= _LEAST_SUM) & np.isfinite(sums)))
            if len(wrong):
                node = self.graph.node_id(int(wrong[0]))
                raise InputError(
                    f"the weights of the edges that leave node {node!r} sum to {float(sums[wrong[0]])}, "
                    "which float64 cannot divide by; multiply all weights by a power of two"
                )

    @property
    def sends_back(self) -> bool:
        """Whether the mass of dangling nodes goes where teleport does: w = v."""
        return self.dangling == "teleport" or self.teleport is None

    @property
    def teleport_or_scalar(self) -> Floats:
        """v: shape (nodes,), or (1,) where every node has the same."""
        return np.full(1, 1.0 / self.graph.nodes) if self.teleport is None else self.teleport

    @property
    def sink_or_scalar(self) -> Floats:
        """w: shape (nodes,), or (1,) where every node has the same."""
        return np.full(1, 1.0 / self.graph.nodes) if self.dangling == "uniform" else self.teleport_or_scalar


class Sweep(NamedTuple):
    """What one sweep found: norms of the change it made, and the mass of what it wrote."""

    l1: float
    l2: float
    linf: float
    mass: float

    def of(self, norm: Norm) -> float:
        """Return one of the norms by name."""
        found: float = getattr(self, norm)
        return found


class Sweeps(NamedTuple):
    """What sweeps one after the other found, and when each ended, in seconds since the first began."""

    found: list[Sweep]
    seconds: list[float]


class Operator(ABC, Generic[Vector]):
    """A problem prepared for sweeps: matrix in a layout, values in a storage format.

    Vectors are opaque to algorithms; only the operator that made one can use it.
    """

    storage: Format
    nbytes: int

    @abstractmethod
    def load(self, values: Floats) -> Vector:
        """Return float64 ``values``, shape (nodes,), as a vector with all its segments written."""

    @abstractmethod
    def empty(self) -> Vector:
        """Return a vector to sweep into; its content is undefined."""

    def queue(self, x: Vector, out: Vector, level: Level, step: int, norm: Norm) -> Callable[[], Sweep] | None:
        """Begin `sweep` and return how to wait for what it finds, of which only L1, ``norm`` and mass count.

        The next sweep may be begun before, from ``out`` into ``x``. None where the caller has to wait: nothing has
        been begun then.
        """
        del x, out, level, step, norm
        return None

    @abstractmethod
    def sweep(self, x: Vector, out: Vector, level: Level, step: int) -> Sweep:
        """Write one application of the PageRank operator to ``x`` into ``out``.

        Values and ``x`` are read in their first ``level.read`` segments, ``level.write``
        segments of ``out`` are written. The change is that of the stored values. ``step``
        numbers the sweep: stochastic rounding depends on it.
        """

    def sweeps(self, x: Vector, out: Vector, level: Level, step: int, *, norm: Norm, tol: float, most: int) -> Sweeps:
        """Sweep at most ``most`` times, ``x`` and ``out`` taking turns, until ``norm`` falls below ``tol``.

        Engines that stay on the device for many sweeps do; the others return after one.
        """
        del norm, tol, most
        began = work_clock.now()
        return Sweeps([self.sweep(x, out, level, step)], [work_clock.now() - began])

    @abstractmethod
    def scale(self, x: Vector, factor: float, segments: int) -> None:
        """Multiply ``x``, read and written in its first ``segments`` segments, by ``factor``."""

    @abstractmethod
    def to_float64(self, x: Vector, out: Vector) -> tuple[Operator[Any], Any, Any]:
        """Convert matrix and vectors to plain float64, in place where the format allows it.

        Returns the operator and vectors to go on with; the old ones must not be used again.
        """

    @abstractmethod
    def read(self, x: Vector, segments: int) -> Floats:
        """Return ``x``, read in its first ``segments`` segments, as float64, shape (nodes,)."""

    def read_device(self, x: Vector, segments: int) -> Any | None:
        """Return what `read` does as a CuPy array, or None where vectors are in main memory."""
        del x, segments
        return None


class Round(NamedTuple):
    """What a round found: its full sweep, and the low sweeps after it.

    Parameters
    ----------
    found : Sweep
        Norms of r = G(x) - x, and the mass of G(x).
    low : list of float
        ||r||_1 after each low sweep.
    sums : list of float
        The sum of r after each sweep, the full one first.
    seconds : list of float
        When each of them ended, since the round began.
    rough : bool
        Whether x was rounded before, so that r was found from as few bits as low sweeps read. Of its norms L1 alone is
        known, which the others do not exceed.
    """

    found: Sweep
    low: list[float]
    sums: list[float]
    seconds: list[float]
    rough: bool = False


class Asked(NamedTuple):
    """What is asked of rounds of method ``refine``; see `Refinement.rounds`."""

    gain: float
    trust: float
    tol: float
    norm: Norm
    most: int


class Refinement(ABC):
    """A problem prepared for method ``refine``; it holds x, and c, what x lacks (see `cpms.refine`)."""

    nbytes: int
    damping: float
    extrapolates: bool = True
    """Whether `rounds` and `solution` may combine what low sweeps found (see `cpms.extrapolation`)."""
    carries: bool = True
    """Whether `rounds` and `solution` may keep what rounding loses of each node where that is worth more, if the policy
    ``adapts``."""
    adapts: bool = False
    """Whether rounds may go below the gain that they are asked for."""

    @abstractmethod
    def start(self, values: Floats) -> None:
        """Begin at float64 ``values``, shape (nodes,), of the memory that the engine takes."""

    def start_evenly(self, nodes: int) -> None:
        """Begin at the uniform distribution over all nodes of the graph."""
        self.start(np.full(nodes, 1.0 / nodes))

    def expect(self, storage: FloatFormat | None) -> None:  # noqa: B027
        """Do what the first round in a format would do but once, such as compiling."""

    @property
    def refines_in(self) -> FloatFormat | None:
        """Format of the residual that serves this problem best, where it is not the engine's."""
        return None

    def solution(self, iterate: Callable[[Refinement], None]) -> Any | None:  # noqa: ARG002
        """Return x, of sum 1, where the graph allows more than sweeps over all of it; None if not.

        It is in the memory where the engine has it. ``iterate`` refines a smaller problem, which has been started.
        """
        return None

    def aim(self, teleport: Floats) -> bool:  # noqa: ARG002
        """Go on with another teleport distribution, shape (nodes,); False: the engine has to be prepared for it."""
        return False

    @abstractmethod
    def round(self, storage: FloatFormat | None, *, gain: float, tol: float, norm: Norm, most_low: int) -> Round:
        """Correct x by c, sweep in float64, and go on with low sweeps unless ``norm`` of r is below ``tol``.

        Low sweeps read r / out-degree in ``storage`` and end when ||r||_1 is at most ``gain`` times
        what the full sweep found, or half of what meets ``tol``, or after ``most_low`` of them, or as many as
        pay in a round (`cpms.low_until.low_limit`); without a storage there are none.
        """

    def rounds(
        self, storage: FloatFormat | None, *, gain: float, trust: float, tol: float, norm: Norm, most: int
    ) -> list[Round]:
        """Do rounds of at most ``most`` sweeps in all, as long as they go as planned; at least one.

        They do while a full sweep finds at most ``trust`` times the ||r||_1 that low sweeps ended with, or that their
        gain asked for.
        Engines that stay on the device go on that long; the others return after one round. Low sweeps may be
        extrapolated here, those of `round` are not.
        """
        del trust
        return [self.round(storage, gain=gain, tol=tol, norm=norm, most_low=most - 1)]

    @abstractmethod
    def read(self) -> Floats:
        """Return x, shape (nodes,)."""

    def read_device(self) -> Any | None:
        """Return what `read` does as a CuPy array, or None where x is in main memory."""
        return None


class Engine(ABC):
    """What executes sweeps; an engine is a module in ``cpms/engines`` with one of these as ``ENGINE``."""

    name: ClassVar[str]
    layouts: ClassVar[tuple[str, ...]]
    methods: ClassVar[tuple[str, ...]] = ("power",)
    refines_in: ClassVar[FloatFormat] = FP16
    """Format of the residual of method ``refine``, unless it is told another."""
    takes_device_arrays: ClassVar[bool] = False
    """Whether operators load arrays in device memory as they are."""
    mass_roundoff: ClassVar[float] = 0.0
    """Error of the dangling mass as a share of all, where it is the difference of two sums and no sum of its own."""
    repeatable: ClassVar[bool]
    """Whether the same call gives the same bits, on this machine, every time."""

    @abstractmethod
    def missing(self) -> str | None:
        """Return what this machine lacks to run the engine, as a sentence; None if nothing."""

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:  # noqa: ARG002
        """Return why the engine cannot do this, as a sentence; None if it can."""
        if not isinstance(layout, str) or layout not in self.layouts:
            near = nearest(layout, self.layouts)
            it = f"did you mean {near}? It" if near else "it"
            return (
                f"engine {self.name} has no layout {described(layout)}; {it} has "
                f"{', '.join(self.layouts)}; 'cpms engines' lists those of others"
            )
        if layout == "pattern" and problem.graph.weights is not None:
            return f"layout 'pattern' stores no values, but {problem.graph.name} has weights; use csr, or ignore them"
        return None

    def sum_roundoff(self, storage: Format) -> float:  # noqa: ARG002
        """Return the unit roundoff in which rows are summed, where that is rougher than float64's; else 0."""
        return 0.0

    @abstractmethod
    def prepare(self, problem: Problem, storage: Format, layout: str) -> Operator[Any]:
        """Do the work that depends on the matrix alone, once for many sweeps."""

    def does(self, work: str) -> bool:
        """Say whether the engine has a method, or for ``batch`` whether it takes many queries at once."""
        return type(self).batch is not Engine.batch if work == "batch" else work in self.methods

    def batch(self, problem: Problem) -> Batch:  # noqa: ARG002
        """Prepare for many teleport distributions at once, in the pattern layout; the problem's own is not used."""
        raise UnsupportedError(f"engine {self.name} takes no batches of queries; use cpu or cuda")

    def refining_batch(self, problem: Problem) -> RefiningBatch:  # noqa: ARG002
        """Prepare for many teleport distributions at once by method ``refine``."""
        raise UnsupportedError(f"engine {self.name} takes no batches of queries by method 'refine'; use cpu or cuda")

    def refinement(self, problem: Problem) -> Refinement:  # noqa: ARG002
        """Prepare for method ``refine``, in the pattern layout; engines that list the method have it."""
        raise UnsupportedError(f"engine {self.name} has no method 'refine'; use cpu or cuda")
