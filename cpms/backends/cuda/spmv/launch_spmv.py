"""Launchers of the sparse products: they cast and check, nothing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels import streaming, template
from cpms.backends.cuda.runtime.backend import THREADS
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv.padded_csr import Tasks
from cpms.base.errors import InputError
from cpms.formats.formats import FP64
from cpms.storage.array import SegmentedArray

_NULL = np.uint64(0)


@dataclass(frozen=True, eq=False)
class Update:
    """What follows a row sum, in device arrays of float64 and host numbers; see ``spmv/epilogue.cuh``.

    Parameters
    ----------
    row_factor, dangling_factor, rest, to_stored : float
        Written are ``to_stored * (row_factor * sum + dangling_factor * dangling * sink + rest * teleport)``.
    dangling : device array, first value
    sink, teleport : device arrays, shape (1,) or (nodes,)
    divisor : device array of uint32, shape (length,), or None
    seed : int
        Of stochastic rounding.
    """

    row_factor: float
    dangling_factor: float
    rest: float
    to_stored: float
    dangling: Any
    sink: Any
    teleport: Any
    divisor: Any | None
    seed: int

    def arguments(self, out: SegmentedArray) -> tuple[Any, ...]:
        """Return the kernel's arguments, ``CPMS_EPILOGUE_PARAMETERS`` in ``spmv/epilogue.cuh``."""
        return (
            *map(np.float64, (self.row_factor, self.dangling_factor, self.rest, self.to_stored)),
            *(self.dangling, self.sink, self.teleport),
            *(np.uint32(self.sink.size > 1), np.uint32(self.teleport.size > 1)),
            _NULL if self.divisor is None else self.divisor,
            *(out.memory, np.uint32(out.length), np.uint64(self.seed)),
        )


def thread_rows(
    starts: Any,
    sources: Any,
    values: SegmentedArray | None,
    x: SegmentedArray,
    out: SegmentedArray,
    update: Update,
    *,
    read: int,
    write: int,
) -> None:
    """Multiply CSR rows, one thread each, and update; ``starts`` has shape (nodes + 1,), uint32."""
    _check(x, out, values, (starts, sources))
    rows = len(starts) - 1
    arguments = (
        *(starts, sources, *_values(values), x.memory, np.uint32(rows)),
        *update.arguments(out),
    )
    variant = _variant("spmv_csr_thread", x, values, read, write)
    current().run(variant, -(-rows // THREADS), arguments)


def columns(
    sources: Any,
    values: SegmentedArray,
    width: int,
    rows: int,
    x: SegmentedArray,
    out: SegmentedArray,
    update: Update,
    *,
    read: int,
    write: int,
) -> None:
    """Multiply ELL columns, ``width`` of ``out.length`` entries, and update."""
    _check(x, out, values, (sources,))
    if values.length != width * out.length:
        raise InputError(f"{width} columns of {out.length} entries need {width * out.length} values")
    arguments = (
        *(sources, values.memory, np.uint32(width), x.memory, np.uint32(rows)),
        *update.arguments(out),
    )
    variant = _variant("spmv_ell", x, values, read, write)
    current().run(variant, -(-out.length // (2 * THREADS)), arguments)


def balanced(
    sources: Any,
    values: SegmentedArray | None,
    marks: Any,
    tasks: Tasks,
    pieces: Any,
    x: SegmentedArray,
    out: SegmentedArray,
    update: Update,
    *,
    read: int,
    write: int,
) -> None:
    """Multiply CSR in tasks, and update.

    ``pieces`` holds a uint64 for each task at least, all bits 1 between launches.
    """
    rows = tasks.first_rows, tasks.first_tasks
    _check(x, out, values, (sources, *rows))
    all_steps = len(sources) // template.WHOLE_VALUES
    count = -(-all_steps // tasks.steps)
    if len(marks) != 32 * all_steps or any(len(part) != count for part in rows) or len(pieces) < count:
        raise InputError(f"{all_steps} steps by {tasks.steps} make {count} tasks; the arrays are for others")
    memory = _NULL if values is None else values.memory
    arguments = (
        *(sources, memory, marks, *rows, np.uint32(all_steps), np.uint32(tasks.steps), x.memory, pieces),
        *update.arguments(out),
    )
    variant = _variant("spmv_csr_balanced", x, values, read, write, tasks.blocks)
    current().run(variant, -(-count * 32 // THREADS), arguments)


def _values(values: SegmentedArray | None) -> tuple[Any, Any]:
    return (_NULL, np.uint32(0)) if values is None else (values.memory, np.uint32(values.length))


def _variant(
    kernel: str, x: SegmentedArray, values: SegmentedArray | None, read: int, write: int, blocks: int = streaming.BLOCKS
) -> template.Variant:
    of_values = None if values is None else values.format
    return streaming.spmv(kernel, x.format, read, write, pattern=values is None, values=of_values, blocks=blocks)


def _check(x: SegmentedArray, out: SegmentedArray, values: SegmentedArray | None, indices: tuple[Any, ...]) -> None:
    if x.length != out.length or x.format != out.format:
        raise InputError("a sweep needs two vectors of one format and length")
    if values is not None and values.format != x.format and not (x.format == FP64 and values.format.exact):
        raise InputError(f"matrix values in {values.format.name} do not go with a vector in {x.format.name}")
    if any(index.dtype != np.uint32 for index in indices):
        raise InputError("indices must be uint32")
