"""Updates of conjugate gradients for r and p that are stored in few bits: tiles are decoded, updated and encoded.

A tile fits into a core's first cache, so each stored value is read and written once from memory in a pass. Sums are
those of the values after rounding. Products read ``decoded``, a plain copy of p that is written together with p.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.backends.cpu.krylov.basis_loops import add_multiple, dot_product
from cpms.backends.cpu.product_loops import TILE, decode_packed
from cpms.base.jit import inlined_in_loops
from cpms.formats.block_float import LEAST_EXPONENT
from cpms.storage.host_loops import decode_block_floats, encode_block_floats, pack_floats

u64 = np.uint64
linked: Any = inlined_in_loops(forceinline=False)
"""Decorator of functions that a loop calls in several places, and that are compiled once for all of these."""
_load_packed: Any = linked(decode_packed)


@linked
def _parts(stored, at, count, length, width):  # type: ignore[no-untyped-def]
    """Return the exponents and words of the blocks that hold ``count`` values from ``at`` on."""
    first, blocks, end = at // 32, (count + 31) // 32, (length + 63) // 64 * 4
    words = stored[end + first * width * 4 : end + (first + blocks) * width * 4].view(np.uint32)
    return stored[:end].view(np.int16)[first : first + blocks], words.reshape((blocks, width))


@linked
def _load_blocks(stored, at, count, length, buffer, segment_units, kind, spec):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Decode whole blocks of block floats into a buffer of float64 bits."""
    exponents, words = _parts(stored, at, count, length, spec[1])
    decode_block_floats(exponents, words, buffer.view(np.float64), spec[1], 0, len(words))


@linked
def _store_blocks(values, stored, at, length, spec):  # type: ignore[no-untyped-def]
    """Encode values into whole blocks of block floats."""
    exponents, words = _parts(stored, at, len(values), length, spec[1])
    encode_block_floats(values, exponents, words, spec[1], LEAST_EXPONENT, 0, len(words))


@linked
def _store_packed(values, stored, at, length, spec):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Encode values into packed floats, rounded to nearest."""
    part = stored[at : at + len(values)]
    pack_floats(values.view(np.uint64), part, spec[1], spec[2], 1, u64(0), 0, len(values))


@linked
def _excess(values, limit):  # type: ignore[no-untyped-def]
    """Return 0 if all absolute values are below a limit, else infinity, which a NaN gives, too."""
    fits = True
    for i in range(len(values)):
        fits &= abs(values[i]) < limit
    return 0.0 if fits else np.inf


def _update(load: Any, store: Any) -> Any:
    @linked
    def update(x, r, p, q, low, high, alpha, limit, spec):  # type: ignore[no-untyped-def]
        length, bits = len(x), np.empty(TILE, np.uint64)
        square = of_residual = 0.0
        for begin in range(low, high, TILE):
            end = min(begin + TILE, high)
            count, values, of_q = end - begin, bits.view(np.float64)[: end - begin], q[begin:end]
            load(p, begin, count, length, bits, (1,), 0, spec)
            add_multiple(values, alpha, x[begin:end])
            load(r, begin, count, length, bits, (1,), 0, spec)
            add_multiple(of_q, -alpha, values)
            square += _excess(values, limit)
            store(values, r, begin, length, spec)
            load(r, begin, count, length, bits, (1,), 0, spec)
            square += dot_product(values, values)
            of_residual += dot_product(values, of_q)
        return square, of_residual

    return update


def _turn(load: Any, store: Any) -> Any:
    @linked
    def turn(r, p, decoded, low, high, beta, limit, spec):  # type: ignore[no-untyped-def]
        length, bits, bits_of_r = len(decoded), np.empty(TILE, np.uint64), np.empty(TILE, np.uint64)
        product = 0.0
        for begin in range(low, high, TILE):
            end = min(begin + TILE, high)
            count, into = end - begin, decoded[begin:end]
            values, of_r = bits.view(np.float64)[:count], bits_of_r.view(np.float64)[:count]
            load(p, begin, count, length, bits, (1,), 0, spec)
            load(r, begin, count, length, bits_of_r, (1,), 0, spec)
            for i in range(count):
                values[i] = of_r[i] + beta * values[i]
            product += _excess(values, limit)
            store(values, p, begin, length, spec)
            load(p, begin, count, length, bits, (1,), 0, spec)
            product += dot_product(values, of_r)
            for i in range(count):
                into[i] = values[i]
        return product

    return turn


update_blocks, update_packed = _update(_load_blocks, _store_blocks), _update(_load_packed, _store_packed)
"""Do x += alpha p and r -= alpha q in a range of whole blocks; return r.r and r.q of the stored r.

A value whose absolute value is not below ``limit``, and so would become infinite in the format, makes r.r infinite.
"""
turn_blocks, turn_packed = _turn(_load_blocks, _store_blocks), _turn(_load_packed, _store_packed)
"""Do p = r + beta p in a range of whole blocks, and decode p; return r.p of the stored p, infinite as above."""
