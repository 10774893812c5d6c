"""Ticks of logarithmic axes: three or a few more, in one notation, with as many labels as fit.

The finest of the usual sequences that fits is chosen: every k-th decade; the digits 1, 2, 5 (Lewart, 1973, as in most
plotting libraries); finer digits if the axis spans about a decade or less; and multiples of a round step if it is much
shorter. At least three ticks have labels, since two numbers do not show that an axis is logarithmic. The unlabelled
ticks of such short axes are multiples of a round step, too, so that there are more of them between 1 and 2. Numbers
with many zeros are written like 1e-6, on all ticks of an axis or on none, since raised digits would be smaller than 7
points. The cost is a few comparisons for a figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cpms.experiment.report.page.room import text_inches

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_TICKS = 3
"""Least number of labelled ticks of an axis."""
_DIGITS = ((1.0, 2.0, 5.0), (1.0, 3.0))
_FINE_DIGITS = ((1.0, 1.5, 2.0, 3.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))
"""First digits of ticks, from few to many: for any axis, and for those that span about a decade or less."""
_APART_DIGITS = (
    (1.0, 2.0, 5.0),
    (1.0, 1.5, 2.0, 2.5, *range(3, 10)),
    (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.5, 2.8, *range(3, 10)),
)
"""First digits of three ticks that must be far apart, from short numbers to those that are further apart."""
_STEPS = (5.0, 2.0, 1.0)
"""First digits of the steps between ticks of an axis that is nearly linear."""
_EDGE = 1e-9
"""Relative distance by which rounding may move a tick beyond the end of the axis."""
_SHORT = 30.0
"""Ratio of the ends of an axis up to which ticks divide the part from 1 to 2."""
_LINEAR = 4.0
"""Ratio of the ends of an axis up to which ticks may be multiples of a round step."""
_MOST_BETWEEN = 31
"""Most unlabelled ticks of such an axis."""
_GAP_IN, _LINE_IN = 0.05, 0.16
"""Least gap between labels side by side, and least distance of lines of labels one above the other, in inches."""
_BETWEEN_IN = 0.02
"""Least distance of unlabelled ticks, in inches; nearer ones merge in print."""
_PLAIN = (1e-3, 1e5)
"""Range of the numbers that are written without an exponent, the upper end excluded."""


def logarithmic(axes: Axes, which: str = "x", *, most: int = 6) -> None:
    """Make an axis logarithmic, with numbers in one notation at as many ticks as fit.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    which : str
        ``x`` or ``y``.
    most : int
        Most labelled ticks.
    """
    from matplotlib.ticker import Formatter, Locator, NullFormatter

    class Few(Locator):
        """Labelled ticks, for the length that the axis has when the figure is drawn."""

        def __init__(self) -> None:
            self._found = dict[tuple[float, ...], Any]()

        def __call__(self) -> Any:
            return self.tick_values(*axis.get_view_interval())

        def tick_values(self, vmin: float, vmax: float) -> Any:
            """Return the ticks, which Matplotlib asks for many times while it draws."""
            low, high = min(vmin, vmax), max(vmin, vmax)
            key = (low, high, *axis.get_view_interval(), *_inches())
            if key not in self._found:
                self._found[key] = self._ticks(low, high)
            return self._found[key]

        def _ticks(self, low: float, high: float) -> Any:
            allowed = most
            while allowed > LEAST_TICKS and not _fit(ticks := chosen_ticks(low, high, most=allowed)):
                allowed = max(LEAST_TICKS, min(allowed, len(ticks)) - 1)
            ticks = chosen_ticks(low, high, most=allowed)
            return ticks if len(ticks) < LEAST_TICKS or _fit(ticks) else far_apart(low, high, _fit) or ticks

    class Fine(Few):
        """Unlabelled ticks, fewer if they would be too near."""

        def _ticks(self, low: float, high: float) -> Any:
            ticks = between_ticks(low, high)
            near = len(ticks) > 1 and min(_apart(ticks)) < _BETWEEN_IN
            return between_ticks(low, high, tenths=False) if near else ticks

    class Alike(Formatter):
        """Numbers in one notation."""

        def __call__(self, value: float, _: int | None = None) -> str:
            return number(value)

        def format_ticks(self, values: Sequence[float]) -> list[str]:
            return numbers(values)

    def _inches() -> Any:
        figure: Any = axes.figure
        return axes.get_window_extent().size / figure.dpi

    def _apart(ticks: Sequence[float]) -> Any:
        """Return the distances of neighbouring ticks at the present length of the axis, in inches."""
        places = axis.get_transform().transform(np.asarray(ticks))
        low, high = sorted(axis.get_transform().transform(np.asarray(axis.get_view_interval())))
        return np.diff(places) / (high - low) * _inches()[int(which == "y")]

    def _fit(ticks: Sequence[float]) -> bool:
        """Return whether the labels of ticks do not touch at the present length of the axis."""
        apart = _apart(ticks)
        if which == "y":
            return bool((apart >= _LINE_IN).all())
        widths = np.array([text_inches(each) for each in numbers(ticks)])
        return bool((apart >= (widths[1:] + widths[:-1]) / 2 + _GAP_IN).all())

    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    axis.set_major_formatter(Alike())
    axis.set_minor_locator(Fine())
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_locator(Few())


def chosen_ticks(low: float, high: float, *, most: int = 6) -> list[float]:
    """Return the labelled ticks of a logarithmic axis: three or more, unless its ends differ by rounding alone.

    Parameters
    ----------
    low, high : float
        Ends of the axis; without positive numbers there are no ticks.
    most : int
        Most ticks.

    Examples
    --------
    >>> chosen_ticks(0.9, 120), chosen_ticks(1.9, 60), chosen_ticks(1.7, 2.6)
    ([1.0, 10.0, 100.0], [2.0, 5.0, 10.0, 20.0, 50.0], [1.8, 2.0, 2.2, 2.4, 2.6])
    >>> chosen_ticks(0.6, 6.0), chosen_ticks(0.9, 1.6)
    ([0.7, 1.0, 1.5, 2.0, 3.0, 5.0], [1.0, 1.2, 1.4, 1.6])
    >>> chosen_ticks(0.018, 1.6, most=3), chosen_ticks(0.0009, 1.2, most=3)
    ([0.05, 0.2, 1.0], [0.01, 0.1, 1.0])
    """
    if not 0 < low < high or not np.isfinite(high):
        return []
    usual, steps = list(_usual(low, high)), list(_multiples(low, high))
    finer = steps if high <= _LINEAR * low else []
    preferred = [each for each in [*usual, *finer] if LEAST_TICKS <= len(each) <= most]
    if preferred:
        return max(preferred, key=len) if high <= _SHORT * low else preferred[0]
    decades = [usual[0][-most:]] if len(usual[0]) == most + 1 else []
    held = [*finer, *usual, *decades, *_thinned(usual, most), *steps, *_thinned(steps, most)]
    fitting = [each for each in held if LEAST_TICKS <= len(each) <= most]
    of_one = [each for each in fitting if 1.0 in each]  # Ratios are over 1.
    return [*of_one, *fitting, [low, high]][0]


def far_apart(low: float, high: float, fit: Callable[[Sequence[float]], bool] = lambda _: True) -> list[float]:
    """Return three ticks that are as far apart as round numbers allow, for a short axis; none if there are not three.

    The first and the last number of the roundest digits are taken, with one near their middle that fits; if none does,
    those of further digits.

    Examples
    --------
    >>> far_apart(678, 2980), far_apart(1.1, 1.9), far_apart(150, 3100)
    ([700.0, 1500.0, 2500.0], [1.2, 1.4, 1.8], [200.0, 500.0, 2000.0])
    """
    found = list[float]()
    for digits in _APART_DIGITS:
        held = _with_digits(low, high, digits)
        if len(held) >= LEAST_TICKS:
            first, *inner, last = held
            inner.sort(key=lambda tick: abs(np.log(tick * tick / (first * last))))
            fitting = [three for tick in inner if fit(three := [first, tick, last])]
            if fitting:
                return fitting[0]
            found = [first, inner[0], last]
    return found


def _thinned(held: Sequence[list[float]], most: int) -> list[list[float]]:
    """Return every k-th tick of sequences that are too long, from each of the first k."""
    steps = [(each, -(-len(each) // most)) for each in held]
    return [each[start::step] for each, step in steps if step > 1 for start in range(step)]


def between_ticks(low: float, high: float, *, tenths: bool = True) -> list[float]:
    """Return the unlabelled ticks of a logarithmic axis; none if they would be too many.

    With ``tenths``, an axis of about a decade or less has ticks at tenths between 1 and 2.

    Examples
    --------
    >>> between_ticks(0.9, 1.6)
    [0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.35, 1.4, 1.45, 1.5, 1.55, 1.6]
    >>> between_ticks(0.9, 10.5)
    [0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]
    """
    if not 0 < low < high < low * 10**4.5:
        return []
    if high <= _LINEAR * low:
        return max((each for each in _multiples(low, high) if len(each) <= _MOST_BETWEEN), key=len)
    digits: list[float] = [1.0, *range(2, 10)]
    if tenths and high <= _SHORT * low:
        digits = [*(1 + tenth / 10 for tenth in range(10)), *range(2, 10)]
    return _with_digits(low, high, digits)


def _usual(low: float, high: float) -> Iterator[list[float]]:
    """Yield sequences of decades and of first digits; of those with equally many ticks, the preferred first."""
    first, last = int(np.ceil(np.log10(low) - _EDGE)), int(np.floor(np.log10(high) + _EDGE))
    for step in range(1, max(2, last - first)):
        start = -(-first // step) * step
        yield [_tick(1.0, power) for power in range(start, last + 1, step)]
    for each in (*_DIGITS, *(_FINE_DIGITS if high <= _SHORT * low else ())):
        yield _with_digits(low, high, each)


def _with_digits(low: float, high: float, digits: Sequence[float]) -> list[float]:
    """Return the numbers within an axis that have these first digits."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    found = (_tick(digit, power) for power in powers for digit in digits)
    return [tick for tick in found if low * (1 - _EDGE) <= tick <= high * (1 + _EDGE)]


