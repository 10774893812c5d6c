"""Rankings by score: top-k, and the agreement of two rankings by overlap of top-k."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from cpms.analysis.topk import topk
from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.base.validation import whole

_TIED = 1e-9
"""Relative difference up to which scores count as equal."""


def top_k(scores: Floats, k: int) -> npt.NDArray[np.int64]:
    """Return the indices of the ``k`` largest scores, in the order of `cpms.topk`: ties by smaller index, NaN last.

    Parameters
    ----------
    scores : ndarray of float64, shape (n,)
    k : int
        At least 0; of more than n, all n are returned.

    Raises
    ------
    InputError
        If k is negative.

    Examples
    --------
    >>> top_k(np.array([0.2, 0.4, 0.4, 0.1]), 3).tolist()
    [1, 2, 0]
    """
    if whole("k", k) < 0:
        raise InputError(f"the top {k} cannot be listed; k must be 0 or more")
    indices: npt.NDArray[np.int64] = topk(scores, min(k, len(scores))).places
    return indices


def top_k_overlap(a: Floats, b: Floats, k: int) -> float:
    """Return the fraction of the top ``k`` of ``b`` that are among the top ``k`` of ``a``, or tie with the last there.

    A node counts if its score in ``a`` is at least the k-th largest less 1e-9 of that, since rounding decides the order
    of equal scores.

    Examples
    --------
    >>> top_k_overlap(np.array([3.0, 2.0, 1.0]), np.array([3.0, 1.0, 2.0]), 2)
    0.5
    >>> top_k_overlap(np.array([3.0, 2.0, 2.0]), np.array([3.0, 1.0, 2.0]), 2)
    1.0
    """
    count = min(k, len(a))
    if count == 0:
        return 1.0
    least = a[top_k(a, count)[-1]]
    lowest = least - _TIED * abs(least) if math.isfinite(least) else least
    return float((a[top_k(b, count)] >= lowest).mean())
