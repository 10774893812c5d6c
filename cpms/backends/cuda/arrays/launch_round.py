"""Launchers of ``convert/round.cu``: rounding of arrays to a format in one pass, and their largest finite size."""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.backends.cuda.kernels import rounding
from cpms.backends.cuda.kernels.structs import ROUNDING_REQUEST, ROUNDING_RULE
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.structs import pack
from cpms.formats.formats import Format
from cpms.formats.rounding_rules import RoundingRule

_RUN_BYTES = 32
"""Bytes of a thread's turn."""


def largest_size(values: Any) -> float:
    """Return the largest finite size of a contiguous device array of float64 or float32; 0 of none.

    Examples
    --------
    ``largest_size(cupy.array([1.0, -3.0, numpy.inf]))`` is 3.0.
    """
    backend = current()
    most = backend.arrays.zeros(1, np.uint64)
    if values.size:
        arguments = (values, np.uint64(values.size), most)
        backend.run(rounding.largest_size(values.dtype.name), backend.grid_size(values.size, each=4), arguments)
    return float(backend.to_host(most).view(np.float64)[0])


def round_values(
    values: Any, format: Format, rule: RoundingRule | None, *, exponent: int, counted: bool
) -> tuple[Any, Any]:
    """Return contiguous values rounded to a format, of their type and shape, and counts.

    Parameters
    ----------
    values : device array of float64 or float32
    format : Format
    rule : RoundingRule, optional
        None for the format's codec in CUDA.
    exponent : int
        Values are rounded times 2**exponent, from -1022 to 1022.
    counted : bool
        Whether to count.

    Returns
    -------
    tuple
        The values, and numbers that overflow, that become 0 and that are NaN, and the complement of the index of the
        first that overflows, as a device array; None without counts.
    """
    backend = current()
    with backend.memory_for(f"{values.size:,} rounded values", values.nbytes):
        out = backend.arrays.empty(values.shape, values.dtype)
    counts = backend.arrays.zeros(4, np.uint64) if counted else None
    if not values.size:
        return out, counts
    request = pack(
        ROUNDING_REQUEST,
        values=values,
        out=out,
        length=values.size,
        factor=2.0**exponent,
        back=2.0**-exponent,
        counts=counts,
    )
    fields = {} if rule is None else {name: getattr(rule, name) for name in ROUNDING_RULE.dtype.names or ()}
    variant = rounding.round_values(format, rule, values.dtype.name, counted=counted)
    blocks = backend.grid_size(values.nbytes, each=_RUN_BYTES)
    backend.run(variant, blocks, (request, pack(ROUNDING_RULE, **fields)))
    return out, counts
