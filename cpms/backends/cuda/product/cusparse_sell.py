"""Products of cuSPARSE in SELL with values and vectors of FP16: a baseline of measurements, not an engine.

cuSPARSE's sliced ELL (since version 12.2) multiplies halves and adds up in float32. CuPy has no name for it, so the
library is called directly. Slices have 32 rows, in the order and with the padding of our own SELL; values must lie in
the range of FP16.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from cpms.backends.cuda.runtime.library_calls import loaded
from cpms.base.errors import UnsupportedError
from cpms.sparse.arrangement import SLICE_ROWS, Arrangement, arranged
from cpms.sparse.matrix import Matrix

_HALF, _SINGLE, _INDEX_32, _ZERO_BASED = 2, 0, 2, 0
"""``CUDA_R_16F``, ``CUDA_R_32F``, ``CUSPARSE_INDEX_32I`` and ``CUSPARSE_INDEX_BASE_ZERO``."""
_LARGEST = 65504.0


class CusparseSell:
    """A matrix in SELL-32 and FP16 on the device.

    Raises
    ------
    UnsupportedError
        If a value is too large for FP16, 32 bits do not number all slots, or cuSPARSE refuses the product; the error
        then has its status.
    """

    memory = "device"

    def __init__(self, matrix: Matrix) -> None:
        import cupy

        self._cupy = cupy
        if np.abs(matrix.given_values()).max(initial=0.0) > _LARGEST:
            raise UnsupportedError("cuSPARSE has no scaled FP16, and a value of the matrix is too large for FP16")
        layout = arranged(matrix, "sell")
        require_32_bits(layout)
        cupy.cuda.device.get_cusparse_handle()  # It loads the library.
        self._library, self._handle = ctypes.CDLL(loaded("libcusparse")), ctypes.c_void_p()
        self._check("cusparseCreate", ctypes.byref(self._handle))
        self._destroy_with_self("cusparseDestroy", self._handle)
        arrays = layout.starts.astype(np.int32), layout.columns.view(np.int32)
        self._held = [
            cupy.asarray(array) for array in (*arrays, layout.spread(matrix.given_values()).astype(np.float16))
        ]
        self._matrix = ctypes.c_void_p()
        sizes = (*matrix.shape, matrix.entries, layout.slots, SLICE_ROWS)
        self._check(
            "cusparseCreateSlicedEll",
            ctypes.byref(self._matrix),
            *(ctypes.c_int64(size) for size in sizes),
            *(ctypes.c_void_p(array.data.ptr) for array in self._held),
            *(_INDEX_32, _INDEX_32, _ZERO_BASED, _HALF),
        )
        self._destroy_with_self("cusparseDestroySpMat", self._matrix)
        self._order = None if layout.order is None else cupy.asarray(layout.order)
        self.nbytes = sum(int(array.nbytes) for array in self._held)
        self._factors = np.array([1.0, 0.0], np.float32)
        self._vectors: tuple[Any, ...] = ()

    def in_place(self, y: Any) -> Any:
        """Return a product in the order of rows; cuSPARSE knows none, so rows of sorted slices lie in theirs."""
        if self._order is None:
            return y
        out = self._cupy.empty_like(y)
        out[self._order] = y
        return out

    def prepare(self, x: Any, y: Any) -> None:
        """Describe both vectors, of FP16, and ask cuSPARSE for its workspace."""
        described = []
        for vector in (x, y):
            found = ctypes.c_void_p()
            length, at = ctypes.c_int64(vector.size), ctypes.c_void_p(vector.data.ptr)
            self._check("cusparseCreateDnVec", ctypes.byref(found), length, at, _HALF)
            self._destroy_with_self("cusparseDestroyDnVec", found)
            described.append(found)
        size = ctypes.c_size_t()
        self._vectors = x, y, *described
        self._check("cusparseSpMV_bufferSize", self._handle, *self._arguments(), ctypes.byref(size))
        self._buffer = self._cupy.empty(max(1, size.value), np.int8)

    def multiply(self) -> None:
        """Queue the product of the prepared vectors on the current stream."""
        stream = ctypes.c_void_p(self._cupy.cuda.get_current_stream().ptr)
        self._check("cusparseSetStream", self._handle, stream)
        self._check("cusparseSpMV", self._handle, *self._arguments(), ctypes.c_void_p(self._buffer.data.ptr))

    def _arguments(self) -> tuple[Any, ...]:
        one, zero = (ctypes.c_void_p(self._factors[k:].ctypes.data) for k in (0, 1))
        x, y = self._vectors[2:]
        return (0, one, self._matrix, x, zero, y, _SINGLE, 0)

    def _destroy_with_self(self, function: str, made: ctypes.c_void_p) -> None:
        """Call a function of cuSPARSE on what it made, when this object is collected."""
        weakref.finalize(self, getattr(self._library, function), made).atexit = False

    def _check(self, function: str, *arguments: Any) -> None:
        if not hasattr(self._library, function):
            raise UnsupportedError(f"this version of cuSPARSE has no {function}")
        status = getattr(self._library, function)(*arguments)
        if status:
            raise UnsupportedError(f"cuSPARSE refuses SELL in FP16: {function} returned status {status}")


def require_32_bits(layout: Arrangement) -> None:
    """Refuse a layout whose slots or columns signed integers of 32 bits do not number.

    Raises
    ------
    UnsupportedError
    """
    most = max(layout.slots, *layout.matrix.shape)
    if most > np.iinfo(np.int32).max:
        raise UnsupportedError(f"cuSPARSE's SELL is called with indices of 32 bits, which {most:,} exceeds; use cuda")
