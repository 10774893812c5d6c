"""Arrays in a storage format: encode, decode, partial writes, conversion in place.

NumPy arrays are worked on here, CuPy arrays and other device memory in `cpms.cuda.segmented`.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms import threads
from cpms.errors import InputError
from cpms.format import DOUBLE_BITS, DOUBLE_HEAD_BITS, FloatFormat, Format, SegmentFormat, format_of
from cpms.scalars import require_real

Floats = npt.NDArray[np.float64]

BUFFERED = 16384
"""Values that conversion in place buffers: 128 KiB, which stays in a core's cache."""
_STRETCH = 1 << 16
_DLPACK_CUDA = 2
ROUNDING_MODES = {"zero": 0, "nearest": 1, "stochastic": 2}


@dataclass(frozen=True, eq=False)
class SegmentedArray:
    """Values in a storage format.

    Make one with `encode` or `convert_inplace`.

    Parameters
    ----------
    memory : ndarray of uint8, shape (format.nbytes(length),)
        The stored bytes.
    length : int
        Number of values.
    format : SegmentFormat or FloatFormat
    exponent : int
        Stored values are 2**exponent times the real ones (0 unless the format is scaled).

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

    def __len__(self) -> int:
        return self.length

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return self.format.nbytes(self.length)

    @property
    def units(self) -> npt.NDArray[Any]:
        """The memory as unsigned integers of the format's unit, without a copy."""
        bits = self.format.unit if isinstance(self.format, SegmentFormat) else self.format.width
        return self.memory.view(f"uint{bits}")

    def decode(self, read: int | None = None) -> Floats:
        """Return the values as float64, from their first ``read`` segments (all by default).

        Bits that are not read count as zero. A NaN whose payload lies in them only becomes an
        infinity; the bound on the relative error holds for normal numbers only.

        Raises
        ------
        InputError
            If the format does not have that many segments.
        """
        if on_device(self.memory):
            decoded: Floats = _device().decode(self, read)
            return decoded
        from cpms import segment_kernels

        self.format.checked_read(read)
        values = np.empty(self.length)
        if isinstance(self.format, FloatFormat):
            split = self.format.exponent_bits, self.format.mantissa_bits
            threads.each(
                lambda part: segment_kernels.unpack_floats(self.units, values, *split, *part),
                threads.stretches(self.length, at_least=_STRETCH, parts=64),
            )
            return _times_power_of_two(values, -self.exponent)
        _decode(self.units, values.view(np.uint64), self.format, self.format.checked_read(read))
        return values

    def write(self, values: npt.ArrayLike, *, segments: int | None = None) -> None:
        """Overwrite the first ``segments`` segments of every value; the others keep their bits.

        Parameters
        ----------
        values : array_like of float64, shape (length,)
        segments : int, optional
            Segments to write (all by default). The format's rounding decides what happens to the
            bits that do not fit; a scaled array keeps its exponent.
        """
        if on_device(self.memory):
            _device().write(self, values, segments=segments)
            return
        given = _doubles(values)
        if given.shape != (self.length,):
            raise InputError(f"the array holds {self.length} values; {given.shape} cannot be written into it")
        written = self.format.checked_read(segments)
        if isinstance(self.format, FloatFormat):
            _pack(given, self.units, self.format, self.exponent)
        else:
            _encode(given.view(np.uint64), self.units, self.format, written)

    def restore_inplace(self) -> Floats:
        """Turn the memory back into float64, in place, and return it as such.

        The array must not be used afterwards: its memory now holds plain float64 values.

        Raises
        ------
        InputError
            If the format is a packed float, which has no room for float64 values.

        Examples
        --------
        >>> import numpy as np
        >>> values = np.array([1.5, -2.0, 1e300])
        >>> stored = convert_inplace(values, SegmentFormat("pair", (32, 32), 2))
        >>> stored.restore_inplace().tolist()
        [1.5, -2.0, 1e+300]
        """
        if isinstance(self.format, FloatFormat):
            raise InputError(f"{self.format.name} is a packed float; it has no room for float64 in place; use decode()")
        if on_device(self.memory):
            restored: Floats = _device().restore_inplace(self)
            return restored
        for part, large in _converted_apart(self.memory.view(np.uint64), self.format):
            if large:
                _planes_to_blocks(part, self.format)
            _decode(part.view(f"uint{self.format.unit}"), part, _buffered(self.format), self.format.segments)
        return self.memory.view(np.float64)


