"""Precision controllers of power iteration: they choose each sweep's level, the segments that it reads and writes.

The precision rises as the residual decreases, by the rule of the CPMS paper (Grützmacher et al., section IV.B), at
given sweeps, or never; wrappers alter the levels of other controllers. A controller is a frozen value that maps a state
and a residual to a level and a new state, so histories can be replayed. It costs nothing beside a sweep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cpms.base import plugins
from cpms.base.errors import InputError
from cpms.base.real_arrays import vector
from cpms.base.validation import described, real, whole
from cpms.formats.formats import Format, format_of


@dataclass(frozen=True, slots=True)
class Level:
    """Numbers of segments that a sweep reads (``read``) and writes (``write``); 0 is plain float64.

    Examples
    --------
    >>> import cpms
    >>> cpms.Level(1, 2)
    Level(read=1, write=2)
    """

    read: int
    write: int

    def __post_init__(self) -> None:
        for field_name in ("read", "write"):
            segments = whole(field_name, getattr(self, field_name))
            if segments < 0:
                raise InputError(f"{field_name} is {segments}; a level has 1 segment or more, or 0 for plain float64")
            object.__setattr__(self, field_name, segments)


FLOAT64 = Level(0, 0)
"""Level at which matrix and vector are plain float64."""


class Controller(ABC):
    """Precision controller: maps the residuals so far to the level of the next sweep.

    A controller is a value. Its memory between sweeps is the state that it returns and receives again, so a history of
    residuals can be replayed without a solve. When a level reads more segments than the one before, the solver scales
    the vector to mass 1 before the next sweep. At `FLOAT64` it also converts matrix and vector.

    A sweep can read no more segments than the one before has written. One sweep before reads rise to 2, a controller
    returns ``Level(1, 2)``, and then ``Level(2, 2)``.

    Examples
    --------
    >>> import cpms
    >>> class OneSegment(cpms.Controller):
    ...     def init(self, storage):
    ...         return cpms.Level(1, 1), None
    ...     def update(self, state, residual):
    ...         return cpms.Level(1, 1), None
    >>> OneSegment().replay("cpms4", [0.5])
    [Level(read=1, write=1), Level(read=1, write=1)]
    """

    constant: ClassVar[bool] = False
    """Whether the level is the same in all sweeps."""

    @abstractmethod
    def init(self, storage: Format) -> tuple[Level, Any]:
        """Return the level of the first sweep, and the initial state, which may be any object.

        ``storage`` is the format of the iterate.
        """

    @abstractmethod
    def update(self, state: Any, residual: float) -> tuple[Level, Any]:
        """Return the level of the next sweep and a new state.

        ``state`` is what `init` or the last call returned, and ``residual`` the norm of the change in the last sweep.
        """

    def rises_later(self, state: Any) -> bool:  # noqa: ARG002
        """Return whether reads will rise whatever the residuals are; a solve cannot converge before they do."""
        return False

    def replay(self, storage: Format, residuals: list[float]) -> list[Level]:
        """Return the level of each sweep of a residual history, first sweep first.

        Examples
        --------
        >>> import cpms
        >>> cpms.Threshold().replay(cpms.CPMS2, [0.5, 1e-5, 9e-6, 1e-6])[-3:]
        [Level(read=1, write=1), Level(read=1, write=2), Level(read=2, write=2)]
        """
        level, state = first_level(self, format_of(storage))
        levels = [level]
        for residual in vector("residuals", residuals).tolist():
            level, state = next_level(self, state, residual)
            levels.append(level)
        return levels


def first_level(controller: Controller, storage: Format) -> tuple[Level, Any]:
    """Return the level of the first sweep and the state, checked; errors in a plug-in's code name it."""
    with plugins.running(controller):
        returned = controller.init(storage)
    return checked_level(controller, returned)


def next_level(controller: Controller, state: Any, residual: float) -> tuple[Level, Any]:
    """Return the level of the next sweep and the new state, as `first_level` does."""
    with plugins.running(controller):
        returned = controller.update(state, residual)
    return checked_level(controller, returned)


def checked_level(controller: Controller, returned: Any) -> tuple[Level, Any]:
    """Return the level and the state that a controller returned; refuse anything but such a pair.

    Examples
    --------
    >>> checked_level(Fixed(), (Level(1, 1), None))
    (Level(read=1, write=1), None)
    """
    if not isinstance(returned, tuple | list) or len(returned) != 2 or not isinstance(returned[0], Level):
        raise InputError(
            f"{plugins.described_plugin(controller)} returned {described(returned)}; "
            "a controller must return a pair: a cpms.Level and a state"
        )
    return returned[0], returned[1]


