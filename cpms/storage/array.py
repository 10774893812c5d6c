"""Arrays in a storage format: encode, decode, partial writes, conversion in place.

An array in segments holds float64 values so that a reader may use the leading segments alone: the customized precision
by mantissa segmentation (CPMS) of Grützmacher et al. Reading k segments costs their bytes alone. Other formats are
packed floats, and those with a codec of their own. NumPy arrays are converted here; `cpms.backends.cuda.arrays.codec`
converts CuPy arrays and other device memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.text.html_table import html_table
from cpms.base.types import Floats
from cpms.base.validation import require_real, shortened, whole
from cpms.formats.formats import FloatFormat, Format, SegmentFormat, format_of
from cpms.storage.array_header import write_file
from cpms.storage.codecs import decode_values, encode_values
from cpms.storage.device import codec, on_device, rounding
from cpms.storage.ranges import MOST_EXPONENT, Counts, Overflow, counted, require_overflow
from cpms.storage.ranges import array_exponent as array_exponent
from cpms.storage.ranges import distribution_exponent as distribution_exponent
from cpms.storage.ranges import shared_exponent as shared_exponent
from cpms.storage.segment_layout import (
    blocks_to_planes,
    bytes_of,
    conversion_parts,
    flat,
    pack,
    planes_to_blocks,
    read_segments,
    takes_values,
    times_power_of_two,
    to_be_rounded,
    unpack,
    within_buffer,
    write_segments,
)
from cpms.storage.segment_views import covering, segment_view


@dataclass(frozen=True, eq=False, repr=False)
class SegmentedArray:
    """Values in a storage format.

    Make one with `encode` or `convert_inplace`.

    Parameters
    ----------
    memory : ndarray of uint8, shape (format.nbytes(length),)
        The stored bytes.
    length : int
        Number of values.
    format : Format
    exponent : int
        Stored values are 2**exponent times the real ones; 0 unless the format is scaled.
    shape : tuple of int, optional
        Shape of the values; (length,) by default.
    counts : Counts, optional
        Numbers of values that overflowed, underflowed or were NaN, if `encode` was called with ``overflow``.

    Examples
    --------
    >>> import cpms
    >>> x = cpms.encode([1.0, 1 / 3], cpms.CPMS4)
    >>> x.decode(read=1).tolist(), (x.decode() == [1.0, 1 / 3]).all()
    ([1.0, 0.328125], np.True_)
    """

    memory: npt.NDArray[np.uint8]
    length: int
    format: Format
    exponent: int = 0
    shape: tuple[int, ...] = ()
    counts: Counts | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "format", format_of(self.format))
        object.__setattr__(self, "length", whole("length", self.length))
        object.__setattr__(self, "exponent", whole("exponent", self.exponent))
        shape = tuple(whole("shape", size) for size in self.shape) or (self.length,)
        object.__setattr__(self, "shape", shape)
        if math.prod(shape) != self.length:
            raise InputError(f"shape is {shape}; the array has {self.length} values")
        bytes_there = self.memory.nbytes if on_device(self.memory) else bytes_of(self.memory)
        if self.length < 0 or bytes_there != self.nbytes:
            raise InputError(
                f"memory holds {bytes_there} bytes; {self.length:,} values of {shortened(self.format.name)} take "
                f"{self.nbytes:,}; cpms.encode makes both"
            )
        if abs(self.exponent) > MOST_EXPONENT:
            raise InputError(f"exponent is {self.exponent}; it must be from -{MOST_EXPONENT} to {MOST_EXPONENT}")

    def __repr__(self) -> str:
        shape = f", shape {self.shape}" if len(self.shape) != 1 else ""
        return f"SegmentedArray({self.length:,} values of {shortened(self.format.name)}, {self.nbytes:,} bytes{shape})"

    def _repr_html_(self) -> str:
        """Return format, bits, length and bytes as a table for notebooks."""
        storage = self.format
        widths = storage.widths if isinstance(storage, SegmentFormat) else (storage.bits(),)
        return html_table(
            [
                ("format", shortened(storage.name)),
                ("bits of a value", ", ".join(map(str, widths))),
                ("values", f"{self.length:,}"),
                ("bytes", f"{self.nbytes:,}"),
            ]
        )

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the values as an array of NumPy, always a copy."""
        if on_device(self.memory) or copy is False:
            raise InputError("a stored array becomes one of NumPy by a copy in main memory; use decode()")
        return self.decode() if dtype is None else self.decode().astype(dtype)

    def __getitem__(self, index: Any) -> Any:
        """Return values as float64; a range along the first axis decodes only the blocks that it touches."""
        if isinstance(index, slice) and not on_device(self.memory) and self.length:
            low, high, step = index.indices(self.shape[0])
            width = self.length // self.shape[0]
            around = covering(self.format, self.length, low * width, high * width) if step == 1 and high > low else None
            if around is not None:
                start, stop, first, count = around
                part = SegmentedArray(self.memory[start:stop], count, self.format, self.exponent).decode()
                return part[low * width - first : high * width - first].reshape(high - low, *self.shape[1:])
        return self.decode()[index]

    def __eq__(self, other: object) -> Any:
        """Compare values one by one, as arrays do; `equals` compares whole arrays."""
        return self.decode() == (other.decode() if isinstance(other, SegmentedArray) else other)

    def __ne__(self, other: object) -> Any:
        """Compare values one by one, as arrays do."""
        return self.decode() != (other.decode() if isinstance(other, SegmentedArray) else other)

    __hash__ = None  # type: ignore[assignment]

    def equals(self, other: object) -> bool:
        """Return whether another array has the same format, shape, exponent and bytes."""
        if not isinstance(other, SegmentedArray) or on_device(self.memory) != on_device(other.memory):
            return False
        mine, its = ((each.format, each.shape, each.exponent) for each in (self, other))
        return mine == its and bool((self.memory == other.memory).all())

    def segment(self, k: int) -> Any:
        """Return segment k, from 0 on, as unsigned integers; see `cpms.storage.segment_views.segment_view`.

        Views have the interfaces of their library: ``__array_interface__``, ``__cuda_array_interface__`` and DLPack.
        """
        return segment_view(self.units, self.format, self.length, k)

    def save(self, path: str | Path) -> None:
        """Write the array to a file, as `cpms.storage.array_header` describes; `cpms.load_array` reads it."""
        header = {"format": self.format.name, "length": self.length, "shape": self.shape, "exponent": self.exponent}
        write_file(path, header, self.memory)

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return self.format.nbytes(self.length)

    @property
    def units(self) -> npt.NDArray[Any]:
        """The memory as unsigned integers of the format's unit, without a copy: segments, codes, or bytes of groups."""
        storage = self.format
        unit = storage.code_type if not isinstance(storage, SegmentFormat) else f"uint{storage.unit}"
        return self.memory.view(unit)

    def decode(self, read: int | None = None, *, out: Any | None = None) -> Floats:
        """Return the values as float64 in the array's shape, from their first ``read`` segments (all by default).

        They are written into ``out`` where it is given.

        Bits that are not read count as zero. So a NaN whose payload lies in these bits alone becomes an infinity, and
        the bound of the relative error holds for normal numbers only.

        Raises
        ------
        InputError
            If the format does not have that many segments.
        """
        if out is not None and not takes_values(out, self.shape):
            raise InputError(f"out must be a writable array of float64 of shape {self.shape}")
        decoded: Floats = self._decoded(read).reshape(self.shape)
        if out is None:
            return decoded
        out[...] = decoded
        found: Floats = out
        return found

    def _decoded(self, read: int | None) -> Floats:
        if on_device(self.memory):
            of_device: Floats = codec().decode(self, read)
            return of_device
        segments, storage = self.format.checked_read(read), self.format
        if not isinstance(storage, SegmentFormat | FloatFormat):
            return decode_values(self.memory, storage, self.length, segments, self.exponent)
        values = np.empty(self.length)
        if isinstance(storage, FloatFormat):
            unpack(self.units, values, storage)
            return times_power_of_two(values, -self.exponent)
        read_segments(self.units, values.view(np.uint64), storage, segments)
        return values

    def write(self, values: npt.ArrayLike, *, segments: int | None = None) -> None:
        """Overwrite the first ``segments`` segments of every value; the others keep their bits.

        Parameters
        ----------
        values : array_like of float64, shape (length,)
        segments : int, optional
            Segments to write (all by default). Values are rounded to these segments as the format rounds, long doubles
            and 64-bit integers once. A scaled array keeps its exponent. Formats with a codec of their own are written
            whole.

        Raises
        ------
        InputError
            If there are more or fewer numbers than values, or the format does not have that many segments.
        """
        if on_device(self.memory):
            codec().write(self, values, segments=segments)
            return
        if not self.memory.flags.writeable:
            raise InputError("the array is mapped read-only, or lies in memory of others; load it without mapped=True")
        written = self.format.checked_read(segments)
        given = to_be_rounded(flat(values, self.shape), self.format, written)
        if given.shape != (self.length,):
            raise InputError(f"the array holds {self.length} values; {given.shape} cannot be written into it")
        storage = self.format
        if isinstance(storage, FloatFormat):
            pack(given, self.units, storage, self.exponent)
        elif isinstance(storage, SegmentFormat):
            write_segments(given.view(np.uint64), self.units, storage, written)
        else:
            encode_values(given, storage, self.memory, self.exponent)

    def restore_inplace(self) -> Floats:
        """Convert the memory back to float64, in place, and return it as an array of float64.

        The array must not be used afterwards: its memory now holds plain float64 values.

        Raises
        ------
        InputError
            If the format is not one of segments, whose memory alone has the size of float64 values.

        Examples
        --------
        >>> import cpms, numpy as np
        >>> stored = cpms.convert_inplace(np.array([1.5, -2.0, 1e300]), cpms.SegmentFormat("pair", (32, 32), 2))
        >>> stored.restore_inplace().tolist()
        [1.5, -2.0, 1e+300]
        """
        if not isinstance(self.format, SegmentFormat):
            raise InputError(f"{_kind(self.format)}; it has no room for float64 in place; use decode()")
        if on_device(self.memory):
            restored: Floats = codec().restore_inplace(self)
            return restored
        for part, large in conversion_parts(self.memory.view(np.uint64), self.format):
            if large:
                planes_to_blocks(part, self.format)
            read_segments(part.view(f"uint{self.format.unit}"), part, within_buffer(self.format), self.format.segments)
        return self.memory.view(np.float64)


