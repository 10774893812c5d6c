"""Formats with a codec of their own: encoding and decoding of whole arrays, in threads where the codec is compiled.

The functions of `cpms.formats.protocol.Format.numba_codec` are inlined into two loops for each format. The first use
compiles these, in a second or two, and threads share their work. Formats without such functions are encoded by their
functions on NumPy arrays. A codec that returns another type or shape than it should is refused, with its name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.errors import CpmsError, InputError
from cpms.base.types import Floats
from cpms.base.validation import described, shortened
from cpms.formats.protocol import Format, ask, described_format, require_facts
from cpms.storage.segment_layout import times_power_of_two

_PART_VALUES = 1 << 14
_COMPILED_FORMATS = 64


class Loops(NamedTuple):
    """Compiled loops of a format, over codes or groups from ``low`` to ``high``.

    ``rounded`` encodes and decodes value by value; its first call compiles it. It is None for formats of groups.
    """

    encode: Any
    decode: Any
    rounded: Any = None


def encode_values(values: Floats, format: Format, memory: npt.NDArray[np.uint8], exponent: int = 0) -> None:
    """Write values, shape (n,), times a power of two into the bytes of an array in a format of the protocol.

    Raises
    ------
    InputError
        If the codec fails, or returns other codes than it should.

    Examples
    --------
    >>> from cpms.formats.posits import POSIT8
    >>> memory = np.zeros(2, np.uint8)
    >>> encode_values(np.array([1.0, -2.0]), POSIT8, memory)
    >>> memory.tolist()
    [64, 184]
    """
    if not format.has_nan and np.isnan(values).any():
        raise InputError(f"{shortened(format.name)} has no NaN, and value {int(np.argmax(np.isnan(values)))} is one")
    if format.group > 1 and not format.has_nan and np.isinf(values).any():
        raise InputError(f"{shortened(format.name)} has no infinity; all values must be finite")
    given, codes = _grouped(times_power_of_two(values, exponent), format), _codes(memory, format)
    loops = compiled_loops(format)
    if loops is None:
        codes[...] = _checked(format, "encode", (given,), codes.shape, codes.dtype)
    else:
        _each(format, lambda part: loops.encode(given, codes, *part), len(codes))


def decode_values(
    memory: npt.NDArray[np.uint8], format: Format, length: int, read: int | None, exponent: int = 0
) -> Floats:
    """Return the values of an array in a format of the protocol, from their first ``read`` levels, shape (length,).

    Raises
    ------
    InputError
        If the codec fails, or returns anything but float64 values of the right shape.
    """
    level, codes = format.checked_read(read), _codes(memory, format)
    loops = compiled_loops(format)
    shape = codes.shape if format.group == 1 else (len(codes), format.group)
    if loops is None:
        values = _checked(format, "decode", (codes, level), shape, np.dtype(np.float64))
    else:
        values = np.empty(shape)
        _each(format, lambda part: loops.decode(codes, values, level, *part), len(codes))
    return times_power_of_two(values.reshape(-1)[:length], -exponent)


def decode_range(
    memory: npt.NDArray[np.uint8], format: Format, length: int, read: int | None, exponent: int, low: int, high: int
) -> Floats:
    """Return values ``low`` to ``high`` of an array in a format of the protocol; whole groups are decoded.

    Examples
    --------
    >>> from cpms.formats.posits import POSIT8
    >>> decode_range(np.array([64, 184, 72], np.uint8), POSIT8, 3, None, 0, 1, 3).tolist()
    [-2.0, 2.0]
    """
    first, last = low // format.group, -(-high // format.group)
    part = memory[first * format.group_bytes : last * format.group_bytes]
    begin = first * format.group
    return decode_values(part, format, min(length, last * format.group) - begin, read, exponent)[
        low - begin : high - begin
    ]


def _each(format: Format, loop: Any, count: int) -> None:
    parts = threads.ranges(count, at_least=max(1, _PART_VALUES // format.group), parts=64)
    threads.each(loop, parts)


@lru_cache(_COMPILED_FORMATS)
def compiled_loops(format: Format) -> Loops | None:
    """Return the compiled loops of a format, or None if it has no codec for Numba.

    Raises
    ------
    InputError
        If the codec cannot be compiled, or a property of the format is not valid.
    """
    require_facts(format)
    codec = ask(format, "numba_codec")
    if codec is None:
        return None
    from cpms.base.jit import inlined_in_loops, numba

    try:
        load, store = codec
        inlined: Any = inlined_in_loops(error_model="numpy")
        make = _loops_of_codes if format.group == 1 else _loops_of_groups
        loops = make(numba.njit(nogil=True, error_model="numpy"), inlined(load), inlined(store), format)
        _try(format, loops)
    except CpmsError:
        raise
    except Exception as error:  # noqa: BLE001 - Numba and code of others raise anything
        raise InputError(
            f"the numba_codec of {described_format(format)} does not compile ({_reason(error)}); "
            "it must return load(code, read) and store(value), of groups load(group, place, read) and "
            "store(values, group), in what Numba knows"
        ) from None
    return loops


def _try(format: Format, loops: Loops) -> None:
    """Compile both loops by a call with one value or group."""
    shape = (1,) if format.group == 1 else (1, format.group)
    codes = np.zeros((1,) if format.group == 1 else (1, format.group_bytes), format.code_type)
    values = np.ones(shape)
    loops.encode(values, codes, 0, 1)
    loops.decode(codes, values, 1, 0, 1)


def _loops_of_codes(jit: Any, load: Any, store: Any, format: Format) -> Loops:
    code_type, levels = format.code_type.type, format.levels

    @jit  # type: ignore[untyped-decorator, unused-ignore]
    def encode(values: Any, codes: Any, low: Any, high: Any) -> None:
        for i in range(low, high):
            codes[i] = codes.dtype.type(store(values[i]))

    @jit  # type: ignore[untyped-decorator, unused-ignore]
    def decode(codes: Any, values: Any, read: Any, low: Any, high: Any) -> None:
        for i in range(low, high):
            values[i] = load(np.int64(codes[i]), read)

    @jit  # type: ignore[untyped-decorator, unused-ignore]
    def rounded(values: Any, out: Any, factor: Any) -> None:
        back = 1.0 / factor
        for i in range(len(values)):
            out[i] = load(np.int64(code_type(store(values[i] * factor))), levels) * back

    return Loops(encode, decode, rounded)


def _loops_of_groups(jit: Any, load: Any, store: Any, format: Format) -> Loops:  # noqa: ARG001
    @jit  # type: ignore[untyped-decorator, unused-ignore]
    def encode(values: Any, codes: Any, low: Any, high: Any) -> None:
        for i in range(low, high):
            store(values[i], codes[i])

    @jit  # type: ignore[untyped-decorator, unused-ignore]
    def decode(codes: Any, values: Any, read: Any, low: Any, high: Any) -> None:
        for i in range(low, high):
            group = codes[i]
            for place in range(values.shape[1]):
                values[i, place] = load(group, place, read)

    return Loops(encode, decode)


def _grouped(values: Floats, format: Format) -> Floats:
    """Return values in groups; zeros fill up the last one."""
    if format.group == 1:
        return np.ascontiguousarray(values)
    groups = -(-len(values) // format.group)
    padded = np.zeros(groups * format.group)
    padded[: len(values)] = values
    return padded.reshape(groups, format.group)


def _codes(memory: npt.NDArray[np.uint8], format: Format) -> npt.NDArray[Any]:
    return memory.view(format.code_type) if format.group == 1 else memory.reshape(-1, format.group_bytes)


def _checked(
    format: Format, name: str, given: tuple[Any, ...], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Call a function of a codec, and return its result if that has this shape and type."""
    found = ask(format, name, *given)
    if not isinstance(found, np.ndarray) or found.shape != shape or found.dtype != dtype:
        what = f"{found.dtype} of shape {found.shape}" if isinstance(found, np.ndarray) else described(found)
        raise InputError(
            f"{name} of {described_format(format)} returns {what}; it must return {dtype} of shape {shape}"
        )
    return found


def _reason(error: Exception) -> str:
    """Return the type of an error and its first line; of an error of compilation, the first line with the reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("Failed in")] or lines
    return shortened(": ".join([type(error).__name__, *lines[:1]]))