def encode(values: npt.ArrayLike, format: Format | str, *, segments: int | None = None) -> SegmentedArray:
    """Return ``values`` in a storage format.

    Parameters
    ----------
    values : array_like of float64, shape (n,)
    format : SegmentFormat, FloatFormat or str
        Or its name.
    segments : int, optional
        Write only that many segments, the others are zero (all by default).

    Returns
    -------
    SegmentedArray
        In memory of its own.

    Raises
    ------
    InputError
        If the values have more than one dimension or cannot be read as float64.

    Examples
    --------
    >>> from cpms.format import CPMS2
    >>> encode([0.1], CPMS2).decode(read=1).tolist()
    [0.09999996423721313]
    """
    format = format_of(format)
    if on_device(values):
        encoded: SegmentedArray = _device().encode(values, format, segments=segments)
        return encoded
    given = _doubles(values)
    exponent = shared_exponent(given, format) if isinstance(format, FloatFormat) and format.scaled else 0
    memory = np.zeros(format.nbytes(len(given)), dtype=np.uint8)
    stored = SegmentedArray(memory, len(given), format, exponent)
    stored.write(given, segments=segments)
    return stored


def convert_inplace(values: Floats, format: SegmentFormat | str) -> SegmentedArray:
    """Re-order the segments of a float64 array within its own memory.

    Nothing outside the array is written and no second array is made: blocks pass through a
    buffer of 128 KiB a thread, and blocks larger than that (planes of long arrays) need 8 bytes
    for every 16,384 segments besides.

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
        If the array is not contiguous, writable float64, or the format is a packed float.
    """
    chosen = format_of(format)
    if isinstance(chosen, FloatFormat):
        raise InputError(f"{chosen.name} is a packed float; only segment formats convert in place, use encode()")
    if on_device(values):
        converted: SegmentedArray = _device().convert_inplace(values, chosen)
        return converted
    require_real("values", values)
    if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.ndim != 1:
        raise InputError("conversion in place needs a one-dimensional NumPy array of float64")
    if not values.flags.c_contiguous or not values.flags.writeable:
        raise InputError("conversion in place needs a contiguous, writable array; copy it first")
    for part, large in _converted_apart(values.view(np.uint64), chosen):
        _encode(part, part.view(f"uint{chosen.unit}"), _buffered(chosen), chosen.segments)
        if large:
            _blocks_to_planes(part, chosen)
    return SegmentedArray(values.view(np.uint8), len(values), chosen)


def shared_exponent(values: Floats, format: FloatFormat) -> int:
    """Return the power of two that brings the largest finite size just below the format's largest binade.

    Examples
    --------
    >>> from cpms.format import FP16
    >>> shared_exponent(np.array([1e-6]), FP16)
    34
    """
    sizes = np.abs(values[np.isfinite(values)])
    largest = sizes.max(initial=0.0)
    return 0 if largest == 0 else int(format.bias - np.frexp(largest)[1])


def on_device(values: object) -> bool:
    """Return whether an object's memory lies on a CUDA device.

    Examples
    --------
    >>> on_device(np.zeros(3))
    False
    """
    if isinstance(values, np.ndarray):
        return False
    if hasattr(values, "__cuda_array_interface__"):
        return True
    # 2 is DLPack's kDLCUDA; NumPy arrays answer 1, the processor.
    device = getattr(values, "__dlpack_device__", None)
    return device is not None and int(device()[0]) == _DLPACK_CUDA


def _device() -> Any:
    from cpms.cuda import segmented

    return segmented


def _doubles(values: npt.ArrayLike) -> Floats:
    require_real("values", values)
    try:
        given = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"values must be numbers that fit float64: {error}") from None
    if np.ndim(values) != 1:
        raise InputError(f"values have {np.ndim(values)} dimensions; give one")
    return given


