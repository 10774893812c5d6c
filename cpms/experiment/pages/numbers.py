"""Numbers of pages: each with its interval, its unit and the rows that it is computed from.

A number is a median of samples, a ratio of medians, or a geometric mean of such ratios over graphs. Its interval is the
percentile interval of the bootstrap, over graphs and over the samples of each
(`cpms.experiment.report.intervals.bootstrap`); of few samples, or without samples, it is the range from least to most.
Modules of ``experiments/numbers`` yield the numbers of this project, and `cpms.experiment.pages.measured_page` writes
pages of them, so that no number of a page is typed.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cpms.base.errors import InputError
from cpms.base.package_data import folder
from cpms.base.text import escape
from cpms.experiment.report.intervals import FEWEST, bootstrap_or_range, median_ends, median_ratio
from cpms.experiment.rows.rows import Row
from cpms.experiment.rows.series import MEASURED, results_of
from cpms.experiment.rows.standing import Recorded

_DIGITS = 3
_LACKING = "the rows hold nothing of number {!r}; 'cpms run' its experiment"
_SINGULAR = {"matrices": "matrix", **{f"{unit}s": unit for unit in ("answer", "graph", "iteration", "sweep", "system")}}


class Number(NamedTuple):
    """A number of a page.

    Parameters
    ----------
    key : str
        Its name, unique, such as ``road.60M``.
    what : str
        Its meaning, as a cell of a table.
    value : float
    low, high : float
        Ends of its interval; NaN if there is none.
    unit : str
        ``ms``, ``s``, ``µs``, ``times``, ``%``, ``GB/s``, ``sweeps``, ``graphs`` or empty.
    rows : tuple of dict
        The rows that it is computed from.
    show : str
        The program that draws them.
    spread : str
        The kind of the interval: ``95 %``, or ``range``.
    median : float
        Of a geometric mean over graphs, the median of the same ratios; else NaN.
    cases : int
        Of a mean, the number of graphs, matrices or systems over which it is taken; else 0.
    """

    key: str
    what: str
    value: float
    low: float
    high: float
    unit: str
    rows: tuple[Row, ...]
    show: str
    spread: str = "95 %"
    median: float = math.nan
    cases: int = 0

    @property
    def text(self) -> str:
        """Return value and unit; after 1, a countable unit is singular.

        Examples
        --------
        >>> Number("a", "solve", 0.8123, math.nan, math.nan, "ms", (), "road").text
        '0.812 ms'
        >>> Number("a", "wrong", 1, math.nan, math.nan, "matrices", (), "suites").text
        '1 matrix'
        """
        unit = _SINGULAR.get(self.unit, self.unit) if plain(self.value) == "1" else self.unit
        return f"{plain(self.value)} {unit}".strip()

    @property
    def interval(self) -> str:
        """Return the interval as text; empty if there is none.

        Examples
        --------
        >>> Number("a", "solve", 2.0, 1.0, 3.0, "ms", (), "road").interval
        '1.00 to 3.00'
        """
        if math.isnan(self.low) or self.low == self.high:
            return ""
        return f"{plain(self.low)} to {plain(self.high)}" + (", range" if self.spread == "range" else "")


def within(number: Number) -> str:
    """Return the interval of a number and the number of cases, in brackets and few characters.

    Examples
    --------
    >>> within(Number("a", "speed", 2.0, 1.0, 3.0, "times", (), "road", cases=4))
    '[1.00\u20133.00, 4]'
    """
    ends = f"{plain(number.low)}\u2013{plain(number.high)}" if number.interval else ""
    return f"[{', '.join(filter(None, (ends, str(number.cases or ''))))}]"


def plain(value: float) -> str:
    """Return a number with three significant digits, and whole numbers as they are.

    Examples
    --------
    >>> plain(60.02), plain(0.8123), plain(2463.4), plain(15), plain(9.996)
    ('60.0', '0.812', '2463', '15', '10.0')
    """
    if isinstance(value, int) or value == 0:
        return str(int(value))
    exponent = math.floor(math.log10(abs(float(f"{value:.{_DIGITS - 1}e}"))))
    return f"{value:.{max(0, _DIGITS - 1 - exponent)}f}"


def machine(row: Row) -> str:
    """Return the machine of a row in few words: its card, or its processor and the threads.

    Examples
    --------
    >>> machine({"gpu": "NVIDIA H200 141GB HBM3e"}), machine({"cpu": "AMD EPYC", "threads": 2})
    ('H200', 'AMD EPYC, 2 threads')
    """
    if row.get("gpu"):
        return escape.markdown(str(row["gpu"]).removeprefix("NVIDIA ").split()[0])
    return escape.markdown(f"{row.get('cpu', 'unknown')}, {row.get('threads')} threads")


def machines(rows: Iterable[Row]) -> str:
    """Return the machines of rows, each once."""
    return ", ".join(dict.fromkeys(map(machine, rows)))


class Rows(Recorded):
    """The rows of a folder, with methods that find the measured rows and results for a number."""

    def measured(self, experiment: str, **where: Any) -> list[Row]:
        """Return the measured rows of an experiment whose columns have these values."""
        return [row for row in self.of([experiment]) if row["status"] == "ok" and _has(row, where)]

    def results(self, experiment: str, **where: Any) -> list[tuple[Row, dict[str, Any]]]:
        """Return pairs of a row and a measured result of it; columns of a result have precedence."""
        return [
            (row, result)
            for row in self.measured(experiment)
            for result in results_of(row)
            if result.get("status", "ok") in MEASURED and _has({**row, **result}, where)
        ]


def _has(row: dict[str, Any], where: dict[str, Any]) -> bool:
    return all(value(row.get(name)) if callable(value) else row.get(name) == value for name, value in where.items())


def median(
    key: str, what: str, unit: str, samples: Sequence[float], rows: Iterable[Row], show: str, scale: float = 1.0
) -> Number:
    """Return the median of samples, times ``scale``.

    Examples
    --------
    >>> median("a", "solve", "ms", [1.0, 2.0, 3.0], [], "road", 1e3).value
    2000.0
    """
    if not samples:
        raise InputError(_LACKING.format(key))
    scaled = [scale * sample for sample in samples]
    low, high = median_ends(scaled) if len(samples) > 1 else (math.nan, math.nan)
    return Number(key, what, float(np.median(scaled)), low, high, unit, tuple(rows), show, _kind(len(samples) < FEWEST))


def _kind(is_range: bool) -> str:
    return "range" if is_range else "95 %"


def ratio(
    key: str,
    what: str,
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]],
    rows: Iterable[Row],
    show: str,
    unit: str = "times",
) -> Number:
    """Return the geometric mean over graphs of medians over medians, and the median of these ratios."""
    if not pairs:
        raise InputError(_LACKING.format(key))
    value, low, high, is_range = bootstrap_or_range(pairs)
    if len(pairs) == 1 and all(len(samples) == 1 for samples in pairs[0]):
        low = high = math.nan
    middle = median_ratio(pairs) if len(pairs) > 1 else math.nan
    cases = len(pairs) if len(pairs) > 1 else 0
    return Number(key, what, value, low, high, unit, tuple(rows), show, _kind(is_range), middle, cases)


def spread(
    key: str, what: str, unit: str, values: Sequence[float], rows: Iterable[Row], show: str, *, of: str = "median"
) -> Number:
    """Return the median, or the geometric ``mean``, ``least`` or ``most`` of values, with their range.

    Examples
    --------
    >>> spread("a", "share", "%", [1.0, 2.0, 4.0], [], "road", of="mean").interval
    '1.00 to 4.00, range'
    """
    if not values:
        raise InputError(_LACKING.format(key))
    kinds: dict[str, Callable[[Sequence[float]], float]] = {
        "median": lambda held: float(np.median(held)),
        "mean": lambda held: float(np.exp(np.mean(np.log(held)))),
        "least": min,
        "most": max,
    }
    middle = kinds["median"](values) if of == "mean" else math.nan
    cases = len(values) if of == "mean" else 0
    return Number(
        key, what, kinds[of](values), min(values), max(values), unit, tuple(rows), show, "range", middle, cases
    )


def counted(key: str, what: str, unit: str, count: int, rows: Iterable[Row], show: str) -> Number:
    """Return a count, which has no interval."""
    return Number(key, what, count, math.nan, math.nan, unit, tuple(rows), show)


def modules() -> dict[str, Any]:
    """Return the modules of ``experiments/numbers`` by name; each has ``NUMBERS``, a list of functions of `Rows`."""
    found = {}
    for path in sorted((folder("experiments") / "numbers").glob("[!_]*.py")):
        spec = importlib.util.spec_from_file_location(f"cpms_numbers_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise InputError(f"{path}: cannot be loaded")
        found[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found[path.stem])
    return found


def all_numbers(source: Path, *, lenient: bool = False) -> dict[str, Number]:
    """Return the numbers of a folder of rows by their keys, in the order in which pages list them.

    Parameters
    ----------
    source : Path
    lenient : bool
        Omit numbers whose rows the folder lacks, as older folders do.

    Raises
    ------
    InputError
        If two numbers have one key, or rows are missing and this is not ``lenient``.
    """
    rows, found = Rows(source), dict[str, Number]()
    for module in modules().values():
        for function in module.NUMBERS:
            for number in _made(function, rows, lenient):
                if number.key in found:
                    raise InputError(f"two numbers are called {number.key!r}; rename one in experiments/numbers")
                found[number.key] = number
    return found


def _made(function: Callable[[Rows], Iterator[Number]], rows: Rows, lenient: bool) -> Iterator[Number]:
    try:
        yield from function(rows)
    except (InputError, LookupError, TypeError, ValueError) as error:
        if not lenient:
            raise InputError(f"{function.__name__} of experiments/numbers finds no rows: {error!r}") from error
