"""Formats that are data types of NumPy bit for bit: float64 and float32.

Libraries such as SciPy and cuSPARSE compute in native types alone, so their engines accept only these formats.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.formats.formats import FloatFormat, Format, SegmentFormat


def element_type(storage: Format) -> np.dtype[Any] | None:
    """Return the NumPy type that equals a format bit for bit; None if there is none.

    Examples
    --------
    >>> from cpms.formats.formats import CPMS2, FP32, FP64, format_named
    >>> [element_type(storage) for storage in (FP64, FP32, CPMS2, format_named("fp32-zero"))]
    [dtype('float64'), dtype('float32'), None, None]
    """
    if isinstance(storage, FloatFormat):
        is_single = (storage.exponent_bits, storage.mantissa_bits) == (8, 23) and not storage.scaled
        return np.dtype(np.float32) if is_single and storage.rounding == "nearest" else None
    return np.dtype(np.float64) if isinstance(storage, SegmentFormat) and storage.segments == 1 else None
