"""Compiled loop over lines of two node ids and perhaps a number: it checks them, and reads them in the same pass.

A decimal number whose digits form an integer m of at most 2^53, times a power of ten of at most 22, is read as m times
or divided by that power, both exact in float64, so that one rounding gives the nearest float64 (W. D. Clinger, "How to
read floating point numbers accurately", PLDI 1990). Other numbers are left to a parser of any digits. The loop runs
without the interpreter lock, at about one pass over the bytes.
"""

from __future__ import annotations

import numpy as np

from cpms.base.jit import compiled, numba

_LF, _CR, _TAB, _SPACE, _POINT, _MINUS, _PLUS = b"\n\r\t .-+"
ANY_BLANKS = 0
"""Separator of fields between which there is any run of blanks and tabs."""
_POWERS = 10.0 ** np.arange(23)
_MOST_EXACT, _MOST_DIGITS, _MOST_EXPONENT = 2**53, 10**17, 10**6


@numba.njit  # type: ignore[untyped-decorator, unused-ignore]
def _skip_blanks(block, at):  # type: ignore[no-untyped-def]
    while block[at] == _SPACE or block[at] == _TAB:
        at += 1
    return at


@numba.njit  # type: ignore[untyped-decorator, unused-ignore]
def _skip_padding(block, at, separator):  # type: ignore[no-untyped-def]
    """Skip blanks, and tabs unless these separate fields."""
    while block[at] == _SPACE or (block[at] == _TAB and separator != _TAB):
        at += 1
    return at


@numba.njit  # type: ignore[untyped-decorator, unused-ignore]
def _after_id(block, at, low, high):  # type: ignore[no-untyped-def]
    # The bound keeps value within int64: beyond 2**63 it turns negative, which is below low.
    begin, value, bound = at, np.int64(0), high // 10
    while np.uint8(block[at] - 48) <= 9 and value <= bound:
        value = value * 10 + (block[at] - 48)
        at += 1
    return (at if at > begin and low <= value <= high else -1), value


@numba.njit  # type: ignore[untyped-decorator, unused-ignore]
def _after_gap(block, at, separator):  # type: ignore[no-untyped-def]
    begin = at
    if separator == ANY_BLANKS:
        at = _skip_blanks(block, at)
        return at if at > begin else -1
    at = _skip_padding(block, at, separator)
    return _skip_padding(block, at + 1, separator) if block[at] == separator else -1


@numba.njit  # type: ignore[untyped-decorator, unused-ignore]
def _with_digits(block, at, value):  # type: ignore[no-untyped-def]
    """Append digits to a value; one of too many digits stays above all that are exact."""
    while np.uint8(block[at] - 48) <= 9:
        if value < _MOST_DIGITS:
            value = value * 10 + (block[at] - 48)
        at += 1
    return at, value


@numba.njit  # type: ignore[untyped-decorator, unused-ignore]
def _after_number(block, at):  # type: ignore[no-untyped-def]
    """Return where a number ends, -1 if it is none, and its value, NaN where it takes a parser of any digits."""
    is_negative = block[at] == _MINUS
    begin = at + 1 if is_negative or block[at] == _PLUS else at
    at, value = _with_digits(block, begin, np.int64(0))
    digits, scale = at - begin, np.int64(0)
    if block[at] == _POINT:
        begin = at + 1
        at, value = _with_digits(block, begin, value)
        scale = begin - at
        digits += at - begin
    if digits == 0:
        return -1, 0.0
    if block[at] | 32 == 101:
        is_small = block[at + 1] == _MINUS
        begin = at + 2 if is_small or block[at + 1] == _PLUS else at + 1
        at, exponent = _with_digits(block, begin, np.int64(0))
        if at == begin:
            return -1, 0.0
        exponent = min(exponent, _MOST_EXPONENT)
        scale += -exponent if is_small else exponent
    if value > _MOST_EXACT or (value > 0 and abs(scale) >= len(_POWERS)):
        return at, np.nan
    number = np.float64(value)
    if value > 0:
        number = number * _POWERS[scale] if scale >= 0 else number / _POWERS[-scale]
    return at, -number if is_negative else number


