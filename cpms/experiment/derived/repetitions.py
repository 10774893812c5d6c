"""Repetitions of rows as text: the number of samples of each result, and their spread.

The spread is the interquartile range of a result's samples over their median. Where rows have the least and the largest
sample alone, it is the difference of these, their range. A text gives the median spread of all results, of both kinds
where there are both. The cost is one pass over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from cpms.experiment.derived.sweep_times import has_times, sweep_times
from cpms.experiment.rows.rows import Row
from cpms.experiment.rows.series import RESULTS, results_of

SAMPLED = ("solve", "solves", "run", "query", "road", "old_road", "call", "prepared", "device_road", "device_prepared")
"""Names of the times that have samples in rows, of which figures draw one unless they say which."""
_ENDS = (
    ("least_ms", "most_ms", "median_ms"),
    ("convert_least_gbps", "convert_most_gbps", "convert_gbps"),
    ("restore_least_gbps", "restore_most_gbps", "restore_gbps"),
)


def repetitions(rows: Sequence[Row], drawn: pd.DataFrame | None, times: Sequence[str] = SAMPLED) -> str:
    """Return the number of samples of each result, and their spread; for kind ``sweeps``, of runs of many sweeps."""
    swept, others = ([row for row in rows if _is_of_sweeps(row) is which] for which in (True, False))
    texts = [_of_samples(others, drawn, times)] if others or not swept else []
    return ". ".join([*texts, _of_sweeps(swept)] if swept else texts)


def _is_of_sweeps(row: Row) -> bool:
    return row.get("kind") == "sweeps" and all(isinstance(row.get(key), int) for key in ("samples", "sweeps"))


def _of_sweeps(rows: Sequence[Row]) -> str:
    """Return the number of runs and of sweeps in each, and the spread of the means of runs."""
    found = [sweep_times(row, result) for row in rows for result in results_of(row) if has_times(row, result)]
    spreads = [each.range_us / each.us for each in found if each.us > 0]
    text = f"Runs of each result: {_range(row['samples'] for row in rows)} of "
    text += f"{_range(row['sweeps'] - 1 for row in rows)} timed sweeps"
    return f"{text}; median range of runs {_percent(spreads)} of the median" if spreads else text


def _of_samples(rows: Sequence[Row], drawn: pd.DataFrame | None, times: Sequence[str]) -> str:
    """Return the number of samples of each result, and their spread."""
    sampled = [each for row in rows for result in _results(row) for each in _samples(result, times)]
    without = [row for row in rows if not any(any(_samples(result, times)) for result in _results(row))]
    counts = [row["samples"] for row in without if isinstance(row.get("samples"), int) and row["samples"] > 0]
    spreads = [
        (result[most] - result[least]) / result[middle]
        for row in without
        for result in _results(row)
        for least, most, middle in _ENDS
        if {least, most, middle} <= result.keys()
    ]
    ends = f"{_range(counts)}; median range {_percent(spreads)} of the median" if counts and spreads else ""
    if sampled:
        return f"{_spread_of(sampled)}{', or ' if ends else ''}{ends}"
    if ends:
        return f"Samples of each result: {ends}"
    if counts:
        return f"Samples of each result: {_range(counts)}; the rows hold their median alone"
    given = [] if drawn is None else [each for each in drawn.samples if len(each)]
    if any(len(each) > 1 for each in given):
        return _spread_of(given)
    repeated = [1 + row["repetition"] for row in rows if isinstance(row.get("repetition"), int)]
    rounds = [row["rounds"] for row in rows if isinstance(row.get("rounds"), int)]
    count = max([*repeated, *rounds], default=1)
    return f"Repetitions: {count}; the rows hold no spread" if count == 1 else f"Repetitions: {count}"


def _spread_of(sampled: Sequence[Sequence[float]]) -> str:
    spreads = [share for each in sampled if len(each) > 1 and (share := spread(each)) >= 0]
    text = f"median interquartile range {_percent(spreads)} of the median" if spreads else "no spread"
    return f"Samples of each result: {_range(map(len, sampled))}; {text}"


def only(rows: Iterable[Row], is_drawn: Callable[[dict[str, Any]], bool]) -> list[Row]:
    """Return rows with some of their results alone; a row without any of these is left out.

    Parameters
    ----------
    rows : iterable of dict
    is_drawn : callable
        Returns whether a result is one of them; the result that it receives has the columns of its row, too.

    Examples
    --------
    >>> rows = [{"results": [{"engine": "cpu"}, {"engine": "cuda"}]}, {"engine": "cpu"}]
    >>> only(rows, lambda each: each["engine"] == "cuda")
    [{'results': [{'engine': 'cuda'}]}]
    """
    found = list[Row]()
    for row in rows:
        key = next((key for key in RESULTS if isinstance(row.get(key), list)), None)
        if key is None:
            found += [row] if is_drawn(row) else []
        elif held := [result for result in results_of(row) if is_drawn({**row, **result})]:
            found.append({**row, key: held})
    return found


def _results(row: Row) -> Iterator[dict[str, Any]]:
    """Yield a row and the results that it holds."""
    yield row
    yield from (result for result in results_of(row) if result is not row)


def _samples(result: dict[str, Any], times: Sequence[str]) -> Iterator[list[float]]:
    for name in times:
        samples = result.get(f"{name}_samples_s")
        if isinstance(samples, list) and samples:
            yield samples


def spread(samples: Sequence[float]) -> float:
    """Return the interquartile range of samples over their median.

    Examples
    --------
    >>> spread([1.0, 2.0, 3.0])
    0.5
    """
    low, middle, high = np.quantile(samples, [0.25, 0.5, 0.75])
    return float((high - low) / middle) if middle > 0 else -1.0


def _percent(shares: Sequence[float]) -> str:
    return f"{100 * float(np.median(shares)):.2g} %"


def _range(counts: Iterable[int]) -> str:
    held = sorted(set(counts))
    return f"{held[0]} to {held[-1]}" if len(held) > 1 else str(held[0])
