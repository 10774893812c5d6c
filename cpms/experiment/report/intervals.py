"""Intervals of ratios, medians and means: percentile bootstrap of 95 percent, or ranges of few samples.

The bootstrap draws samples of a result again, with replacement, and for means also the graphs (Efron and Tibshirani, An
Introduction to the Bootstrap, 1993, chapter 13). The seed is fixed, so that the same rows give the same figure. It
costs 400 medians for each result. Fewer than `FEWEST` samples have no interval of 95 percent. Their range is given
instead, and `interval_text` says so in a caption.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

FEWEST = 5
"""Least number of samples, or of graphs, for an interval of 95 percent."""
UNSEEN = " (where none shows, within the mark)"
"""Words of a caption after the name of intervals of which some are hidden by their marks."""
PREPARED = ". Building layouts is not counted"
"""The end of a caption of solves by contestants that are prepared once, as those of kind ``contest`` are."""
_DRAWS = 400
_SHARES = (0.025, 0.975)
"""Quantiles of the ends of an interval."""


def bootstrap(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], graphs: Sequence[object] | None = None
) -> tuple[float, float, float]:
    """Return the geometric mean of ratios of medians, and the ends of its bootstrap interval of 95 percent.

    Ratios of one graph, such as those at several tolerances, are not independent. They are drawn together (cluster
    bootstrap; Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8), and each graph has the
    same weight.

    Parameters
    ----------
    pairs : sequence of two sequences of float
        The samples of the baseline and of the contestant, in seconds.
    graphs : sequence of object, optional
        The graph of each pair; by default each has its own.

    Examples
    --------
    >>> bootstrap([([2.0, 2.0], [1.0, 1.0]), ([8.0], [1.0])])
    (4.0, 2.0, 8.0)
    >>> bootstrap([([2.0], [1.0]), ([8.0], [1.0])], ["path", "path"])
    (4.0, 4.0, 4.0)
    """
    random = np.random.default_rng(0)
    own_of = graphs or range(len(pairs))
    mean = float(np.exp(np.mean(_by_graph(np.log([np.median(base) / np.median(own) for base, own in pairs]), own_of))))
    drawn = _by_graph(np.array([_medians(random, base) - _medians(random, own) for base, own in pairs]), own_of)
    chosen = random.integers(len(drawn), size=drawn.shape)
    means = np.take_along_axis(drawn, chosen, axis=0).mean(axis=0)
    low, high = np.exp(np.quantile(means, _SHARES))
    return round(mean, 12), round(min(mean, float(low)), 12), round(max(mean, float(high)), 12)


def _by_graph(values: Any, graphs: Sequence[object]) -> Any:
    """Return the mean over the lines of values of each graph."""
    places = [[place for place, each in enumerate(graphs) if each == graph] for graph in dict.fromkeys(graphs)]
    return np.array([values[held].mean(axis=0) for held in places])


def bootstrap_or_range(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], graphs: Sequence[object] | None = None
) -> tuple[float, float, float, bool]:
    """Return the mean and the ends of an interval, and whether these are the ends of a range.

    It is the interval of `bootstrap`, or a range if there are few samples on few graphs.

    Examples
    --------
    >>> bootstrap_or_range([([2.0, 4.0], [1.0, 1.0])])
    (3.0, 2.0, 4.0, True)
    """
    mean, low, high = bootstrap(pairs, graphs)
    if len(pairs) >= FEWEST or min(len(each) for pair in pairs for each in pair) >= FEWEST:
        return mean, low, high, False
    low = round(min(min(base) / max(own) for base, own in pairs), 12)
    high = round(max(max(base) / min(own) for base, own in pairs), 12)
    return mean, min(mean, low), max(mean, high), True


def ratios_of(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], graphs: Sequence[object] | None = None
) -> list[float]:
    """Return the ratio of medians of each graph, the geometric mean of its ratios where it has several pairs.

    Examples
    --------
    >>> ratios_of([([2.0], [1.0]), ([8.0], [1.0]), ([3.0], [1.0])], "aab")
    [4.0, 3.0]
    """
    logarithms = np.log([np.median(base) / np.median(own) for base, own in pairs])
    return [round(float(each), 12) for each in np.exp(_by_graph(logarithms, graphs or range(len(pairs))))]


def median_ratio(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """Return the median over graphs of ratios of medians, beside their geometric mean, which `bootstrap` returns.

    Examples
    --------
    >>> median_ratio([([2.0, 2.0], [1.0, 1.0]), ([8.0], [1.0]), ([3.0], [1.0])])
    3.0
    """
    return float(np.median([np.median(base) / np.median(own) for base, own in pairs]))


def ratio_ends(base: Any, own: Any) -> tuple[float, float]:
    """Return the ends of the interval of the ratio of two medians; NaN where one has no samples.

    Examples
    --------
    >>> ratio_ends([2.0, 3.0], [1.0, 1.0]), ratio_ends([1.0], None)
    ((2.0, 3.0), (nan, nan))
    """
    if not (_held(base) and _held(own)):
        return float("nan"), float("nan")
    _, low, high, _ = bootstrap_or_range([(base, own)])
    return low, high


def median_ends(samples: Any) -> tuple[float, float]:
    """Return the ends of the interval of a median; NaN without samples.

    Examples
    --------
    >>> median_ends([3.0, 2.0, 4.0])
    (2.0, 4.0)
    """
    if not _held(samples):
        return float("nan"), float("nan")
    if len(samples) < FEWEST:
        return min(samples), max(samples)
    low, high = np.quantile(np.exp(_medians(np.random.default_rng(0), samples)), _SHARES)
    return round(float(low), 12), round(float(high), 12)


def is_range(*samples: Any) -> bool:
    """Return whether `ratio_ends` or `median_ends` of samples are the ends of a range.

    Examples
    --------
    >>> is_range([1.0] * 4, [1.0] * 9), is_range([1.0] * 5), is_range(None)
    (True, False, False)
    """
    return any(_held(each) and len(each) < FEWEST for each in samples)


def interval_text(rows: pd.DataFrame, *keys: str, capped: bool = False) -> str:
    """Return the words of a caption for the lines of `ratio_ends` and `median_ends`.

    Parameters
    ----------
    rows : DataFrame
        Its column ``results`` has the results of each row.
    *keys : str
        Columns of a result with its samples; ``solve_samples_s`` by default.
    capped : bool
        Whether ranges are drawn with caps in a figure that has intervals, too.

    Examples
    --------
    >>> few, many = ([{"solve_samples_s": [1.0] * count}] for count in (3, 9))
    >>> interval_text(pd.DataFrame({"results": [many]})), interval_text(pd.DataFrame({"results": [few]}))
    ('95 % bootstrap intervals', 'ranges of 3 samples')
    >>> interval_text(pd.DataFrame({"results": [few, many]}))
    '95 % bootstrap intervals, or ranges of fewer than 5 samples'
    """
    asked = keys or ("solve_samples_s",)
    counts = {len(each[key]) for found in rows.results for each in found for key in asked if _held(each.get(key))}
    if not counts or min(counts) >= FEWEST:
        return "95 % bootstrap intervals"
    if max(counts) < FEWEST:
        return f"ranges of {' to '.join(str(count) for count in sorted({min(counts), max(counts)}))} samples"
    return f"95 % bootstrap intervals, or{', with caps,' if capped else ''} ranges of fewer than {FEWEST} samples"


def geometric(ratios: Iterable[float]) -> dict[str, float]:
    """Return the geometric mean of ratios, its bootstrap interval over the ratios, their median and their least.

    Examples
    --------
    >>> geometric([2.0, 8.0])
    {'mean': 4.0, 'low': 2.0, 'high': 8.0, 'median': 5.0, 'least': 2.0, 'graphs': 2}
    """
    known = np.array([ratio for ratio in ratios if np.isfinite(ratio)], dtype=float)
    if not known.size:
        return dict.fromkeys(("mean", "low", "high", "median", "least"), float("nan")) | {"graphs": 0}
    drawn = np.random.default_rng(0).choice(np.log(known), (_DRAWS, known.size)).mean(axis=1)
    mean = float(np.exp(np.log(known).mean()))
    low, high = (float(end) for end in np.exp(np.quantile(drawn, _SHARES)))
    return {
        "mean": round(mean, 12),
        "low": round(min(low, mean), 12),
        "high": round(max(high, mean), 12),
        "median": float(np.median(known)),
        "least": float(known.min()),
        "graphs": int(known.size),
    }


def means_line(ratios: Iterable[float]) -> dict[str, float]:
    """Return the columns of a table of means of ratios: those of `geometric`, and on how many graphs ours is faster.

    Examples
    --------
    >>> means_line([0.5, 8.0])["graphs where ours is faster"]
    1
    """
    known = list(ratios)
    found = geometric(known)
    return {
        "geometric mean": found["mean"],
        **{name: found[name] for name in ("low", "high", "median", "least")},
        "graphs where ours is faster": sum(ratio > 1 for ratio in known),
        "graphs": found["graphs"],
    }


def _held(samples: Any) -> bool:
    return isinstance(samples, list | tuple) and len(samples) > 0


def _medians(random: np.random.Generator, samples: Sequence[float]) -> Any:
    """Return the logarithms of the medians of `_DRAWS` resamples."""
    return np.log(np.median(random.choice(samples, (_DRAWS, len(samples))), axis=1))


def share_ends(some: int, of: int) -> tuple[float, float]:
    """Return the ends of Wilson's interval of 95 percent for a share of independent trials.

    (Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the American Statistical
    Association 22, 1927.) It is of use for shares of 0 and 1, too.

    Examples
    --------
    >>> [round(end, 4) for end in share_ends(0, 100)]
    [0.0, 0.037]
    """
    z2 = 1.959964**2
    middle, half = some + z2 / 2, math.sqrt(z2 * (some * (of - some) / of + z2 / 4))
    return max(0.0, (middle - half) / (of + z2)), min(1.0, (middle + half) / (of + z2))
