"""Arguments and result of top-k selection."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cpms.base.errors import InputError
from cpms.base.validation import whole


class Largest(NamedTuple):
    """The largest ``values``, largest first, and their indices ``places``: arrays of shape (k,), the indices int64.

    Both are NumPy arrays, or CuPy arrays for values in device memory.

    Examples
    --------
    >>> import cpms
    >>> cpms.topk([0.2, 0.4, 0.1], 1).places.tolist()
    [1]
    """

    values: Any
    places: Any


def checked(values: Any, k: int) -> int:
    """Return k as an int; raise `InputError` for values of another type or shape, or k beyond their number."""
    k = whole("k", k)
    if values.dtype not in (np.float64, np.float32):
        raise InputError(f"the largest of {values.dtype} values cannot be found; convert them to float64 or float32")
    if values.ndim != 1:
        raise InputError(f"the values have shape {values.shape}; they must have one dimension")
    if not 0 <= k <= len(values):
        raise InputError(f"the {k} largest of {len(values):,} values do not exist; k must be 0 to {len(values):,}")
    return k
