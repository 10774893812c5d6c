"""Levels, and the controllers that choose them from the residuals alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cpms.base.errors import InputError
from cpms.base.real_arrays import vector
from cpms.base.validation import described, real, whole
from cpms.formats.formats import Format, format_of


@dataclass(frozen=True, slots=True)
class Level:
    """Segments that one sweep reads and writes.

    Examples
    --------
    >>> Level(1, 2)
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
"""The level after matrix and vector have been converted (back) to plain float64."""


class Controller(ABC):
    """A precision policy: maps the residuals seen so far to the next sweep's level.

    A controller is a value. What it remembers between sweeps is the state it returns and is
    handed again, so a residual history can be replayed without a device. When the level it
    returns reads more than the last one did, the solver normalises the vector to mass 1 before
    it goes on; when it returns `FLOAT64`, the solver also converts matrix and vector.

    A sweep can read no more segments than the one before has written: one sweep before reads go up to 2, a controller
    returns ``Level(1, 2)``, and then ``Level(2, 2)``.
    """

    constant: ClassVar[bool] = False
    """Whether the first level is also the last, whatever the residuals."""

    @abstractmethod
    def init(self, storage: Format) -> tuple[Level, Any]:
        """Return the first sweep's level and the state after it."""

    @abstractmethod
    def update(self, state: Any, residual: float) -> tuple[Level, Any]:
        """Return the next sweep's level, and the state, given the last sweep's residual."""

    def rises_later(self, state: Any) -> bool:  # noqa: ARG002
        """Return whether reads will rise whatever the residuals are: until then nothing is final that is read."""
        return False

    def replay(self, storage: Format, residuals: list[float]) -> list[Level]:
        """Return the level of each sweep of a residual history, first sweep first.

        Examples
        --------
        >>> from cpms.formats.formats import CPMS2
        >>> Threshold().replay(CPMS2, [0.5, 1e-5, 9e-6, 1e-6])[-3:]
        [Level(read=1, write=1), Level(read=1, write=2), Level(read=2, write=2)]
        """
        level, state = checked_level(self, self.init(format_of(storage)))
        levels = [level]
        for residual in vector("residuals", residuals).tolist():
            level, state = checked_level(self, self.update(state, residual))
            levels.append(level)
        return levels


def checked_level(controller: Controller, returned: Any) -> tuple[Level, Any]:
    """Return what a controller has returned; refuse what is no level and state.

    Raises
    ------
    InputError

    Examples
    --------
    >>> checked_level(Fixed(), (Level(1, 1), None))
    (Level(read=1, write=1), None)
    """
    if not isinstance(returned, tuple | list) or len(returned) != 2 or not isinstance(returned[0], Level):
        raise InputError(
            f"{type(controller).__name__} returned {described(returned)}; "
            "a controller must return a pair: a cpms.Level and a state"
        )
    return returned[0], returned[1]


def _known(state: Any, kind: type[Any] | tuple[type[Any], ...], of: Controller) -> Any:
    """Return a state that a controller is handed; refuse one that it cannot have returned."""
    if not isinstance(state, kind):
        raise InputError(
            f"{type(of).__name__} is handed the state {described(state)}; hand it the one that init or update returned"
        )
    return state


@dataclass(frozen=True)
class Fixed(Controller):
    """Read ``read`` segments from first to last (all by default).

    Examples
    --------
    >>> from cpms.formats.formats import CPMS4
    >>> Fixed(2).init(CPMS4)[0]
    Level(read=2, write=2)
    """

    read: int | None = None
    constant: ClassVar[bool] = True

    def init(self, storage: Format) -> tuple[Level, Any]:
        """Return the one level there is."""
        segments = format_of(storage).checked_read(self.read)
        level = Level(segments, segments)
        return level, level

    def update(self, state: Any, residual: float) -> tuple[Level, Any]:  # noqa: ARG002
        """Return the same level again."""
        return _known(state, Level, self), state


@dataclass(frozen=True)
class _Rising:
    storage: Format
    level: Level
    residual: float = float("inf")


@dataclass(frozen=True)
class Threshold(Controller):
    """The rule of the CPMS paper: raise the precision when the residual comes near it.

    With m explicit mantissa bits read, the precision rises when ``residual <= factor * 2**-m``
    or, where ``stagnation`` is on, when the residual did not fall. The sweep after that reads the
    old level and writes one segment more, and the one after reads what was written. One sweep
    later than full precision is first read, everything is plain float64. Packed floats have one
    level: theirs rises straight to float64.

    Parameters
    ----------
    factor : float
        10 in the authors' program.
    stagnation : bool
        Whether a residual that does not fall raises the precision, too.

    Notes
    -----
    Source: Grützmacher et al., section IV.B; the numbers are those their program uses.
    """

    factor: float = 10.0
    stagnation: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", real("factor", self.factor))
        if not isinstance(self.stagnation, bool | np.bool_):
            raise InputError(f"stagnation is {described(self.stagnation)}; it can be True or False")

    def init(self, storage: Format) -> tuple[Level, Any]:
        """Return the lowest level."""
        level = Level(1, 1)
        return level, _Rising(format_of(storage), level)

    def update(self, state: Any, residual: float) -> tuple[Level, Any]:
        """Return the next level."""
        state, residual = _known(state, _Rising, self), real("residual", residual)
        level = self._next(state, residual)
        return level, _Rising(state.storage, level, residual)

    def _next(self, state: _Rising, residual: float) -> Level:
        storage, level = state.storage, state.level
        if level == FLOAT64:
            return FLOAT64
        if level.write > level.read:
            return Level(level.write, level.write)
        if level.read == storage.segments and storage.exact:
            return FLOAT64 if storage.segments > 1 else level
        near = residual <= self.factor * 2.0 ** -storage.mantissa_kept(level.read)
        stuck = self.stagnation and residual >= state.residual
        if not (near or stuck):
            return level
        return Level(level.read, level.read + 1) if level.read < storage.segments else FLOAT64


