"""Ticks of logarithmic axes: from three to a few of them, as plain numbers or as powers of ten.

The finest of the usual sequences that fits is taken: every k-th decade, the digits 1, 2, 5 (Lewart, 1973, as in most
plotting libraries), finer digits, and of an axis much shorter than a decade multiples of a round step. Two labelled
ticks leave the scale open, since two numbers lie on a linear axis and on a logarithmic one alike. Raised digits are
those of the font itself, so no text is smaller than the ticks. The cost is a few comparisons a figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_TICKS = 3
"""Labelled ticks of a logarithmic axis."""
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_DIGITS = ((1.0, 3.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0))
"""First digits of ticks of axes that span about a decade or less, from few to many."""
_STEPS = (5.0, 2.0, 1.0)
"""First digits of the steps between ticks of an axis that is nearly linear."""
_EDGE = 1e-9
"""Part of a number by which rounding may move a tick out of the axis."""


def logarithmic(axes: Axes, which: str = "x", *, digits: Sequence[float] = (1.0, 2.0, 5.0), most: int = 6) -> None:
    """Make an axis logarithmic, with plain numbers at few ticks.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    which : str
        ``x`` or ``y``.
    digits : sequence of float
        First digits of ticks, where the axis spans few decades.
    most : int
        Number of ticks.
    """
    from matplotlib.ticker import FuncFormatter, Locator, LogLocator, NullFormatter

    class Few(Locator):
        """Ticks of the axis as it is when the figure is drawn."""

        def __call__(self) -> Any:
            return self.tick_values(*axis.get_view_interval())

        def tick_values(self, vmin: float, vmax: float) -> Any:
            return chosen_ticks(min(vmin, vmax), max(vmin, vmax), digits=digits, most=most)

    class Fine(LogLocator):
        """Nine unlabelled ticks a decade, of an axis that has room for them."""

        def tick_values(self, vmin: float, vmax: float) -> Any:
            return super().tick_values(vmin, vmax) if 0 < min(vmin, vmax) * 10**4.5 > max(vmin, vmax) else []

    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axis.set_minor_locator(Fine(subs=[2, 3, 4, 5, 6, 7, 8, 9], numticks=100))
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_locator(Few())


def chosen_ticks(low: float, high: float, *, digits: Sequence[float] = (1.0, 2.0, 5.0), most: int = 6) -> list[float]:
    """Return the ticks of a logarithmic axis: three or more, as long as its ends differ by more than rounding.

    Parameters
    ----------
    low, high : float
        Ends of the axis; a figure without positive numbers has no ticks.
    digits : sequence of float
        First digits of ticks, where the axis spans few decades.
    most : int
        Number of ticks.

    Examples
    --------
    >>> chosen_ticks(0.9, 120), chosen_ticks(1.9, 60), chosen_ticks(1.7, 2.6)
    ([1.0, 10.0, 100.0], [2.0, 5.0, 10.0, 20.0, 50.0], [1.8, 2.0, 2.2, 2.4, 2.6])
    """
    if not 0 < low < high or not np.isfinite(high):
        return []
    held = list(_sequences(low, high, digits))
    thinned = [each[:: -(-len(each) // most)] for each in held if len(each) > most]
    return next((each for each in [*held, *thinned] if LEAST_TICKS <= len(each) <= most), [low, high])


def _sequences(low: float, high: float, digits: Sequence[float]) -> Iterator[list[float]]:
    """Yield sequences of ticks in the order of preference."""
    first, last = int(np.ceil(np.log10(low) - _EDGE)), int(np.floor(np.log10(high) + _EDGE))
    for step in range(1, max(2, last - first)):
        start = -(-first // step) * step
        yield [_tick(1.0, power) for power in range(start, last + 1, step)]
    for each in (digits, *_DIGITS):
        yield [
            tick
            for power in range(first - 1, last + 1)
            for digit in each
            if low * (1 - _EDGE) <= (tick := _tick(digit, power)) <= high * (1 + _EDGE)
        ]
    for power in range(int(np.floor(np.log10(high - low))), int(np.floor(np.log10(high - low))) - 3, -1):
        for digit in _STEPS:
            step_of = _tick(digit, power)
            places = range(int(np.ceil(low / step_of - _EDGE)), int(np.floor(high / step_of + _EDGE)) + 1)
            yield [float(f"{place * step_of:.12g}") for place in places[:100]]


def _tick(digit: float, power: int) -> float:
    return float(f"{digit}e{power}")


def number(value: float) -> str:
    """Return a number as a tick: plain up to four digits, else as a power of ten with raised digits.

    Examples
    --------
    >>> number(0.5), number(1e-10), number(2000), number(2e6)
    ('0.5', '10⁻¹⁰', '2000', '2×10⁶')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:g}"
    power = int(np.floor(np.log10(abs(value)) + 1e-9))
    first = f"{value / 10.0**power:.6g}"
    return ("" if first == "1" else f"{first}\u00d7") + f"10{str(power).translate(_RAISED)}"