def encode(
    values: npt.ArrayLike, format: Format | str, *, segments: int | None = None, overflow: Overflow | None = None
) -> SegmentedArray:
    """Return ``values`` in a storage format.

    Parameters
    ----------
    values : array_like of real numbers
        A sequence, or an array of any shape in main or device memory, read as float64. Long doubles and integers from
        2**53 on, which float64 cannot hold, are rounded once, to the format, where that has fewer bits than float64.
    format : Format or str
        Or its name; a data type of NumPy or ml_dtypes; ``module:attribute`` or ``file.py:attribute``.
    segments : int, optional
        Write only that many segments, the others are zero (all by default).
    overflow : {"raise", "saturate", "inf"}, optional
        Finite values beyond the largest number are refused, become that number, or become an infinity (NaN in formats
        without one); overflow, underflow and NaN are counted in the array's ``counts``. By default the format decides,
        and nothing is counted. Segments and formats of one's own have no such choice in device memory.

    Returns
    -------
    SegmentedArray
        In memory of its own.

    Raises
    ------
    InputError
        If the values are a sequence of sequences, or are no real numbers: dates, text, None, complex numbers.

    Examples
    --------
    >>> import cpms
    >>> cpms.encode([0.1], cpms.CPMS2).decode(read=1).tolist()
    [0.09999996423721313]
    >>> stored = cpms.encode([1e9, 1e-9, 2.0], "fp16", overflow="saturate")
    >>> stored.decode().tolist(), stored.counts
    ([65504.0, 0.0, 2.0], Counts(overflow=1, underflow=1, nan=0))
    """
    format = format_of(format)
    if overflow is not None:
        require_overflow(overflow)
    if on_device(values):
        encoded: SegmentedArray = rounding().encode(values, format, segments, overflow)
        return encoded
    shape = values.shape if isinstance(values, np.ndarray | SegmentedArray) and values.ndim > 1 else ()
    given = to_be_rounded(flat(values, shape), format, format.checked_read(segments))
    exponent = array_exponent(given, format)
    memory = np.zeros(format.nbytes(len(given)), dtype=np.uint8)
    stored = SegmentedArray(memory, len(given), format, exponent, shape)
    stored.write(given, segments=segments)
    if overflow is None:
        return stored
    return replace(stored, counts=counted(stored, given, format.checked_read(segments), overflow))


