"""Launchers of the sparse products ``spmv/csr_thread_per_row.cu``, ``spmv/csr_balanced.cu`` and ``spmv/ell.cu``.

They check shapes and types, and pass arguments of the types that kernels expect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels import streaming, template
from cpms.backends.cuda.kernels.structs import SPMV_EPILOGUE
from cpms.backends.cuda.runtime.backend import THREADS
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.cuda.spmv.padded_csr import Tasks
from cpms.base.errors import InputError
from cpms.formats.formats import FP64
from cpms.storage.array import SegmentedArray

_NULL = np.uint64(0)


@dataclass(frozen=True, eq=False)
class Epilogue:
    """Operands of the row epilogue, in device arrays of float64 and host numbers; see ``spmv/epilogue.cuh``.

    Parameters
    ----------
    row_factor, dangling_factor, teleport_factor, to_stored : float
        The epilogue writes ``row_factor * sum + dangling_factor * dangling * sink + teleport_factor * teleport``, times
        ``to_stored``.
    dangling : device array, first value
    sink, teleport : device arrays, shape (1,) or (nodes,)
    divisor : device array of uint32, shape (length,), or None
    seed : int
        Of stochastic rounding.
    """

    row_factor: float
    dangling_factor: float
    teleport_factor: float
    to_stored: float
    dangling: Any
    sink: Any
    teleport: Any
    divisor: Any | None
    seed: int

    def argument(self, out: SegmentedArray) -> Struct:
        """Return the kernel argument, whose rows are written to ``out``."""
        return pack(
            SPMV_EPILOGUE,
            **vars(self),
            sink_stride=self.sink.size > 1,
            teleport_stride=self.teleport.size > 1,
            out=out.memory,
            length=out.length,
        )


def csr_thread_per_row(
    starts: Any,
    sources: Any,
    values: SegmentedArray | None,
    x: SegmentedArray,
    out: SegmentedArray,
    epilogue: Epilogue,
    *,
    read: int,
    write: int,
) -> None:
    """Multiply by CSR, a thread a row, with the epilogue; ``starts`` has shape (nodes + 1,), uint32."""
    _check(x, out, values, (starts, sources))
    rows = len(starts) - 1
    arguments = starts, sources, *_values(values), x.memory, np.uint32(rows), epilogue.argument(out)
    variant = _variant("spmv_csr_thread", x, values, read, write)
    current().run(variant, -(-rows // THREADS), arguments)


def ell(
    sources: Any,
    values: SegmentedArray,
    width: int,
    rows: int,
    x: SegmentedArray,
    out: SegmentedArray,
    epilogue: Epilogue,
    *,
    read: int,
    write: int,
) -> None:
    """Multiply by ELL, ``width`` columns of ``out.length`` entries, with the epilogue."""
    _check(x, out, values, (sources,))
    if values.length != width * out.length:
        raise InputError(
            f"{width} columns of {out.length} entries need {width * out.length} values, not {values.length}"
        )
    arguments = sources, values.memory, np.uint32(width), x.memory, np.uint32(rows), epilogue.argument(out)
    variant = _variant("spmv_ell", x, values, read, write)
    current().run(variant, -(-out.length // (2 * THREADS)), arguments)


def csr_balanced(
    sources: Any,
    values: SegmentedArray | None,
    row_end_flags: Any,
    tasks: Tasks,
    carry_out: Any,
    x: SegmentedArray,
    out: SegmentedArray,
    epilogue: Epilogue,
    *,
    read: int,
    write: int,
) -> None:
    """Multiply by padded CSR, a warp a task, with the epilogue.

    ``carry_out`` holds a uint64 for each task at least, all bits 1 between launches.
    """
    rows = tasks.first_rows, tasks.first_tasks
    _check(x, out, values, (sources, *rows))
    all_tiles = len(sources) // template.WHOLE_VALUES
    count = -(-all_tiles // tasks.tiles)
    if len(row_end_flags) != 32 * all_tiles or any(len(part) != count for part in rows) or len(carry_out) < count:
        raise InputError(f"{all_tiles} tiles by {tasks.tiles} make {count} tasks; the arrays are for others")
    memory = _NULL if values is None else values.memory
    arguments = (
        *(sources, memory, row_end_flags, *rows, np.uint32(all_tiles), np.uint32(tasks.tiles), x.memory, carry_out),
        epilogue.argument(out),
    )
    variant = _variant("spmv_csr_balanced", x, values, read, write, tasks.blocks)
    current().run(variant, -(-count * 32 // THREADS), arguments)


def _values(values: SegmentedArray | None) -> tuple[Any, Any]:
    return (_NULL, np.uint32(0)) if values is None else (values.memory, np.uint32(values.length))


def _variant(
    kernel: str, x: SegmentedArray, values: SegmentedArray | None, read: int, write: int, blocks: int = streaming.BLOCKS
) -> template.Variant:
    value_format = None if values is None else values.format
    return streaming.spmv(kernel, x.format, read, write, pattern=values is None, values=value_format, blocks=blocks)


def _check(x: SegmentedArray, out: SegmentedArray, values: SegmentedArray | None, indices: tuple[Any, ...]) -> None:
    if x.length != out.length or x.format != out.format:
        raise InputError(
            f"a sweep needs two vectors of one format and length, not {x.format.name} of {x.length} and "
            f"{out.format.name} of {out.length}"
        )
    if values is not None and values.format != x.format and not (x.format == FP64 and values.format.exact):
        raise InputError(f"matrix values in {values.format.name} do not go with a vector in {x.format.name}")
    if any(index.dtype != np.uint32 for index in indices):
        raise InputError(f"indices are {', '.join(str(index.dtype) for index in indices)}; convert them to uint32")