def _multiples(low: float, high: float) -> Iterator[list[float]]:
    """Yield the multiples of round steps within an axis, from few to many."""
    for power in range(int(np.floor(np.log10(high - low))), int(np.floor(np.log10(high - low))) - 3, -1):
        for digit in _STEPS:
            step_of = _tick(digit, power)
            places = range(int(np.ceil(low / step_of - _EDGE)), int(np.floor(high / step_of + _EDGE)) + 1)
            yield [float(f"{place * step_of:.12g}") for place in places[:100]]


def _tick(digit: float, power: int) -> float:
    return float(f"{digit:.12g}e{power}")


def number(value: float) -> str:
    """Return a number as the text of a tick: plain from 0.001 to below 100000, else with an exponent.

    Examples
    --------
    >>> number(0.5), number(1e-10), number(2000), number(2e6)
    ('0.5', '1e-10', '2000', '2e6')
    """
    return f"{value:.12g}" if value == 0 or _PLAIN[0] <= abs(value) < _PLAIN[1] else _with_exponent(value)


def numbers(values: Sequence[float]) -> list[str]:
    """Return numbers in one notation: all are plain, or all but 0 and 1 have exponents.

    Examples
    --------
    >>> numbers([0.01, 1.0, 100.0]), numbers([1e-4, 0.01, 1.0])
    (['0.01', '1', '100'], ['1e-4', '1e-2', '1'])
    """
    if all(value == 0 or _PLAIN[0] <= abs(value) < _PLAIN[1] for value in values):
        return [f"{value:.12g}" for value in values]
    return [f"{value:g}" if value in (0, 1) else _with_exponent(value) for value in values]


def _with_exponent(value: float) -> str:
    first, _, power = f"{value:.11e}".partition("e")
    return f"{float(first):.12g}e{int(power)}"