def _pieces(format: SegmentFormat) -> npt.NDArray[np.int64]:
    return np.array([width // format.unit for width in format.widths], dtype=np.int64)


def _block(format: SegmentFormat, length: int) -> int:
    return max(1, length if format.block is None else min(format.block, length))


def _buffered(format: SegmentFormat) -> SegmentFormat:
    """Return the format with its blocks cut to what conversion in place buffers."""
    if format.block is not None and format.block <= BUFFERED:
        return format
    return SegmentFormat(format.name, format.widths, BUFFERED, format.rounding)


def _converted_apart(bits: npt.NDArray[np.uint64], format: SegmentFormat) -> list[tuple[npt.NDArray[np.uint64], bool]]:
    """Return each block that is too large for the buffer, and True; or all of the array, and False."""
    block = _block(format, len(bits))
    if block <= BUFFERED or format.segments == 1:
        return [(bits, False)]
    return [(bits[begin : begin + block], True) for begin in range(0, len(bits), block)]


def _encode(bits: npt.NDArray[np.uint64], units: npt.NDArray[Any], format: SegmentFormat, written: int) -> None:
    from cpms import segment_kernels

    kept = format.bits(written)
    rounds = format.rounding == "nearest" and DOUBLE_HEAD_BITS <= kept < DOUBLE_BITS
    dropped = DOUBLE_BITS - kept if rounds else 0
    block, pieces = _block(format, len(bits)), _pieces(format)
    if block <= BUFFERED:
        threads.each(
            lambda part: segment_kernels.encode_blocks(bits, units, pieces, written, dropped, block, *part),
            _block_stretches(len(bits), block),
        )
        return
    for begin in range(0, len(bits), block):
        size = min(block, len(bits) - begin)
        threads.each(
            lambda part, begin=begin, size=size: segment_kernels.encode_stretch(  # type: ignore[misc]
                bits, units, pieces, written, dropped, begin, size, begin + part[0], begin + part[1]
            ),
            threads.stretches(size, at_least=_STRETCH, parts=64),
        )


def _decode(units: npt.NDArray[Any], bits: npt.NDArray[np.uint64], format: SegmentFormat, read: int) -> None:
    from cpms import segment_kernels

    block, pieces = _block(format, len(bits)), _pieces(format)
    if block <= BUFFERED:
        threads.each(
            lambda part: segment_kernels.decode_blocks(units, bits, pieces, read, block, *part),
            _block_stretches(len(bits), block),
        )
        return
    for begin in range(0, len(bits), block):
        size = min(block, len(bits) - begin)
        threads.each(
            lambda part, begin=begin, size=size: segment_kernels.decode_stretch(  # type: ignore[misc]
                units, bits, pieces, read, begin, size, begin + part[0], begin + part[1]
            ),
            threads.stretches(size, at_least=_STRETCH, parts=64),
        )


def _block_stretches(length: int, block: int) -> list[tuple[int, int]]:
    blocks = threads.stretches(-(-length // block), at_least=max(1, _STRETCH // block), parts=64)
    return [(low * block, min(high * block, length)) for low, high in blocks]


def _pack(values: Floats, units: npt.NDArray[Any], format: FloatFormat, exponent: int) -> None:
    from cpms import segment_kernels

    scaled = _times_power_of_two(values, exponent)
    mode = ROUNDING_MODES[format.rounding]
    threads.each(
        lambda part: segment_kernels.pack_floats(
            scaled.view(np.uint64),
            units,
            format.exponent_bits,
            format.mantissa_bits,
            mode,
            np.uint64(format.seed),
            *part,
        ),
        threads.stretches(len(values), at_least=_STRETCH, parts=64),
    )


def _times_power_of_two(values: Floats, exponent: int) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):  # Infinities and NaN are values like others.
        return np.ldexp(values, exponent) if exponent else values


def _blocks_to_planes(bits: npt.NDArray[np.uint64], format: SegmentFormat) -> None:
    """Turn one large block, converted in blocks of `BUFFERED`, into planes."""
    from cpms import segment_kernels

    pieces, unit_bytes = _pieces(format), format.unit // 8
    whole = len(bits) // BUFFERED
    main, rest = whole * BUFFERED, len(bits) % BUFFERED
    units = bits.view(f"uint{format.unit}")
    tail = bits[main:].copy().view(units.dtype)
    segment_kernels.permute_chunks(units, BUFFERED, pieces, whole, False)
    before = int(pieces.sum())
    for count in pieces[::-1].tolist():
        before -= count
        _move(bits, before * main * unit_bytes, before * len(bits) * unit_bytes, count * main * unit_bytes)
        at = before * len(bits) + count * main
        units[at : at + count * rest] = tail[before * rest : (before + count) * rest]


def _planes_to_blocks(bits: npt.NDArray[np.uint64], format: SegmentFormat) -> None:
    """Undo `_blocks_to_planes`."""
    from cpms import segment_kernels

    pieces, unit_bytes = _pieces(format), format.unit // 8
    whole = len(bits) // BUFFERED
    main, rest = whole * BUFFERED, len(bits) % BUFFERED
    units = bits.view(f"uint{format.unit}")
    tail = np.empty(rest, np.uint64).view(units.dtype)
    before = 0
    for count in pieces.tolist():
        at = before * len(bits) + count * main
        tail[before * rest : (before + count) * rest] = units[at : at + count * rest]
        _move(bits, before * len(bits) * unit_bytes, before * main * unit_bytes, count * main * unit_bytes)
        before += count
    segment_kernels.permute_chunks(units, BUFFERED, pieces, whole, True)
    bits[main:] = tail.view(np.uint64)


def _move(array: npt.NDArray[Any], source: int, target: int, count: int) -> None:
    """Move ``count`` bytes within an array; the stretches may overlap."""
    if source != target:
        ctypes.memmove(array.ctypes.data + target, array.ctypes.data + source, count)
