"""Lines of two node ids and perhaps a number, among other fields or alone, checked before any parser sees them.

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

from cpms.base.errors import InputError
from cpms.base.jit import compiled, numba
from cpms.sources.readers.stream import Stream

_LF, _CR, _TAB, _SPACE, _POINT, _MINUS, _PLUS = b"\n\r\t .-+"
_ANY_BLANKS = 0
IGNORED = " (weights='ignore', --weights ignore, uses the pattern alone)"
"""What errors of weights add where a reader need not read them."""
NOT_A_WEIGHT = f"{IGNORED[:-1]}; columns=…, --columns 1,2 or 1,3, names source and target)"
"""What errors of edge lists add where a column that may hold weights holds words."""
_ZEROS_DROPPED = " (zero_weights='drop', --zero-weights drop, reads entries of weight 0 as no edges;"
LARGEST_64_BIT_ID = 2**63 - 1
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"-?\d+", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f]")


@dataclass(frozen=True)
class LineForm:
    """What a line must look like: ``id id``, ``id id number``, or ``id id`` and perhaps a field that is not read.

    Parameters
    ----------
    valued : bool
        Whether a number follows the two ids.
    separator : str or None
        The character between fields; None stands for any run of blanks and tabs.
    low, high : int
        Smallest and largest id possible, below 2**63.
    labelled : bool
        Whether one field of any kind may follow the two ids instead.
    columns : tuple of int, optional
        Where the two ids, and the number if there is one, lie among fields that are not read; from 0.
    fields : int, optional
        With ``columns``, how many fields there are; None: at least those.
    advice : str
        What an error adds where what follows them is no number.
    range_advice : str
        What an error adds where an id is too large.
    """

    valued: bool
    low: int
    high: int
    separator: str | None = None
    labelled: bool = False
    columns: tuple[int, ...] | None = None
    fields: int | None = None
    advice: str = ""
    range_advice: str = ""

    @property
    def places(self) -> tuple[int, ...]:
        """Columns that are read, from 0."""
        return self.columns or tuple(range(2 + self.valued))


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _skip_blanks(block, at):  # type: ignore[no-untyped-def]
    while block[at] == _SPACE or block[at] == _TAB:
        at += 1
    return at


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _skip_padding(block, at, separator):  # type: ignore[no-untyped-def]
    """Skip blanks, and tabs unless these separate fields."""
    while block[at] == _SPACE or (block[at] == _TAB and separator != _TAB):
        at += 1
    return at


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _skip_digits(block, at):  # type: ignore[no-untyped-def]
    while np.uint8(block[at] - 48) <= 9:
        at += 1
    return at


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _after_id(block, at, low, high):  # type: ignore[no-untyped-def]
    # The bound keeps value within int64: beyond 2**63 it turns negative, which is below low.
    begin, value, bound = at, np.int64(0), high // 10
    while np.uint8(block[at] - 48) <= 9 and value <= bound:
        value = value * 10 + (block[at] - 48)
        at += 1
    return at if at > begin and low <= value <= high else -1


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _after_gap(block, at, separator):  # type: ignore[no-untyped-def]
    begin = at
    if separator == _ANY_BLANKS:
        at = _skip_blanks(block, at)
        return at if at > begin else -1
    at = _skip_padding(block, at, separator)
    return _skip_padding(block, at + 1, separator) if block[at] == separator else -1


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
def _after_field(block, at, separator):  # type: ignore[no-untyped-def]
    """Skip a field of any kind but control characters, which the parser might not survive."""
    while block[at] != separator and (block[at] > _SPACE or (block[at] == _SPACE and separator != _ANY_BLANKS)):
        at += 1
    return at


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _after_label(block, at, separator):  # type: ignore[no-untyped-def]
    after = _after_gap(block, at, separator)
    return at if after < 0 else _after_field(block, after, separator)


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _after_line_end(block, at):  # type: ignore[no-untyped-def]
    at = _skip_blanks(block, at)
    if block[at] == _CR:
        at += 1
    return at + 1 if block[at] == _LF else -1


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _after_columns(block, at, separator, low, high, columns):  # type: ignore[no-untyped-def]
    """Return where a line ends whose ids and number lie in some of its columns."""
    for place in range(columns[3] + 1):
        if place:
            at = _after_gap(block, at, separator)
            if at < 0:
                return -1
        if place in (columns[0], columns[1]):
            at = _after_id(block, at, low, high)
        elif place == columns[2]:
            at = _after_number(block, at)
        else:
            at = _after_field(block, at, separator)
        if at < 0:
            return -1
    if columns[4] == 0:
        while _after_line_end(block, at) < 0:
            at = _after_gap(block, at, separator)
            if at < 0:
                return -1
            at = _after_field(block, at, separator)
        return _after_line_end(block, at)
    for _ in range(columns[3] + 1, columns[4]):
        begin = _after_gap(block, at, separator)
        at = _after_field(block, begin, separator) if begin >= 0 else -1
        if at < 0 or (at == begin and separator == _ANY_BLANKS):
            return -1
    return _after_line_end(block, _skip_padding(block, at, separator)) if block[at] != separator else -1


@compiled()
def _first_fault(block, valued, separator, low, high, labelled, columns):  # type: ignore[no-untyped-def]
    """Return (entries, lines, offset) before the first bad line; the offset is -1 if none is bad.

    ``columns`` are those of source, target and number (-1: none), the last of them, and how many there are (0: any);
    none: the first ones.
    """
    entries, lines, line = 0, 0, 0
    while line < len(block):
        at = _after_line_end(block, line)
        if at < 0:
            at = _skip_padding(block, line, separator)
            if len(columns):
                at = _after_columns(block, at, separator, low, high, columns)
            else:
                at = _after_id(block, at, low, high)
                at = _after_gap(block, at, separator) if at >= 0 else -1
                at = _after_id(block, at, low, high) if at >= 0 else -1
                if valued:
                    at = _after_gap(block, at, separator) if at >= 0 else -1
                    at = _after_number(block, at) if at >= 0 else -1
                elif labelled:
                    at = _after_label(block, at, separator) if at >= 0 else -1
                at = _after_line_end(block, at) if at >= 0 else -1
            if at < 0:
                return entries, lines, line
            entries += 1
        lines += 1
        line = at
    return entries, lines, -1


def first_fault(block: npt.NDArray[np.uint8], form: LineForm) -> tuple[int, int, int]:
    r"""Return the entries and lines before the first that does not keep to ``form``, and its offset, -1 for none.

    Examples
    --------
    >>> first_fault(np.frombuffer(b"1 2\n3 x\n", np.uint8), LineForm(valued=False, low=1, high=9))
    (1, 1, 4)
    """
    separator = _ANY_BLANKS if form.separator is None else ord(form.separator)
    columns: list[int] = []
    if form.columns:
        number = form.columns[2] if form.valued else -1
        columns = [*form.columns[:2], number, max(form.columns), form.fields or 0]
    picked = np.array(columns, np.int64)
    entries, lines, offset = _first_fault(block, form.valued, separator, form.low, form.high, form.labelled, picked)
    return entries, lines, offset


def fault(line: str, form: LineForm) -> str | None:
    """Say what is wrong with one line, None if nothing is.

    Examples
    --------
    >>> fault("1 x", LineForm(valued=False, low=1, high=9))
    "'x' is not a node id; ids are integers from 1 to 9"
    """
    text = line.removesuffix("\n").removesuffix("\r")
    if not text.strip(" \t"):
        return None
    text = text.lstrip(" " if form.separator == "\t" else " \t")
    text = text.rstrip(" " if form.separator == "\t" and form.fields else " \t")
    found = re.split(r"[ \t]+", text) if form.separator is None else text.split(form.separator)
    found = [part.strip(" " if form.separator == "\t" else " \t") for part in found]
    if misfit := _misfit(found, form):
        return misfit
    source, target, *value = (found[place] for place in form.places)
    for node in (source, target):
        if not _INTEGER.fullmatch(node):
            return f"{shown(node)} is not a node id; ids are integers from {form.low} to {form.high}"
        if node.startswith("-"):
            return f"node id {shown(node)} is negative; ids run from {form.low} to {form.high}"
        if len(node.lstrip("0")) > 19 or not form.low <= int(node) <= form.high:
            advice = form.range_advice if len(node) <= 19 and int(node) <= LARGEST_64_BIT_ID else ""
            return f"node id {shown(node)} is out of range; ids run from {form.low} to {form.high}{advice}"
    if form.valued and not NUMBER.fullmatch(value[0]):
        return f"{shown(value[0])} is not a finite decimal number{form.advice}"
    if control := _CONTROL.search(line.removesuffix("\n").removesuffix("\r")):
        return f"control character {control.group()!a} in a text file"
    return None


def _misfit(found: list[str], form: LineForm) -> str | None:
    """Say that a line has other numbers of fields than its form, None if it has not."""
    meaning = "source, target, weight" if form.valued else "source, target"
    if form.columns:
        needed = 1 + max(form.columns)
        columns = ", ".join(str(place + 1) for place in form.columns)
        if form.fields not in (None, len(found)):
            return f"{len(found)} fields where {form.fields} belong (columns {columns}: {meaning})"
        return None if len(found) >= needed else f"{len(found)} fields where {meaning} are columns {columns}"
    expected = 3 if form.valued else 2
    if len(found) == expected or (form.labelled and len(found) == expected + 1):
        return None
    return f"{len(found)} fields where {expected} belong ({meaning})"


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
    stream: Stream,
    form: LineForm,
    first_line: int,
    *,
    clean: Callable[[bytes, int], bytes] | None = None,
    mend: Callable[[bytes], bytes] | None = None,
) -> Iterator[Block]:
    """Yield the rest of ``stream`` in blocks that keep to ``form``, without empty ones.

    ``first_line`` is the number of the stream's next line. ``clean`` may blank out comments of every block, of which it
    gets the first line's number; ``mend`` may rewrite the fields of a block that does not keep to the form.

    Raises
    ------
    InputError
        At the first line that does not, with its number and what is wrong.
    """
    for data in stream.line_blocks():
        block = clean(data, first_line) if clean else data
        entries, count, offset = first_fault(np.frombuffer(block, np.uint8), form)
        if offset >= 0 and mend:
            block = mend(block)
            entries, count, offset = first_fault(np.frombuffer(block, np.uint8), form)
        if offset >= 0:
            line = block[offset : block.index(b"\n", offset)].decode("latin-1")
            raise InputError(f"{stream.label}, line {first_line + count}: {fault(line, form)}")
        if entries:
            yield Block(block, entries, first_line)
        first_line += count


def check_weights(weights: npt.NDArray[np.float64], block: Block, label: str, *, zeros: bool = False) -> None:
    """Raise `InputError`, with the line, unless every weight is positive and finite, or 0 where ``zeros`` may be."""
    wrong = np.flatnonzero(~((weights >= 0 if zeros else weights > 0) & np.isfinite(weights)))
    if len(wrong):
        weight = weights[wrong[0]]
        raise InputError(f"{label}, line {block.line_of(int(wrong[0]))}: {wrong_weight(float(weight))}")


def wrong_weight(weight: float) -> str:
    """Say that a weight is not positive and finite, and which options read the file nevertheless.

    Examples
    --------
    >>> wrong_weight(-2.0)
    "weight -2.0; weights must be positive and finite (weights='ignore', --weights ignore, uses the pattern alone)"
    """
    advice = _ZEROS_DROPPED + IGNORED.replace("(", "") if weight == 0 else IGNORED
    return f"weight {weight}; weights must be positive and finite{advice}"