def checked_state(state: Any, kind: type[Any] | tuple[type[Any], ...], owner: Any) -> Any:
    """Return the state that a controller or policy was given; refuse one that it cannot have returned."""
    if not isinstance(state, kind):
        raise InputError(
            f"{type(owner).__name__} was given the state {described(state)}; "
            "give it the one that init or update returned"
        )
    return state


@dataclass(frozen=True)
class Fixed(Controller):
    """Controller that reads ``read`` segments in all sweeps (all segments by default).

    Examples
    --------
    >>> import cpms
    >>> cpms.Fixed(2).init(cpms.CPMS4)[0]
    Level(read=2, write=2)
    """

    read: int | None = None
    constant: ClassVar[bool] = True

    def init(self, storage: Format) -> tuple[Level, Any]:
        """Return the only level."""
        segments = format_of(storage).checked_read(self.read)
        level = Level(segments, segments)
        return level, level

    def update(self, state: Any, residual: float) -> tuple[Level, Any]:  # noqa: ARG002
        """Return the same level again."""
        return checked_state(state, Level, self), state


@dataclass(frozen=True)
class _ThresholdState:
    storage: Format
    level: Level
    residual: float = float("inf")


@dataclass(frozen=True)
class Threshold(Controller):
    """Rule of the CPMS paper: raise the precision when the residual is near the unit roundoff.

    With m explicit mantissa bits read, the precision rises when ``residual <= factor * 2**-m`` or, with ``stagnation``,
    when the residual did not decrease. The next sweep reads the old level and writes one segment more, which the sweep
    after it reads. One sweep after all segments are first read, everything is plain float64. Packed floats have one
    level, and rise to float64.

    Parameters
    ----------
    factor : float
        At least 0; 10 in the authors' program (Grützmacher et al., section IV.B).
    stagnation : bool
        Whether a residual that does not decrease raises the precision, too.

    Examples
    --------
    >>> import cpms  # The first segment of CPMS4 has m = 4, so reads rise at residuals of 10 / 16 and below.
    >>> [level.read for level in cpms.Threshold().replay(cpms.CPMS4, [0.9, 0.6, 0.5])]
    [1, 1, 1, 2]
    """

    factor: float = 10.0
    stagnation: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", real("factor", self.factor))
        if not 0.0 <= self.factor < np.inf:
            raise InputError(f"factor is {self.factor}; it must be 0 or more, and finite")
        if not isinstance(self.stagnation, bool | np.bool_):
            raise InputError(f"stagnation is {described(self.stagnation)}; it can be True or False")

    def init(self, storage: Format) -> tuple[Level, Any]:
        """Return the lowest level."""
        level = Level(1, 1)
        return level, _ThresholdState(format_of(storage), level)

    def update(self, state: Any, residual: float) -> tuple[Level, Any]:
        """Return the next level."""
        state, residual = checked_state(state, _ThresholdState, self), real("residual", residual)
        level = self._next(state, residual)
        return level, _ThresholdState(state.storage, level, residual)

    def _next(self, state: _ThresholdState, residual: float) -> Level:
        storage, level = state.storage, state.level
        if level == FLOAT64:
            return FLOAT64
        if level.write > level.read:
            return Level(level.write, level.write)
        if level.read == storage.segments and storage.exact:
            return FLOAT64 if storage.segments > 1 else level
        is_near = residual <= self.factor * 2.0 ** -storage.mantissa_kept(level.read)
        has_stagnated = self.stagnation and residual >= state.residual
        if not (is_near or has_stagnated):
            return level
        return Level(level.read, level.read + 1) if level.read < storage.segments else FLOAT64


@dataclass(frozen=True)
class Schedule(Controller):
    """Controller of fixed rises: from sweep k (counted from 0) on, ``rises[k]`` segments are read; ``rises`` is a dict.

    The sweep before a rise writes the segments that the next one reads.

    Examples
    --------
    >>> import cpms
    >>> cpms.Schedule({0: 1, 2: 3}).replay(cpms.CPMS4, [1.0, 0.9])
    [Level(read=1, write=1), Level(read=1, write=3), Level(read=3, write=3)]
    """

    rises: Mapping[int, int] = field(default_factory=lambda: {0: 1})

    def __post_init__(self) -> None:
        if not isinstance(self.rises, Mapping):
            raise InputError(f"schedule is {described(self.rises)}; give segments by sweep, such as {{0: 1, 20: 2}}")
        rises = {whole("sweep", sweep): whole("segments", read) for sweep, read in self.rises.items()}
        object.__setattr__(self, "rises", rises)
        sweeps = sorted(rises)
        reads = [rises[sweep] for sweep in sweeps]
        if not sweeps or sweeps[0] != 0 or reads != sorted(reads):
            raise InputError(f"schedule {described(rises)} must begin at sweep 0 and never read fewer segments later")

    def init(self, storage: Format) -> tuple[Level, Any]:
        """Return the level of sweep 0."""
        for read in self.rises.values():
            format_of(storage).checked_read(read)
        return self._level(0), 0

    def update(self, state: Any, residual: float) -> tuple[Level, Any]:  # noqa: ARG002
        """Return the level of the next sweep."""
        sweep = self._sweep(state) + 1
        return self._level(sweep), sweep

    def rises_later(self, state: Any) -> bool:
        """Return whether a later sweep reads more segments."""
        return self._sweep(state) < max(self.rises)

    def _sweep(self, state: Any) -> int:
        return max(0, int(checked_state(state, int, self)))

    def _level(self, sweep: int) -> Level:
        def read(at: int) -> int:
            return self.rises[max(rise for rise in self.rises if rise <= at)]

        return Level(read(sweep), read(sweep + 1))


