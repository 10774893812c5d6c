"""Launchers of ``spmv/norms.cu`` and ``convert/scale.cu``: norms, sums over selected nodes, and scaling.

A reduction writes one partial result a block, and the last block to finish adds them in a fixed order: results are
repeatable bit by bit, and one launch is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels import streaming
from cpms.backends.cuda.runtime.current import current
from cpms.base.errors import InputError
from cpms.contracts.operator import Sweep
from cpms.formats.formats import FloatFormat
from cpms.storage.array import SegmentedArray

_MAX_BLOCKS = 2048
_NULL = np.uint64(0)


@dataclass(frozen=True, eq=False)
class Reduction:
    """Workspace of a reduction: its blocks' partial results and the count of finished blocks; one stream at a time."""

    partials: Any
    counter: Any

    @classmethod
    def make(cls) -> Reduction:
        """Return a workspace for any reduction of this module."""
        arrays = current().arrays
        return cls(arrays.zeros(4 * _MAX_BLOCKS, np.float64), arrays.zeros(1, np.uint32))


def difference(
    fresh: SegmentedArray,
    old: SegmentedArray,
    divisor: Any | None,
    *,
    write: int,
    read: int,
    workspace: Reduction,
    result: Any,
) -> None:
    """Put L1 norm, sum of squares, mass of ``fresh`` and largest change into ``result``, shape (4,).

    ``fresh`` is read in ``write`` segments, ``old`` in ``read``; with a ``divisor``, shape (length,) of uint32, both
    are multiplied by it first.

    Raises
    ------
    InputError
        If the vectors differ in format or length, or a size does not fit.
    """
    if fresh.length != old.length or fresh.format != old.format or fresh.exponent != old.exponent:
        raise InputError(
            f"a change needs two vectors of one format and length, not {fresh.format.name} of {fresh.length} and "
            f"{old.format.name} of {old.length}"
        )
    _check_divisor(divisor, fresh.length)
    backend = current()
    arguments = (
        *(fresh.memory, old.memory, _NULL if divisor is None else divisor, np.uint32(fresh.length)),
        *(np.float64(2.0**-fresh.exponent), workspace.partials, workspace.counter, result),
    )
    variant = streaming.difference(fresh.format, write, read, pattern=divisor is not None)
    backend.run(variant, reduction_blocks(fresh.length // 4), arguments)


def selected_sum(x: SegmentedArray, selected: Any, *, read: int, workspace: Reduction, result: Any) -> None:
    """Put the sum of the selected values, as stored, into ``result``, shape (1,) or more.

    ``selected`` is a device array of uint32, each less than the length of ``x``.
    """
    if selected.dtype != np.uint32:
        raise InputError(f"selected nodes are {selected.dtype}; they must be uint32")
    arguments = (
        *(x.memory, selected, np.uint32(len(selected)), np.uint32(x.length)),
        *(workspace.partials, workspace.counter, result),
    )
    current().run(streaming.selected_sum(x.format, read), reduction_blocks(len(selected)), arguments)


def plain_norm(x: SegmentedArray, divisor: Any | None, *, read: int, workspace: Reduction, result: Any) -> None:
    """Put the L1 norm of ``x``, as stored times ``divisor``, into ``result``, shape (1,) or more."""
    _check_divisor(divisor, x.length)
    arguments = (
        *(x.memory, _NULL if divisor is None else divisor, np.uint32(x.length)),
        *(workspace.partials, workspace.counter, result),
    )
    variant = streaming.plain_norm(x.format, read, pattern=divisor is not None)
    current().run(variant, reduction_blocks(x.length // 4), arguments)


def fetch_sweep_async(found: Any) -> Callable[[], Sweep]:
    """Queue the copy of a sweep's sums to the host; return a function that waits for it.

    ``found``, shape (5,), holds dangling mass, L1 norm of the change, its sum of squares, mass and largest change.
    """
    fetched = current().fetch_async(found)

    def sweep() -> Sweep:
        _, l1, squares, mass, linf = fetched().tolist()
        return Sweep(l1, squares**0.5, linf, mass)

    return sweep


def scale(x: SegmentedArray, factor: float, *, segments: int) -> None:
    """Multiply a vector by ``factor``, reading and writing its first ``segments`` segments."""
    seed = x.format.seed if isinstance(x.format, FloatFormat) else 0
    arguments = (x.memory, np.uint32(x.length), np.float64(factor), np.uint64(seed % 2**64))
    current().run(streaming.scale(x.format, segments), reduction_blocks(x.length // 4), arguments)


def reduction_blocks(items: int) -> int:
    """Return the blocks of a launch over so many items: no more than a `Reduction` has partial results for."""
    return min(_MAX_BLOCKS, current().grid_size(items))


def _check_divisor(divisor: Any | None, length: int) -> None:
    if divisor is not None and (divisor.dtype != np.uint32 or divisor.size < length):
        raise InputError(f"the divisor holds {divisor.size} numbers of {divisor.dtype}; give {length} of uint32")
