"""Powers of two with which arrays are stored, so that their largest values fit a format's range."""

from __future__ import annotations

import numpy as np

from cpms.base.types import Floats
from cpms.base.validation import whole
from cpms.formats.formats import FloatFormat, Format, SegmentFormat


def distribution_exponent(format: Format) -> int:
    """Return the power of two with which a distribution is stored, whose largest value may become 1."""
    return array_exponent(np.ones(1), format)


def array_exponent(values: Floats, format: Format) -> int:
    """Return the power of two with which an array is stored: 0 but for scaled formats."""
    if isinstance(format, FloatFormat):
        return shared_exponent(values, format) if format.scaled else 0
    if isinstance(format, SegmentFormat):
        return 0
    return whole("exponent_of", format.exponent_of(values))


def shared_exponent(values: Floats, format: FloatFormat) -> int:
    """Return the power of two that brings the largest finite size just below the format's largest binade.

    Examples
    --------
    >>> from cpms.formats.formats import FP16
    >>> shared_exponent(np.array([1e-6]), FP16)
    34
    """
    sizes = np.abs(values[np.isfinite(values)])
    largest = sizes.max(initial=0.0)
    return 0 if largest == 0 else int(format.bias - np.frexp(largest)[1])