class _WrappedState(NamedTuple):
    storage: Format
    inner: Any


@dataclass(frozen=True)
class _Wrapper(Controller):
    """Controller that alters the levels of another; its state is the storage format and the other's state."""

    inner: Controller

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Controller):
            raise InputError(f"a controller wraps another, such as cpms.Threshold(), not {described(self.inner)}")

    def init(self, storage: Format) -> tuple[Level, Any]:
        """Return the inner controller's first level, altered."""
        storage = format_of(storage)
        level, state = first_level(self.inner, storage)
        return self._altered(level, storage), _WrappedState(storage, state)

    def update(self, state: Any, residual: float) -> tuple[Level, Any]:
        """Return the inner controller's next level, altered."""
        storage, inner_state = checked_state(state, _WrappedState, self)
        level, inner_state = next_level(self.inner, inner_state, residual)
        return self._altered(level, storage), _WrappedState(storage, inner_state)

    def rises_later(self, state: Any) -> bool:
        """Return the inner controller's answer."""
        return self.inner.rises_later(checked_state(state, _WrappedState, self).inner)

    @abstractmethod
    def _altered(self, level: Level, storage: Format) -> Level:
        """Return the altered level."""


@dataclass(frozen=True)
class WriteAhead(_Wrapper):
    """Wrapper of a controller ``inner``: each sweep writes ``by`` segments more than it reads, up to all.

    The authors' program wrote one segment more; their timings include those bytes.

    Examples
    --------
    >>> import cpms
    >>> cpms.WriteAhead(cpms.Fixed(2)).init(cpms.CPMS4)[0]
    Level(read=2, write=3)
    """

    by: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "by", whole("by", self.by))
        if self.by < 0:
            raise InputError(f"by is {self.by}; a sweep writes 0 segments or more besides those it reads")

    def _altered(self, level: Level, storage: Format) -> Level:
        if level == FLOAT64:
            return level
        return Level(level.read, max(level.write, min(level.read + self.by, storage.segments)))


@dataclass(frozen=True)
class StartAt(_Wrapper):
    """Wrapper of a controller ``inner``: no sweep reads fewer than ``read`` segments.

    Examples
    --------
    >>> import cpms
    >>> cpms.StartAt(cpms.Threshold(), 2).init(cpms.CPMS4)[0]
    Level(read=2, write=2)
    """

    read: int

    def _altered(self, level: Level, storage: Format) -> Level:
        fewest = storage.checked_read(self.read)
        return level if level == FLOAT64 else Level(max(level.read, fewest), max(level.write, fewest))


@dataclass(frozen=True)
class AtMost(_Wrapper):
    """Wrapper of ``inner``: no sweep reads more than ``read`` segments; the next higher level is plain float64.

    The sweep before the rise writes all segments. If values are gathered individually, each segment costs a memory
    transaction, and one transaction of float64 is cheaper than three segments or more.

    Examples
    --------
    >>> import cpms
    >>> residuals = [0.5, 0.4, 0.3, 1e-8, 1e-9]
    >>> [(level.read, level.write) for level in cpms.AtMost(cpms.Threshold(), 2).replay(cpms.CPMS4, residuals)]
    [(1, 1), (1, 2), (2, 2), (2, 2), (2, 4), (0, 0)]
    """

    read: int

    def _altered(self, level: Level, storage: Format) -> Level:
        most = storage.checked_read(self.read)
        if level.read > most:
            return FLOAT64
        return Level(level.read, storage.segments) if level.write > most else level


def default_controller(storage: Format) -> Controller:
    """Return `Fixed` for a single exact segment, and `Threshold`, the paper's rule, for every other format."""
    return Fixed() if storage.exact and storage.segments == 1 else Threshold()
