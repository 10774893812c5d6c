"""Outliers among samples of a time: Hampel's identifier on logarithms, for comparisons and for rows.

Times are positive and skewed, so distances are those of logarithms. A sample is an outlier if it is farther from the
median than six median absolute deviations, scaled to the standard deviation of normal noise (Hampel, The influence
curve and its role in robust estimation, JASA 69 (1974)). Such a sample was interrupted, as a rule, and says nothing
about the code.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from cpms.experiment.rows.series import RESULTS

_FACTOR = 6.0
_LEAST_DEVIATION = 1e-3
"""Least median absolute deviation of logarithms: samples within 0.6 % of their median are never outliers."""
_SAMPLES, _SET_ASIDE = "_samples_s", "_set_aside_s"


def are_kept(samples: Sequence[float]) -> list[bool]:
    """Return for each sample of a positive quantity whether it is kept, as it is not an outlier.

    Examples
    --------
    >>> are_kept([1.0, 1.01, 0.99, 1.02, 3.0])
    [True, True, True, True, False]
    """
    logs = np.log(samples)
    distance = np.abs(logs - np.median(logs))
    deviation = max(1.4826 * float(np.median(distance)), _LEAST_DEVIATION)
    kept: list[bool] = (distance <= _FACTOR * deviation).tolist()
    return kept


def set_aside(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row, or a result, with its outliers in columns of their own and medians of the other samples.

    Outliers of ``solve_samples_s`` move to ``solve_set_aside_s``. Samples of which the row has no median, such as those
    of queries, are not changed.

    Examples
    --------
    >>> set_aside({"solve_s": 1.0, "solve_samples_s": [1.0, 0.99, 1.01, 5.0, 1.0]})
    {'solve_s': 1.0, 'solve_samples_s': [1.0, 0.99, 1.01, 1.0], 'solve_set_aside_s': [5.0]}
    """
    found = dict(row)
    for name, samples in row.items():
        if name in RESULTS and isinstance(samples, list):
            found[name] = [set_aside(each) if isinstance(each, dict) else each for each in samples]
        elif name.endswith(_SAMPLES) and _has_median(row, name):
            kept = are_kept(samples)
            if not all(kept):
                quantity = name.removesuffix(_SAMPLES)
                found[name] = [sample for sample, is_kept in zip(samples, kept, strict=True) if is_kept]
                found[quantity + _SET_ASIDE] = [s for s, is_kept in zip(samples, kept, strict=True) if not is_kept]
                found[f"{quantity}_s"] = statistics.median(found[name])
    return found


def _has_median(row: dict[str, Any], name: str) -> bool:
    samples, median = row[name], row.get(f"{name.removesuffix(_SAMPLES)}_s")
    if not (isinstance(samples, list) and samples and all(isinstance(s, float) and s > 0 for s in samples)):
        return False
    return isinstance(median, float) and math.isclose(median, statistics.median(samples))