@numba.njit  # type: ignore[untyped-decorator, unused-ignore]
def _after_field(block, at, separator):  # type: ignore[no-untyped-def]
    """Skip a field of any kind but control characters, which the parser might not survive."""
    while block[at] != separator and (block[at] > _SPACE or (block[at] == _SPACE and separator != ANY_BLANKS)):
        at += 1
    return at


@numba.njit  # type: ignore[untyped-decorator, unused-ignore]
def _after_label(block, at, separator):  # type: ignore[no-untyped-def]
    after = _after_gap(block, at, separator)
    return at if after < 0 else _after_field(block, after, separator)


@numba.njit  # type: ignore[untyped-decorator, unused-ignore]
def _after_line_end(block, at):  # type: ignore[no-untyped-def]
    at = _skip_blanks(block, at)
    if block[at] == _CR:
        at += 1
    return at + 1 if block[at] == _LF else -1


@numba.njit  # type: ignore[untyped-decorator, unused-ignore]
def _after_columns(block, at, separator, low, high, columns):  # type: ignore[no-untyped-def]
    """Return where a line ends whose ids and number lie in some of its columns, and these."""
    source, target, number = np.int64(0), np.int64(0), 0.0
    for place in range(columns[3] + 1):
        if place:
            at = _after_gap(block, at, separator)
            if at < 0:
                return -1, source, target, number
        if place == columns[0]:
            at, source = _after_id(block, at, low, high)
        elif place == columns[1]:
            at, target = _after_id(block, at, low, high)
        elif place == columns[2]:
            at, number = _after_number(block, at)
        else:
            at = _after_field(block, at, separator)
        if at < 0:
            return -1, source, target, number
    if columns[4] == 0:
        while _after_line_end(block, at) < 0:
            at = _after_gap(block, at, separator)
            if at < 0:
                return -1, source, target, number
            at = _after_field(block, at, separator)
        return _after_line_end(block, at), source, target, number
    for _ in range(columns[3] + 1, columns[4]):
        begin = _after_gap(block, at, separator)
        at = _after_field(block, begin, separator) if begin >= 0 else -1
        if at < 0 or (at == begin and separator == ANY_BLANKS):
            return -1, source, target, number
    end = _after_line_end(block, _skip_padding(block, at, separator)) if block[at] != separator else -1
    return end, source, target, number


@compiled()
def read_lines(block, valued, separator, low, high, labelled, columns, sources, targets, numbers):  # type: ignore[no-untyped-def]
    """Return (entries, lines, offset, inexact, largest) before the first bad line; the offset is -1 if none is bad.

    ``columns`` are those of source, target and number (-1: none), the last of them, and how many there are (0: any);
    none: the first ones. The entries are written to ``sources`` and ``targets``, counted from ``low``, and, if there
    are any, ``numbers``; ``inexact`` of the numbers are NaN, which takes a parser of any digits. ``largest`` is the
    largest id that is written, -1 without any.
    """
    entries, lines, line, inexact = 0, 0, 0, 0
    source, target, number, largest = np.int64(0), np.int64(0), 0.0, np.int64(-1)
    while line < len(block):
        at = _after_line_end(block, line)
        if at < 0:
            at = _skip_padding(block, line, separator)
            if len(columns):
                at, source, target, number = _after_columns(block, at, separator, low, high, columns)
            else:
                at, source = _after_id(block, at, low, high)
                at = _after_gap(block, at, separator) if at >= 0 else -1
                if at >= 0:
                    at, target = _after_id(block, at, low, high)
                if valued:
                    at = _after_gap(block, at, separator) if at >= 0 else -1
                    if at >= 0:
                        at, number = _after_number(block, at)
                elif labelled:
                    at = _after_label(block, at, separator) if at >= 0 else -1
                at = _after_line_end(block, at) if at >= 0 else -1
            if at < 0:
                return entries, lines, line, inexact, largest
            source, target = source - low, target - low
            sources[entries] = source
            targets[entries] = target
            largest = max(largest, source, target)
            if valued:
                numbers[entries] = number
                inexact += number != number
            entries += 1
        lines += 1
        line = at
    return entries, lines, -1, inexact, largest