def convert_inplace(values: Floats, format: SegmentFormat | str) -> SegmentedArray:
    """Convert a float64 array to segments within its own memory.

    Blocks pass through a buffer of 128 KiB a thread. Larger blocks, such as planes of long arrays, need 8 additional
    bytes for every 16,384 units of the narrowest segment.

    Parameters
    ----------
    values : ndarray of float64, shape (n,), contiguous and writable
        Any length; must not be used as float64 until `SegmentedArray.restore_inplace`.
    format : SegmentFormat or str
        Or its name.

    Returns
    -------
    SegmentedArray
        On the same memory.

    Raises
    ------
    InputError
        If the array is not contiguous, writable float64, or the format is not one of segments.

    Examples
    --------
    >>> import cpms, numpy as np
    >>> cpms.convert_inplace(np.array([0.1, 2.0]), "cpms4").restore_inplace().tolist()
    [0.1, 2.0]
    """
    chosen = format_of(format)
    if not isinstance(chosen, SegmentFormat):
        raise InputError(f"{_kind(chosen)}; only segment formats convert in place, use encode()")
    if on_device(values):
        converted: SegmentedArray = codec().convert_inplace(values, chosen)
        return converted
    require_real("values", values)
    if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.ndim != 1:
        raise InputError("conversion in place needs a one-dimensional NumPy array of float64")
    if not values.flags.c_contiguous or not values.flags.writeable:
        raise InputError("conversion in place needs a contiguous, writable array; copy it first")
    for part, large in conversion_parts(values.view(np.uint64), chosen):
        write_segments(part, part.view(f"uint{chosen.unit}"), within_buffer(chosen), chosen.segments)
        if large:
            blocks_to_planes(part, chosen)
    return SegmentedArray(values.view(np.uint8), len(values), chosen)


def distribution_vector(length: int, format: Format) -> SegmentedArray:
    """Return zeros in a format, with an exponent at which values of at most 1, as of a distribution, fit the format.

    Examples
    --------
    >>> from cpms.formats.formats import format_named
    >>> distribution_vector(3, format_named("fp16-scaled")).exponent
    14
    """
    memory = np.zeros(format.nbytes(length), np.uint8)
    return SegmentedArray(memory, length, format, distribution_exponent(format))


def _kind(format: Format) -> str:
    what = "is a packed float" if isinstance(format, FloatFormat) else "has a codec of its own"
    return f"{shortened(format.name)} {what}"
