"""The comparison of two runs: the ratio of each series with an interval, a rank test and a conclusion.

Samples of time are positive and skewed, so all methods use their logarithms. Outliers are set aside by Hampel's
identifier (`cpms.experiment.rows.outliers`). The ratio is the Hodges-Lehmann estimate: the median of the ratios of all
pairs of a sample of each run. Its interval is that of Moses. A difference is reported if the Mann-Whitney test rejects
the hypothesis that the ratio lies within a margin about 1. See Hollander, Wolfe and Chicken, Nonparametric Statistical
Methods, 3rd edition, chapter 4. The cost is the product of the two numbers of samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.experiment.rows.outliers import are_kept
from cpms.experiment.rows.rows import Row
from cpms.experiment.rows.series import Series, contestants

Conclusion = Literal["slower", "faster", "no difference", "too few samples"]
LEAST_SAMPLES = 5
"""Least number of samples of a run; with fewer, a rank test cannot reject at the usual levels."""
ALPHA = 0.02
"""Level of each test, unless a caller gives another one."""
MARGIN = 0.001
"""Ratios from 1 / (1 + MARGIN) to 1 + MARGIN do not count as a difference."""
_RESAMPLES = 2000


class Comparison(NamedTuple):
    """Two series with the same key.

    Parameters
    ----------
    before, after : Series
    ratio : float
        Time of ``after`` over that of ``before``, or the inverse for rates: above 1 is slower.
    low, high : float
        Interval of the ratio, of confidence 1 - alpha; NaN with too few samples.
    p_value : float
        That of the two-sided test for the conclusion; NaN with too few samples.
    conclusion : str
    outliers : int
        Samples of both series that were set aside.
    kept : (int, int)
        Samples of each series that were compared.
    """

    before: Series
    after: Series
    ratio: float
    low: float
    high: float
    p_value: float
    conclusion: Conclusion
    outliers: int = 0
    kept: tuple[int, int] = (0, 0)

    @property
    def sentence(self) -> str:
        """The conclusion; with too few samples, also how many each run has left.

        Examples
        --------
        >>> base = Series("mine", "path", "cpu", "solve", "s", (1.0, 1.01, 1.02, 1.03, 1.0, 5.0))
        >>> compare([base._replace(samples=(1.0, 1.01, 1.0, 1.02, 5.0))], [base])[0].sentence
        'too few samples: before 4 of 5 left, 1 set aside'
        """
        if self.conclusion != "too few samples":
            return self.conclusion
        texts = []
        for name, series, kept in zip(("before", "after"), (self.before, self.after), self.kept, strict=True):
            count = len(series.samples)
            if kept < LEAST_SAMPLES:
                texts.append(
                    f"{name} {kept} of {count} left, {count - kept} set aside" if kept < count else f"{name} {kept}"
                )
        return f"{self.conclusion}: {'; '.join(texts)}"


def compare(
    before: Iterable[Series], after: Iterable[Series], *, alpha: float = ALPHA, margin: float = MARGIN
) -> list[Comparison]:
    """Compare the series of two runs that have the same key.

    Parameters
    ----------
    before, after : iterable of Series
        Of `cpms.experiment.rows.series.series_of`.
    alpha : float
        The level of each test, in (0, 1).
    margin : float
        The relative difference that does not count, at least 0 and below 1.

    Raises
    ------
    InputError
        If no series of one run is in the other, or a number is out of its range.

    Examples
    --------
    >>> base = Series("mine", "path", "cpu", "solve", "s", (1.0, 1.01, 1.02, 1.03, 1.04, 1.05))
    >>> found = compare([base], [base._replace(samples=tuple(1.2 * t for t in base.samples))])[0]
    >>> round(found.ratio, 2), found.conclusion
    (1.2, 'slower')
    """
    if not 0.0 < alpha < 1.0 or not 0.0 <= margin < 1.0:
        raise InputError(f"alpha lies between 0 and 1 and margin is at least 0 and below 1; got {alpha} and {margin}")
    later = {each.key: each for each in after}
    pairs = [(each, later[each.key]) for each in before if each.key in later]
    if not pairs:
        raise InputError("the two runs have no measurement in common; compare runs of one configuration")
    return [_compared(first, second, alpha, margin) for first, second in pairs]


def _compared(before: Series, after: Series, alpha: float, margin: float) -> Comparison:
    sign = -1.0 if before.higher_is_better else 1.0
    x, y = (sign * _kept_logs(each.samples) for each in (before, after))
    kept = len(x), len(y)
    outliers = len(before.samples) + len(after.samples) - len(x) - len(y)
    differences = np.sort(np.subtract.outer(y, x).ravel())
    ratio = math.exp(float(np.median(differences)))
    if min(len(x), len(y)) < LEAST_SAMPLES:
        return Comparison(before, after, ratio, math.nan, math.nan, math.nan, "too few samples", outliers, kept)
    from scipy import stats

    spread = math.sqrt(len(x) * len(y) * (len(x) + len(y) + 1) / 12.0)
    rank = int(max(0, math.floor(len(differences) / 2 - stats.norm.isf(alpha / 2) * spread)))
    low, high = (math.exp(float(each)) for each in (differences[rank], differences[-1 - rank]))
    shift = math.log1p(margin)
    slower = min(1.0, 2.0 * float(stats.mannwhitneyu(y - shift, x, alternative="greater").pvalue))
    faster = min(1.0, 2.0 * float(stats.mannwhitneyu(y + shift, x, alternative="less").pvalue))
    p_value = min(slower, faster)
    conclusion: Conclusion = "no difference" if p_value > alpha else "slower" if slower < faster else "faster"
    return Comparison(before, after, ratio, low, high, p_value, conclusion, outliers, kept)


def _kept_logs(samples: Sequence[float]) -> Floats:
    """Return the logarithms of the samples that are not outliers."""
    logs: Floats = np.log(np.array(samples)[are_kept(samples)])
    return logs


def significantly_slower(found: Sequence[Comparison], *, alpha: float = ALPHA) -> list[Comparison]:
    """Return the series that are slower after Holm's correction for the number of tests.

    The probability of any false rejection is then at most ``alpha`` for any number of series.
    """
    tested = sorted((each for each in found if not math.isnan(each.p_value)), key=lambda each: each.p_value)
    kept: list[Comparison] = []
    for place, each in enumerate(tested):
        if each.p_value * (len(tested) - place) > alpha:
            break
        kept.append(each)
    return [each for each in kept if each.conclusion == "slower"]


def mean_ratio(found: Sequence[Comparison]) -> tuple[float, float, float]:
    """Return the geometric mean of the ratios, and its 95 % bootstrap interval over the series.

    The interval is the percentile interval of Efron over 2000 resamples with a fixed seed: the same rows give the same
    figures.

    Examples
    --------
    >>> one = Series("mine", "path", "cpu", "solve", "s", (1.0,))
    >>> mean_ratio(compare([one], [one._replace(samples=(1.5,))]))[0]
    1.5
    """
    logs = np.log([each.ratio for each in found])
    resampled = np.random.default_rng(0).choice(logs, (_RESAMPLES, len(logs))).mean(axis=1)
    ends = np.quantile(resampled, [0.025, 0.975])
    mean, low, high = (round(math.exp(float(each)), 12) for each in (logs.mean(), *ends))
    return mean, low, high


class Course(NamedTuple):
    """How a solve went, apart from its time: the same code and machine give the same one.

    Parameters
    ----------
    status : str
    iterations : int
    by_bits : dict of str to int
        Iterations by the bits that they read, where rows have them.
    """

    status: str
    iterations: int
    by_bits: dict[str, int]

    def __str__(self) -> str:
        by_bits = ", ".join(f"{count} of {bits} bits" for bits, count in self.by_bits.items())
        return f"{self.status}, {self.iterations} iterations" + (f" ({by_bits})" if by_bits else "")


def courses(rows: Iterable[Row]) -> dict[tuple[str, str, str], Course]:
    """Return the course of each solve by experiment, graph and contestant; of repetitions, that of the last.

    Examples
    --------
    >>> row = {"experiment": "mine", "status": "ok", "graph": "path", "engine": "cpu", "iterations": 7}
    >>> {" ".join(key): str(course) for key, course in courses([row]).items()}
    {'mine path cpu': 'ok, 7 iterations'}
    """
    return {
        (row["experiment"], str(row.get("graph", "")), name): Course(
            str(result.get("status", "ok")), int(result["iterations"]), dict(result.get("iterations_by_bits") or {})
        )
        for row in rows
        for name, result in contestants(row)
        if isinstance(result.get("iterations"), int)
    }
