"""Lines of two node ids and perhaps a number, checked before any parser sees them.

The well-kept parsers are fast but forgiving: they read ``2.5`` as the id 2, skip surplus fields and
may crash on control characters. So a kernel first proves that a block of lines is what it
should be; `fault` is its slow twin and says in words what is wrong with the line that it found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cpms.errors import InputError
from cpms.jit import compiled, numba
from cpms.readers.stream import Stream

_LF, _CR, _TAB, _SPACE, _COMMA, _POINT, _MINUS, _PLUS = b"\n\r\t ,.-+"
IGNORED = " (weights='ignore', --weights ignore, uses the pattern alone)"
"""What errors of weights add where a reader need not read them."""
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"-?\d+", re.ASCII)


@dataclass(frozen=True)
class LineForm:
    """What a line must look like: ``id id``, ``id id number``, or ``id id`` and perhaps a field that is not read.

    Parameters
    ----------
    valued : bool
        Whether a number follows the two ids.
    comma : bool
        Whether commas separate the fields, rather than blanks and tabs.
    low, high : int
        Smallest and largest id possible, below 2**59.
    labelled : bool
        Whether one field of any kind may follow the two ids instead.
    advice : str
        What an error adds where what follows them is no number.
    """

    valued: bool
    comma: bool
    low: int
    high: int
    labelled: bool = False
    advice: str = ""


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _skip_blanks(block, at):  # type: ignore[no-untyped-def]
    while block[at] == _SPACE or block[at] == _TAB:
        at += 1
    return at


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _skip_digits(block, at):  # type: ignore[no-untyped-def]
    while np.uint8(block[at] - 48) <= 9:
        at += 1
    return at


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _after_id(block, at, low, high):  # type: ignore[no-untyped-def]
    begin, value = at, np.int64(0)
    while np.uint8(block[at] - 48) <= 9 and value <= high:
        value = value * 10 + (block[at] - 48)
        at += 1
    return at if at > begin and low <= value <= high else -1


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _after_gap(block, at, comma):  # type: ignore[no-untyped-def]
    begin = at
    at = _skip_blanks(block, at)
    if not comma:
        return at if at > begin else -1
    return _skip_blanks(block, at + 1) if block[at] == _COMMA else -1


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _after_number(block, at):  # type: ignore[no-untyped-def]
    begin = at + 1 if block[at] == _MINUS or block[at] == _PLUS else at
    at = _skip_digits(block, begin)
    digits = at - begin
    if block[at] == _POINT:
        begin = at + 1
        at = _skip_digits(block, begin)
        digits += at - begin
    if digits == 0:
        return -1
    if block[at] | 32 == 101:
        begin = at + 2 if block[at + 1] == _MINUS or block[at + 1] == _PLUS else at + 1
        at = _skip_digits(block, begin)
        if at == begin:
            return -1
    return at


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _after_label(block, at, comma):  # type: ignore[no-untyped-def]
    after = _after_gap(block, at, comma)
    if after < 0:
        return at
    while block[after] not in (_LF, _CR, _COMMA) if comma else block[after] not in (_LF, _CR, _SPACE, _TAB):
        after += 1
    return after


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _after_line_end(block, at):  # type: ignore[no-untyped-def]
    at = _skip_blanks(block, at)
    if block[at] == _CR:
        at += 1
    return at + 1 if block[at] == _LF else -1


@compiled()
def _first_fault(block, valued, comma, low, high, labelled=False):  # type: ignore[no-untyped-def]
    """Return (entries, lines, offset) before the first bad line; the offset is -1 if none is bad."""
    entries, lines, line = 0, 0, 0
    while line < len(block):
        at = _after_line_end(block, line)
        if at < 0:
            at = _after_id(block, _skip_blanks(block, line), low, high)
            at = _after_gap(block, at, comma) if at >= 0 else -1
            at = _after_id(block, at, low, high) if at >= 0 else -1
            if valued:
                at = _after_gap(block, at, comma) if at >= 0 else -1
                at = _after_number(block, at) if at >= 0 else -1
            elif labelled:
                at = _after_label(block, at, comma) if at >= 0 else -1
            at = _after_line_end(block, at) if at >= 0 else -1
            if at < 0:
                return entries, lines, line
            entries += 1
        lines += 1
        line = at
    return entries, lines, -1


def fault(line: str, form: LineForm) -> str | None:
    """Say what is wrong with one line, None if nothing is.

    Examples
    --------
    >>> fault("1 x", LineForm(valued=False, comma=False, low=1, high=9))
    "'x' is not a node id; ids are integers from 1 to 9"
    """
    text = line.removesuffix("\n").removesuffix("\r").strip(" \t")
    if not text:
        return None
    found = [part.strip(" \t") for part in text.split(",")] if form.comma else re.split(r"[ \t]+", text)
    expected = 3 if form.valued else 2
    if len(found) != expected and not (form.labelled and len(found) == expected + 1):
        meaning = "source, target, weight" if form.valued else "source, target"
        return f"{len(found)} fields where {expected} belong ({meaning})"
    for node in found[:2]:
        if not _INTEGER.fullmatch(node):
            return f"{shown(node)} is not a node id; ids are integers from {form.low} to {form.high}"
        if node.startswith("-"):
            return f"node id {shown(node)} is negative; ids run from {form.low} to {form.high}"
        if len(node.lstrip("0")) > 18 or not form.low <= int(node) <= form.high:
            return f"node id {shown(node)} is out of range; ids run from {form.low} to {form.high}"
    if form.valued and not NUMBER.fullmatch(found[2]):
        return f"{shown(found[2])} is not a finite decimal number{form.advice}"
    return None


def shown(text: str) -> str:
    """Quote a piece of a file for a message: ASCII, at most 40 characters."""
    return ascii(text if len(text) <= 40 else text[:37] + "...")


@dataclass(frozen=True)
class Block:
    """A run of lines that keep to their form: its bytes, its entries and where it begins."""

    data: bytes
    entries: int
    first_line: int

    def line_of(self, entry: int) -> int:
        """Return the number of the line that holds an entry, counted from 0 in this block."""
        seen = -1
        for offset, line in enumerate(self.data.split(b"\n")):
            seen += bool(line.strip())
            if seen == entry:
                return self.first_line + offset
        raise IndexError(entry)


def checked_blocks(
    stream: Stream, form: LineForm, first_line: int, *, clean: Callable[[bytes], bytes] | None = None
) -> Iterator[Block]:
    """Yield the rest of ``stream`` in blocks that keep to ``form``, without empty ones.

    ``first_line`` is the number of the stream's next line; ``clean`` may blank out comments.

    Raises
    ------
    InputError
        At the first line that does not, with its number and what is wrong.
    """
    for data in stream.line_blocks():
        block = clean(data) if clean else data
        lines = np.frombuffer(block, np.uint8)
        entries, count, offset = _first_fault(lines, form.valued, form.comma, form.low, form.high, form.labelled)
        if offset >= 0:
            line = block[offset : block.index(b"\n", offset)].decode("latin-1")
            raise InputError(f"{stream.label}, line {first_line + count}: {fault(line, form)}")
        if entries:
            yield Block(block, entries, first_line)
        first_line += count


def check_weights(weights: npt.NDArray[np.float64], block: Block, label: str) -> None:
    """Raise `InputError`, with the line, unless every weight is positive and finite."""
    wrong = np.flatnonzero(~((weights > 0) & np.isfinite(weights)))
    if len(wrong):
        raise InputError(
            f"{label}, line {block.line_of(int(wrong[0]))}: weight {weights[wrong[0]]}; weights must be "
            f"positive and finite{IGNORED}"
        )
