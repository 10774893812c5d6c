"""Vectors in device memory: one value a node, padded with zeros to whole tiles.

Padding entries of a matrix gather such a zero, so that kernels need no test for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.backends.cuda.arrays import launch_convert
from cpms.backends.cuda.kernels.template import WHOLE_VALUES
from cpms.backends.cuda.runtime.current import current
from cpms.formats.formats import FloatFormat, Format
from cpms.storage.array import SegmentedArray, distribution_exponent


def padded(values: int) -> int:
    """Return ``values`` rounded up to whole blocks of every format with wide loads.

    Examples
    --------
    >>> padded(1), padded(256), padded(257)
    (256, 256, 512)
    """
    return -(-values // WHOLE_VALUES) * WHOLE_VALUES


def vector_length(nodes: int) -> int:
    """Return the values of a vector: at least one zero follows the nodes.

    Examples
    --------
    >>> vector_length(255), vector_length(256)
    (256, 512)
    """
    return padded(nodes + 1)


def zeros(nodes: int, storage: Format) -> SegmentedArray:
    """Return a vector of zeros.

    A scaled format gets the exponent at which a distribution, of values up to 1, fits.
    """
    length = vector_length(nodes)
    exponent = distribution_exponent(storage)
    memory = current().arrays.zeros(storage.nbytes(length), np.uint8)
    return SegmentedArray(memory, length, storage, exponent)


def write(x: SegmentedArray, values: Any) -> None:
    """Write float64 device ``values``, shape (nodes,), in all segments; the padding stays zero."""
    launch_convert.encode(
        values,
        x.memory,
        x.format,
        length=x.length,
        segments=x.format.segments,
        exponent=x.exponent,
        seed=x.format.seed if isinstance(x.format, FloatFormat) else 0,
    )


def read(x: SegmentedArray, nodes: int, segments: int | None) -> Any:
    """Return the nodes' values as a float64 device array, from their first ``segments`` segments."""
    values = current().arrays.empty(nodes, np.float64)
    read_into(values, x, segments)
    return values


def read_into(values: Any, x: SegmentedArray, segments: int | None) -> None:
    """Write the first nodes' values into a float64 device array."""
    launch_convert.decode(
        x.memory, values, x.format, length=x.length, read=x.format.checked_read(segments), exponent=-x.exponent
    )


def to_float64(x: SegmentedArray, out: SegmentedArray, nodes: int) -> None:
    """Write the nodes' values as float64 into the memory of ``out``, and zeros as padding into that of both."""
    read_into(out.memory.view(np.float64)[:nodes], x, None)
    for memory in (x.memory, out.memory):
        current().clear(memory.view(np.float64)[nodes:])
