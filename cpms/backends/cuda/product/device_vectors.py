"""Operations on vectors in device memory, plain or in a storage format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from cpms.backends.cuda.arrays import codec
from cpms.backends.cuda.kernels.structs import BLOCK_VECTORS
from cpms.backends.cuda.product import block_codec, launch
from cpms.backends.cuda.product.launch import BlockArgument
from cpms.backends.cuda.runtime.current import current
from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.contracts.linear_operator import LinearOperator, Norms, VectorBlock
from cpms.formats.block_float import BlockFloatFormat
from cpms.formats.codes import VectorFormat
from cpms.formats.formats import FP32, FP64, Format
from cpms.storage.array import SegmentedArray
from cpms.storage.block_float import STORED, BlockFloatArray
from cpms.storage.device import on_device

_OF_ARRAYS: dict[str, Format] = {"fp64": FP64, "fp32": FP32}


def as_stored(x: Any, read: int | None) -> tuple[Any, VectorFormat, int, float]:
    """Return a vector's memory, the format and segments that kernels read, and the factor to real values."""
    if isinstance(x, STORED):
        return x.memory, x.format, x.format.checked_read(read), 2.0**-x.exponent
    return x, _OF_ARRAYS[launch.real(x)], 1, 1.0


def plain(x: Any, read: int | None = None) -> Any:
    """Return a vector as an array of float64 or float32."""
    if isinstance(x, BlockFloatArray):
        return block_codec.decode(x)
    return codec.decode(x, read) if isinstance(x, SegmentedArray) else x


def overwrite(x: SegmentedArray | BlockFloatArray, values: Any, segments: int | None = None) -> None:
    """Write values into a stored vector."""
    if isinstance(x, BlockFloatArray):
        block_codec.write(x, values)
    else:
        codec.write(x, values, segments=segments)


class CudaVectors(LinearOperator):
    """The vector operations of `LinearOperator` in device memory."""

    memory: ClassVar[Literal["main", "device"]] = "device"

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return a device array."""
        with current().memory_for(f"an array of shape {shape}", np.dtype(dtype).itemsize * int(np.prod(shape))):
            return current().arrays.empty(shape, dtype)

    def to_memory(self, values: Any) -> Any:
        """Return a copy on the device."""
        arrays = current().arrays
        if on_device(values):
            return arrays.array(codec.as_float64(values))
        return current().upload(np.array(values, np.float64))

    def to_host(self, x: Any) -> Floats:
        """Return a copy in main memory."""
        found: Floats = current().to_host(x)
        return found

    def block(self) -> VectorBlock:
        """Return an empty block, which keeps its kernel arguments."""
        return DeviceBlock()

    def dots(self, V: Sequence[Any], w: Any, levels: Sequence[int | None] | None = None) -> Any:
        """Return the dot products, a device array; ``w`` is read once for sixteen vectors."""
        w, backend = plain(w), current()
        groups = _groups(V, levels, len(w))
        sums = backend.arrays.empty((len(groups), backend.grid_size(len(w), each=4), BLOCK_VECTORS), np.float64)
        for group, here in zip(groups, sums, strict=True):
            group.dots(w, here)
        found = sums.sum(axis=1)  # Of all groups at once.
        counts = [group.count for group in groups]
        if all(count == BLOCK_VECTORS for count in counts[:-1]):
            return found.reshape(-1)[: sum(counts)]
        return backend.arrays.concatenate([row[:count] for row, count in zip(found, counts, strict=True)])

    def combine(self, V: Sequence[Any], c: Any, w: Any, levels: Sequence[int | None] | None = None) -> None:
        """Add a linear combination to ``w``, which is read and written once for sixteen vectors."""
        given = c if isinstance(c, np.ndarray | list | tuple) else current().to_host(c)
        coefficients = np.asarray(given, np.float64)
        if len(coefficients) != len(V):
            raise InputError(f"a block of {len(V)} vectors needs as many coefficients; got {len(coefficients)}")
        out, at = plain(w), 0
        for group in _groups(V, levels, len(out)):
            group.combine(coefficients[at : at + group.count], out)
            at += group.count
        if isinstance(w, STORED):
            overwrite(w, out)

    def update_and_norms(self, y: Any, alpha: float, x: Any) -> Norms:
        """Add a multiple of a vector; return norms of the sum as it is stored."""
        out, added = plain(y), plain(x)
        if len(out) != len(added):
            raise InputError(f"vectors of {len(out)} and {len(added)} values cannot be added")
        found = launch.update(out, alpha, added)
        if isinstance(y, STORED):
            overwrite(y, out)
            found = launch.update(plain(y), 0.0, added)
        return Norms(found[0], float(np.sqrt(found[1])), found[2])

    def multiply(self, x: Any, factors: Any, out: Any) -> None:
        """Multiply in one pass."""
        current().arrays.multiply(x, factors, out=out)

    def scale(self, x: Any, factor: float, level: int | None = None) -> None:
        """Multiply by a factor."""
        if isinstance(x, STORED):
            overwrite(x, plain(x, level) * factor, level)
        else:
            x *= factor

    def convert(self, x: Any, storage: VectorFormat | None, read: int | None = None, write: int | None = None) -> Any:
        """Return the vector in another format."""
        values = plain(x, read)
        if isinstance(storage, BlockFloatFormat):
            return block_codec.encode(values, storage)
        return values.astype(np.float64) if storage is None else codec.encode(values, storage, segments=write)

    def upload(self, values: Any) -> Any:
        """Copy to the device."""
        return current().upload(np.asarray(values))


class DeviceBlock(VectorBlock):
    """Stored vectors with their kernel arguments, each of which takes up to sixteen of one format and level.

    A method that multiplies with a growing basis would otherwise spend more time on arguments than kernels take.
    """

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[BlockArgument] = []

    def add(self, v: Any, level: int | None = None) -> None:
        """Append a vector to the last argument, or to a new one."""
        if self and len(v) != len(self[0]):
            raise InputError(f"a block of vectors of {len(self[0])} values cannot hold one of {len(v)}")
        super().add(v, level)
        memory, storage, read, factor = as_stored(v, level)
        last = self.groups[-1] if self.groups else None
        if last is None or last.count == BLOCK_VECTORS or (last.storage, last.read) != (storage, read):
            last = BlockArgument(storage, read)
            self.groups.append(last)
        last.add(memory, factor)


def _groups(V: Sequence[Any], levels: Sequence[int | None] | None, length: int) -> list[BlockArgument]:
    """Return the kernel arguments of a block."""
    given = [None] * len(V) if levels is None else list(levels)
    if len(given) != len(V) or any(len(v) != length for v in (V[:1] if isinstance(V, DeviceBlock) else V)):
        raise InputError(f"a block of {len(V)} vectors needs as many levels, and {length} values in each")
    if isinstance(V, DeviceBlock) and given == V.levels:
        return V.groups
    block = DeviceBlock()
    for v, level in zip(V, given, strict=True):
        block.add(v, level)
    return block.groups
