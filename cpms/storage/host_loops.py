"""Compiled loops that convert values between float64 and storage formats, block by block.

They implement the layout of the CPMS paper, section IV.A (see `cpms.formats.formats.SegmentFormat`). Addresses count
units whose width divides that of every segment, and ``units`` of them are 64 bits. Consider a block of ``m`` values
whose first has the index ``f``. Segment k of value ``f + l`` is the ``segment_units[k]`` units from
``f * units + m * offset[k] + l * segment_units[k]`` on, low unit first, ``offset`` being the exclusive prefix sum of
``segment_units``. Blocks pass through a small buffer, so source and destination may be the same memory. Each value is
read and written once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.base.jit import compiled, inlined_in_loops, numba

jit: Any = compiled()
inlined: Any = inlined_in_loops()


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _to_nearest(bits, dropped):  # type: ignore[no-untyped-def]
    finite = (bits >> np.uint64(52)) & np.uint64(0x7FF) != np.uint64(0x7FF)
    odd = (bits >> dropped) & np.uint64(1)
    half = (np.uint64(1) << (dropped - np.uint64(1))) - np.uint64(1) + odd
    return bits + half if finite else bits


@jit
def encode_blocks(bits, out, segment_units, written, nearest_drop, block, first, last):  # type: ignore[no-untyped-def]
    """Write the first ``written`` segments of ``bits[first:last]``; ``first`` begins a block.

    With ``nearest_drop`` above 0, values are rounded to nearest, and so many low bits are dropped; with 0, they are
    truncated. ``bits`` and ``out`` may be the same memory.
    """
    unit_bits = 8 * out.itemsize
    units = 64 // unit_bits
    buffer = np.empty(block, np.uint64)
    for begin in range(first, last, block):
        size = min(block, last - begin)
        values = bits[begin : begin + size]
        if nearest_drop > 0:
            for lane in range(size):
                buffer[lane] = _to_nearest(values[lane], np.uint64(nearest_drop))
        else:
            for lane in range(size):
                buffer[lane] = values[lane]
        base = begin * units
        shift = 64
        for k in range(written):
            count = segment_units[k]
            shift -= count * unit_bits
            for unit in range(count):
                right = np.uint64(shift + unit * unit_bits)
                if count == 1:
                    segment = out[base : base + size]
                    for lane in range(size):
                        segment[lane] = out.dtype.type(buffer[lane] >> right)
                else:
                    segment = out[base + unit : base + size * count]
                    for lane in range(size):
                        segment[lane * count] = out.dtype.type(buffer[lane] >> right)
            base += size * count


@jit
def decode_blocks(stored, bits, segment_units, read, block, first, last):  # type: ignore[no-untyped-def]
    """Read the first ``read`` segments of values ``first`` to ``last``; the inverse of `encode_blocks`."""
    unit_bits = 8 * stored.itemsize
    units = 64 // unit_bits
    buffer = np.empty(block, np.uint64)
    for begin in range(first, last, block):
        size = min(block, last - begin)
        buffer[:size] = 0
        base = begin * units
        shift = 64
        for k in range(read):
            count = segment_units[k]
            shift -= count * unit_bits
            for unit in range(count):
                left = np.uint64(shift + unit * unit_bits)
                if count == 1:
                    segment = stored[base : base + size]
                    for lane in range(size):
                        buffer[lane] |= np.uint64(segment[lane]) << left
                else:
                    segment = stored[base + unit : base + size * count]
                    for lane in range(size):
                        buffer[lane] |= np.uint64(segment[lane * count]) << left
            base += size * count
        values = bits[begin : begin + size]
        for lane in range(size):
            values[lane] = buffer[lane]


@jit
def encode_range(bits, out, segment_units, written, nearest_drop, begin, size, first, last):  # type: ignore[no-untyped-def]
    """Write values ``first`` to ``last`` of one block of ``size`` values that begins at ``begin``."""
    unit_bits = 8 * out.itemsize
    units = 64 // unit_bits
    values = bits[first:last]
    base = begin * units
    shift = 64
    for k in range(written):
        count = segment_units[k]
        shift -= count * unit_bits
        for unit in range(count):
            right = np.uint64(shift + unit * unit_bits)
            segment = out[base + (first - begin) * count + unit : base + (last - begin) * count]
            for lane in range(len(values)):
                value = values[lane]
                if nearest_drop > 0:
                    value = _to_nearest(value, np.uint64(nearest_drop))
                segment[lane * count] = out.dtype.type(value >> right)
        base += size * count


@jit
def decode_range(stored, bits, segment_units, read, begin, size, first, last):  # type: ignore[no-untyped-def]
    """Read values ``first`` to ``last`` of one block of ``size`` values that begins at ``begin``."""
    unit_bits = 8 * stored.itemsize
    units = 64 // unit_bits
    values = bits[first:last]
    values[:] = 0
    base = begin * units
    shift = 64
    for k in range(read):
        count = segment_units[k]
        shift -= count * unit_bits
        for unit in range(count):
            left = np.uint64(shift + unit * unit_bits)
            segment = stored[base + (first - begin) * count + unit : base + (last - begin) * count]
            for lane in range(len(values)):
                values[lane] |= np.uint64(segment[lane * count]) << left
        base += size * count


@jit
def permute_chunks(memory, chunk, segment_units, blocks, inverse):  # type: ignore[no-untyped-def]
    """Permute ``blocks`` equal blocks into planes in place, along the cycles of the permutation; or back (``inverse``).

    Memory is ``blocks * units`` chunks of ``chunk`` units; segment k of block b is the chunks from
    ``b * units + offset[k]`` on, and its target is ``blocks * offset[k] + b * segment_units[k]``.
    """
    units = 8 // memory.itemsize
    target = np.empty(blocks * units, np.int64)
    for b in range(blocks):
        offset = 0
        for count in segment_units:
            for unit in range(count):
                here = b * units + offset + unit
                there = blocks * offset + b * count + unit
                if inverse:
                    target[there] = here
                else:
                    target[here] = there
            offset += count
    displaced = np.empty(chunk, memory.dtype)
    for start in range(blocks * units):
        if target[start] < 0:
            continue
        displaced[:] = memory[start * chunk : (start + 1) * chunk]
        at = start
        while target[at] >= 0:
            to = target[at]
            target[at] = -1
            occupied = memory[to * chunk : (to + 1) * chunk]
            for i in range(chunk):
                displaced[i], occupied[i] = occupied[i], displaced[i]
            at = to


@inlined
def _values_of(fields, digits, unit, values):  # type: ignore[no-untyped-def]
    """Decode the fields of a block, in which the sign is the bit above the digits."""
    for i in range(len(values)):
        size = np.float64(np.int32(fields[i] & digits)) * unit
        values[i] = -size if fields[i] > digits else size


@jit
def encode_block_floats(values, exponents, words, width, least, first, last):  # type: ignore[no-untyped-def]
    """Write blocks ``first`` to ``last`` of 32 values in block floating point; see `cpms.formats.block_float`.

    Adding and subtracting 2**52, above which float64 holds integers alone, rounds absolute values to nearest even.
    """
    fields, magic = np.zeros(33, np.uint64), 2.0**52
    most = 2.0 ** (width - 1) - 1.0
    for block in range(first, last):
        here = values[32 * block : 32 * block + 32]
        top = np.uint64(0)
        for i in range(len(here)):
            top = max(top, np.float64(here[i]).view(np.uint64) & np.uint64(0x7FFFFFFFFFFFFFFF))
        exponent = max(np.int64(top >> np.uint64(52)) - 1022, least)
        exponents[block] = exponent
        scale = np.uint64((1022 + width - exponent) << 52).view(np.float64)
        for i in range(len(here)):
            bits = np.float64(here[i]).view(np.uint64)
            size = min((abs(here[i]) * scale + magic) - magic, most)
            fields[i] = np.uint64(np.int64(size)) | (bits >> np.uint64(63) << np.uint64(width - 1))
        for i in range(len(here), 32):
            fields[i] = np.uint64(0)
        into = words[block]
        if width == 16:
            for k in range(16):
                into[k] = fields[2 * k] | (fields[2 * k + 1] << np.uint64(16))
        elif width == 32:
            for i in range(32):
                into[i] = fields[i]
        else:
            held, bits_held, k = np.uint64(0), 0, 0
            for i in range(32):
                held |= fields[i] << np.uint64(bits_held)
                bits_held += width
                while bits_held >= 32:
                    into[k] = held & np.uint64(0xFFFFFFFF)
                    held >>= np.uint64(32)
                    bits_held -= 32
                    k += 1


@jit
def decode_block_floats(exponents, words, values, width, first, last):  # type: ignore[no-untyped-def]
    """Read blocks ``first`` to ``last``; the inverse of `encode_block_floats`."""
    digits, whole = np.uint64(2 ** (width - 1) - 1), words.reshape(-1)
    halves = whole.view(np.uint16)
    for block in range(first, last):
        unit = np.uint64((1024 - width + exponents[block]) << 52).view(np.float64)
        begin, end = 32 * block, 32 * block + 32
        if width == 16:
            _values_of(halves[begin:end], 0x7FFF, unit, values[begin:end])
        elif width == 32:
            _values_of(whole[begin:end], 0x7FFFFFFF, unit, values[begin:end])
        else:
            given, into, held, bits_held, k = words[block], values[begin:end], np.uint64(0), 0, 0
            for i in range(len(into)):
                if bits_held < width:
                    held |= np.uint64(given[k]) << np.uint64(bits_held)
                    bits_held += 32
                    k += 1
                size = np.float64(np.int64(held & digits)) * unit
                into[i] = -size if held >> np.uint64(width - 1) & np.uint64(1) else size
                held >>= np.uint64(width)
                bits_held -= width


@inlined
def random_bits(seed, index):  # type: ignore[no-untyped-def]
    """Return 64 random bits for stochastic rounding of the value at an index.

    They are number ``index`` of the splitmix64 generator (Steele, Lea and Flood, OOPSLA 2014), which needs none of the
    numbers before, so they do not depend on threads.
    """
    z = np.uint64(seed) + (np.uint64(index) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@jit
def pack_floats(bits, out, exponent_bits, mantissa_bits, mode, seed, first, last):  # type: ignore[no-untyped-def]
    """Write ``bits[first:last]`` as packed floats; mode 0 truncates, 1 rounds to nearest, 2 stochastically."""
    one = np.uint64(1)
    bias = (1 << (exponent_bits - 1)) - 1
    top = np.uint64(((1 << exponent_bits) - 1) << mantissa_bits)
    for i in range(first, last):
        sign = (bits[i] >> np.uint64(63)) << np.uint64(exponent_bits + mantissa_bits)
        size = bits[i] & np.uint64(0x7FFFFFFFFFFFFFFF)
        if size > np.uint64(0x7FF0000000000000):
            packed = top | (one << np.uint64(mantissa_bits - 1))
        elif size == np.uint64(0x7FF0000000000000):
            packed = top
        else:
            exponent = np.int64(size >> np.uint64(52)) - 1023 + bias
            if exponent_bits == 11 or exponent >= 1:
                digits = size - (np.uint64(1023 - bias) << np.uint64(52))
                dropped = 52 - mantissa_bits
            else:
                digits = (size & np.uint64(0x000FFFFFFFFFFFFF)) | np.uint64(0x0010000000000000)
                dropped = 53 - mantissa_bits - exponent
            if dropped > 62:
                digits, dropped = np.uint64(0), 62
            shift = np.uint64(dropped)
            if mode == 1:
                digits += (one << (shift - one)) - one + ((digits >> shift) & one)
            elif mode == 2:
                digits += random_bits(seed, i) & ((one << shift) - one)
            packed = digits >> shift
            if packed >= top:
                packed = top - one if mode == 0 else top
        out[i] = out.dtype.type(sign | packed)


@inlined
def widened_float(fields, exponent_bits, mantissa_bits):  # type: ignore[no-untyped-def]
    """Return the exponent and mantissa fields of a finite packed float as a float64.

    The fields could also be taken as those of a float64 and multiplied by a power of two. This operand would be
    subnormal where the packed float is, and some processors multiply subnormal numbers slowly.
    """
    bias, one = (1 << (exponent_bits - 1)) - 1, np.uint64(1)
    bits = (fields << np.uint64(52 - mantissa_bits)) + np.uint64((1023 - bias) << 52)
    if fields < one << np.uint64(mantissa_bits):
        return np.uint64(bits + (one << np.uint64(52))).view(np.float64) - 2.0 ** (1 - bias)
    return np.uint64(bits).view(np.float64)


@jit
def unpack_floats(stored, values, exponent_bits, mantissa_bits, first, last):  # type: ignore[no-untyped-def]
    """Read packed floats ``first`` to ``last``."""
    top = np.uint64(((1 << exponent_bits) - 1) << mantissa_bits)
    for i in range(first, last):
        raw = np.uint64(stored[i])
        size = raw & np.uint64((1 << (exponent_bits + mantissa_bits)) - 1)
        if size >= top:
            moved = size << np.uint64(52 - mantissa_bits) | np.uint64(0x7FF0000000000000)
            value = np.uint64(moved).view(np.float64)
        else:
            value = widened_float(size, exponent_bits, mantissa_bits)
        values[i] = -value if raw >> np.uint64(exponent_bits + mantissa_bits) else value


@jit
def round_floats(values, out, factor, dropped, least, magic, top, beyond, nearest):  # type: ignore[no-untyped-def]
    """Round values times a factor to a packed float, and divide by the factor again; the loop has no branch.

    In the normal range, the last ``dropped`` bits are removed, with rounding to nearest if ``nearest``. Below it,
    adding and subtracting ``magic`` rounds to nearest, since the unit in the last place of ``magic`` is the format's
    step; if values are to be truncated, a result that is too large is then reduced by a step. ``least``, ``top`` and
    ``beyond`` are bits of float64 without signs: of the least normal number, of the largest number, and of the result
    for values that exceed it.
    """
    one, shift = np.uint64(1), np.uint64(dropped)
    kept = ~((one << shift) - one)
    back = 1.0 / factor
    for i in range(len(values)):
        bits = np.float64(values[i] * factor).view(np.uint64)
        size = bits & np.uint64(0x7FFFFFFFFFFFFFFF)
        half = (one << (shift - one)) - one + ((size >> shift) & one)
        normal = (size + (half if nearest else np.uint64(0))) & kept
        magnitude = np.uint64(size).view(np.float64)
        small = (magnitude + magic) - magic
        small = small - (magic * 2.0**-52 if not nearest and small > magnitude else 0.0)
        found = normal if size >= least else np.float64(small).view(np.uint64)
        found = beyond if found > top else found
        found = np.uint64(0x7FF0000000000000) if size == np.uint64(0x7FF0000000000000) else found
        found = np.uint64(0x7FF8000000000000) if size > np.uint64(0x7FF0000000000000) else found
        out[i] = np.uint64(found | (bits ^ size)).view(np.float64) * back


@jit
def round_by_rule(values, out, first, factor, rule):  # type: ignore[no-untyped-def]
    """Round values times a factor by a rule of `cpms.formats.rounding_rules` for floats, and divide by the factor.

    ``first`` is the index of the first value, on which stochastic rounding depends.
    """
    top, beyond, infinite, seed, step, dropped, least, saturates, signless, mode = rule
    one, infinity = np.uint64(1), np.uint64(0x7FF0000000000000)
    fraction, nan = np.uint64(0x000FFFFFFFFFFFFF), np.uint64(0x7FF8000000000000)
    back = 1.0 / factor
    for i in range(len(values)):
        bits = np.float64(values[i] * factor).view(np.uint64)
        size = bits & np.uint64(0x7FFFFFFFFFFFFFFF)
        if size >= infinity:
            found = nan if size > infinity else infinite
        else:
            below = least - np.int64(size >> np.uint64(52))
            digits, drop = size, dropped
            if below > 0:
                drop = dropped + below
                digits = np.uint64(0) if drop > 62 else (size & fraction) | np.uint64(0x0010000000000000)
                drop = min(drop, 62)
            shift = np.uint64(drop)
            if mode == 1:
                digits += (one << (shift - one)) - one + ((digits >> shift) & one)
            elif mode == 2:
                digits += random_bits(seed, first + i) & ((one << shift) - one)
            count = digits >> shift
            found = np.float64(np.float64(count) * step).view(np.uint64) if below > 0 else count << shift
            if (size if saturates else found) > top:
                found = beyond
        is_bare = signless and (found == 0 or found > infinity)
        number = np.uint64(found if is_bare else found | (bits ^ size)).view(np.float64)
        out[i] = number * back