@dataclass(frozen=True)
class Schedule(Controller):
    """Rise at fixed sweeps: ``rises[k] = read`` says that sweep k (from 0) reads ``read`` segments.

    The sweep before a rise already writes what the next one reads.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS4
    >>> Schedule({0: 1, 2: 3}).replay(CPMS4, [1.0, 0.9])
    [Level(read=1, write=1), Level(read=1, write=3), Level(read=3, write=3)]
    """

    rises: Mapping[int, int] = field(default_factory=lambda: {0: 1})

    def __post_init__(self) -> None:
        if not isinstance(self.rises, Mapping):
            raise InputError(f"schedule is {described(self.rises)}; give segments by sweep, such as {{0: 1, 20: 2}}")
        rises = {whole("sweep", sweep): whole("segments", read) for sweep, read in self.rises.items()}
        object.__setattr__(self, "rises", rises)
        steps = sorted(rises)
        reads = [rises[step] for step in steps]
        if not steps or steps[0] != 0 or reads != sorted(reads):
            raise InputError(f"schedule {described(rises)} must begin at sweep 0 and never read fewer segments later")

    def init(self, storage: Format) -> tuple[Level, Any]:
        """Return the level of sweep 0."""
        for read in self.rises.values():
            format_of(storage).checked_read(read)
        return self._level(0), 0

    def update(self, state: Any, residual: float) -> tuple[Level, Any]:  # noqa: ARG002
        """Return the level of the next sweep."""
        step = self._step(state) + 1
        return self._level(step), step

    def rises_later(self, state: Any) -> bool:
        """Return whether a rise is yet to come."""
        return self._step(state) < max(self.rises)

    def _step(self, state: Any) -> int:
        return max(0, int(_known(state, int, self)))

    def _level(self, step: int) -> Level:
        def read(at: int) -> int:
            return self.rises[max(rise for rise in self.rises if rise <= at)]

        return Level(read(step), read(step + 1))


class _Within(NamedTuple):
    storage: Format
    inner: Any


@dataclass(frozen=True)
class _Around(Controller):
    """One that changes the levels of another; its state is the storage format and the other's state."""

    inner: Controller

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Controller):
            raise InputError(f"a controller wraps another, such as cpms.Threshold(), not {described(self.inner)}")

    def init(self, storage: Format) -> tuple[Level, Any]:
        """Return the inner controller's first level, changed."""
        storage = format_of(storage)
        level, state = checked_level(self.inner, self.inner.init(storage))
        return self._changed(level, storage), _Within(storage, state)

    def update(self, state: Any, residual: float) -> tuple[Level, Any]:
        """Return the inner controller's next level, changed."""
        storage, inner_state = _known(state, _Within, self)
        level, inner_state = checked_level(self.inner, self.inner.update(inner_state, residual))
        return self._changed(level, storage), _Within(storage, inner_state)

    def rises_later(self, state: Any) -> bool:
        """Return what the inner controller says."""
        return self.inner.rises_later(_known(state, _Within, self).inner)

    @abstractmethod
    def _changed(self, level: Level, storage: Format) -> Level:
        """Return what becomes of a level."""


@dataclass(frozen=True)
class WriteAhead(_Around):
    """Wrap a controller so that each sweep writes ``by`` segments more than it reads, as far as there are any.

    The authors' program did so, by one; their timings include those bytes.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS4
    >>> WriteAhead(Fixed(2)).init(CPMS4)[0]
    Level(read=2, write=3)
    """

    by: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "by", whole("by", self.by))
        if self.by < 0:
            raise InputError(f"by is {self.by}; a sweep writes 0 segments or more besides those it reads")

    def _changed(self, level: Level, storage: Format) -> Level:
        if level == FLOAT64:
            return level
        return Level(level.read, max(level.write, min(level.read + self.by, storage.segments)))


@dataclass(frozen=True)
class StartAt(_Around):
    """Wrap a controller so that no sweep reads fewer than ``read`` segments.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS4
    >>> StartAt(Threshold(), 2).init(CPMS4)[0]
    Level(read=2, write=2)
    """

    read: int

    def _changed(self, level: Level, storage: Format) -> Level:
        least = storage.checked_read(self.read)
        return level if level == FLOAT64 else Level(max(level.read, least), max(level.write, least))


@dataclass(frozen=True)
class AtMost(_Around):
    """Wrap a controller so that no sweep reads more than ``read`` segments: the next step is plain float64.

    The sweep before that writes all segments. Where values are gathered one by one, each segment costs a
    transaction, and one of float64 is cheaper than three segments or more.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS4
    >>> residuals = [0.5, 0.4, 0.3, 1e-8, 1e-9]
    >>> [(level.read, level.write) for level in AtMost(Threshold(), 2).replay(CPMS4, residuals)]
    [(1, 1), (1, 2), (2, 2), (2, 2), (2, 4), (0, 0)]
    """

    read: int

    def _changed(self, level: Level, storage: Format) -> Level:
        most = storage.checked_read(self.read)
        if level.read > most:
            return FLOAT64
        return Level(level.read, storage.segments) if level.write > most else level


def default_controller(storage: Format) -> Controller:
    """Return `Fixed` for one exact segment, the paper's rule for every other format."""
    return Fixed() if storage.exact and storage.segments == 1 else Threshold()
