"""Lines of two node ids and perhaps a number, among other fields or alone, checked before any parser sees them.

Parsers of libraries are fast but accept too much: they read ``2.5`` as the id 2, skip surplus fields and may crash on
control characters. So a compiled loop checks the form of each line of a block, and reads ids and short numbers in the
same pass. `fault` checks one line slowly, and its text says what is wrong with it. Blocks are read by all threads, and
yielded in their order, so that the number of threads changes neither a graph nor an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from threading import local
from typing import Any, NamedTuple

import numpy as np

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.text.counted import counted
from cpms.base.types import Floats
from cpms.graph.edge_arrays import Ints
from cpms.sources.readers.options import ReadOptions
from cpms.sources.readers.stream import Part, Stream

IGNORED = " (weights='ignore', --weights ignore, uses the pattern alone)"
"""What errors of weights add where a reader need not read them."""
NOT_A_WEIGHT = f"{IGNORED[:-1]}; columns=…, such as --columns 1,2 or 1,3, names source and target alone)"
"""What errors of edge lists add where a column that may hold weights holds words."""
_ZEROS_DROPPED = " (zero_weights='drop', --zero-weights drop, reads entries of weight 0 as no edges;"
LARGEST_64_BIT_ID = 2**63 - 1
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"-?\d+", re.ASCII)
_LEAST_BYTES = 4
"""Bytes of the shortest line with an edge, ``1 2`` and its end: arrays of so many entries cost no count of lines, which
would hold Python's lock."""
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


class Lines(NamedTuple):
    """What a pass over a block of lines found, up to the first that does not keep to its form.

    Ids count from the smallest possible, in 32 bits where they fit.
    """

    sources: Ints
    targets: Ints
    numbers: Floats | None
    """None where the lines have none, or some take a parser of any digits."""
    lines: int
    offset: int
    """Where the first line that does not keep to the form begins; -1: there is none."""
    largest: int
    """The largest id; -1 without edges."""


class Scratch(local):
    """Arrays of a thread that each of its blocks is read into: memory that is new to a process costs more than a read.

    Examples
    --------
    >>> scratch = Scratch()
    >>> scratch.ends(5)[0].shape, scratch.ends(3)[0].shape
    ((5,), (5,))
    """

    def __init__(self) -> None:
        self._ends: tuple[Ints, Ints] = np.empty(0, np.int64), np.empty(0, np.int64)
        self._numbers = np.empty(0)

    def ends(self, most: int) -> tuple[Ints, Ints]:
        """Return arrays of at least so many sources and targets."""
        if len(self._ends[0]) < most:
            self._ends = np.empty(most, np.int64), np.empty(most, np.int64)
        return self._ends

    def numbers(self, most: int) -> Floats:
        """Return an array of at least so many numbers."""
        if len(self._numbers) < most:
            self._numbers = np.empty(most)
        return self._numbers


def read_block(block: bytes, form: LineForm, scratch: Scratch | None = None) -> Lines:
    r"""Read lines up to the first that does not keep to ``form``.

    Examples
    --------
    >>> read_block(b"1 2\n3 x\n", LineForm(valued=False, low=1, high=9))
    Lines(sources=array([0], dtype=int32), targets=array([1], dtype=int32), numbers=None, lines=1, offset=4, largest=1)
    """
    from cpms.sources.readers import entry_loops as loops

    separator = loops.ANY_BLANKS if form.separator is None else ord(form.separator)
    columns: list[int] = []
    if form.columns:
        number = form.columns[2] if form.valued else -1
        columns = [*form.columns[:2], number, max(form.columns), form.fields or 0]
    scratch, most = scratch or Scratch(), len(block) // _LEAST_BYTES + 1
    sources, targets = scratch.ends(most)
    numbers = scratch.numbers(most if form.valued else 0)
    entries, lines, offset, inexact, largest = loops.read_lines(
        *(np.frombuffer(block, np.uint8), form.valued, separator, form.low, form.high, form.labelled),
        *(np.array(columns, np.int64), sources, targets, numbers),
    )
    index_type = np.int32 if largest < 2**31 else np.int64
    return Lines(
        sources[:entries].astype(index_type),
        targets[:entries].astype(index_type),
        numbers[:entries].copy() if form.valued and not inexact else None,
        *(lines, offset, largest),
    )


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
    for end, node in (("source", source), ("target", target)):
        if not node:
            return f"the {end} is missing; give both nodes of the edge, or remove the line"
        if not _INTEGER.fullmatch(node):
            return f"{quoted(node)} is not a node id; ids are integers from {form.low} to {form.high}"
        if node.startswith("-"):
            return f"node id {quoted(node)} is negative; ids run from {form.low} to {form.high}"
        if len(node.lstrip("0")) > 19 or not form.low <= int(node) <= form.high:
            advice = form.range_advice if len(node) <= 19 and int(node) <= LARGEST_64_BIT_ID else ""
            return f"node id {quoted(node)} is out of range; ids run from {form.low} to {form.high}{advice}"
    if form.valued and not NUMBER.fullmatch(value[0]):
        return f"{quoted(value[0])} is not a finite decimal number{form.advice}"
    if control := _CONTROL.search(line.removesuffix("\n").removesuffix("\r")):
        return f"control character {control.group()!a} in a text file"
    return None


def _misfit(found: list[str], form: LineForm) -> str | None:
    """Return that a line has another number of fields than its form, None if it has not."""
    fields = counted(len(found), "field")
    meaning = "source, target, weight" if form.valued else "source, target"
    if form.columns:
        needed = 1 + max(form.columns)
        columns = ", ".join(str(place + 1) for place in form.columns)
        if form.fields not in (None, len(found)):
            return f"{fields} where {form.fields} belong (columns {columns}: {meaning})"
        return None if len(found) >= needed else f"{fields} where {meaning} are columns {columns}"
    expected = 3 if form.valued else 2
    if len(found) == expected or (form.labelled and len(found) == expected + 1):
        return None
    return f"{fields} where {expected} belong ({meaning})"


def quoted(text: str) -> str:
    """Quote a piece of a file for a message: ASCII, at most 40 characters."""
    return ascii(text if len(text) <= 40 else text[:37] + "...")


@dataclass(frozen=True, eq=False)
class Block:
    """A run of lines that keep to their form: its bytes, where it begins, and the ends of its edges.

    Ids count from the smallest possible, in 32 bits where they fit, up to ``largest``. ``numbers`` are those that
    follow the ends; None where lines have none, or some take a parser of any digits. ``lines`` counts all its lines.
    """

    data: bytes
    first_line: int
    sources: Ints
    targets: Ints
    numbers: Floats | None = None
    lines: int = 0
    largest: int = -1
    positive: bool = False
    """Whether all numbers are known to be positive and finite."""

    @property
    def entries(self) -> int:
        """Number of lines that hold an edge."""
        return len(self.sources)

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
    clean_all: bool = True,
) -> Iterator[Block]:
    """Yield the rest of ``stream`` in blocks that keep to ``form``, without empty ones, read by all threads.

    ``first_line`` is the number of the stream's next line. ``clean`` may blank out comments of a block, of which it
    gets the first line's number; ``mend`` may rewrite the fields of a block that does not keep to the form. With
    ``clean_all=False`` no line that is to be blanked out keeps to the form, so that blocks which keep to it are not
    searched for such lines: a search holds Python's lock. Threads read, clean and check without the numbers of lines,
    which the blocks before decide; the first block with an error is checked once more, with its number.

    Raises
    ------
    InputError
        At the first line that does not, with its number and what is wrong.
    """
    scratch = Scratch()

    def checked(block: bytes, line: int) -> Block:
        block = clean(block, line) if clean and clean_all else block
        found = read_block(block, form, scratch)
        if found.offset >= 0 and clean and not clean_all:
            block = clean(block, line)
            found = read_block(block, form, scratch)
        if found.offset >= 0 and mend:
            block = mend(block)
            found = read_block(block, form, scratch)
        if found.offset >= 0:
            text = block[found.offset : block.index(b"\n", found.offset)].decode("latin-1")
            raise InputError(f"{stream.label}, line {line + found.lines}: {fault(text, form)}")
        return Block(block, line, *found[:4], found.largest, _all_positive(found.numbers))

    def read(part: Part) -> tuple[bytes, Block | None, int]:
        data = part()
        try:
            block = checked(data, 0)
        except InputError:
            return data, None, 0
        return b"", block, block.lines

    line = first_line
    for data, found, lines in threads.in_order(read, stream.line_parts()):
        block = checked(data, line) if found is None else replace(found, first_line=line)
        line += lines
        if block.entries:
            yield block


def declared_entries(
    stream: Stream,
    form: LineForm,
    options: ReadOptions,
    numbers: Callable[[Block], Floats],
    *,
    what: str,
    count: int,
    line: int,
    check: Callable[[Block], None] | None = None,
    **cleaning: Any,
) -> tuple[Ints, Ints, Floats | None]:
    """Return sources, targets and weights of the rest of a stream: ``count`` entries, as its ``line`` declares.

    ``numbers`` returns those of a block, of which some may take a parser of any digits; ``check`` gets each block after
    its weights were checked; errors call the entries ``what``; ``cleaning`` is that of `checked_blocks`.

    Raises
    ------
    InputError
        If there are more or fewer, or a weight is not positive and finite; with file and line.
    """
    index_type = np.int32 if form.high < 2**31 else np.int64
    sources, targets = np.empty(count, index_type), np.empty(count, index_type)
    weights = np.empty(count) if form.valued and options.weights == "auto" else None
    begin = 0
    for block in checked_blocks(stream, form, line + 1, **cleaning):
        end = begin + block.entries
        if end > count:
            where = f"{stream.label}, line {block.line_of(count - begin)}"
            raise InputError(f"{where}: more {what} than the {count:,} that line {line} declares")
        sources[begin:end], targets[begin:end] = block.sources, block.targets
        if weights is not None:
            found = numbers(block)
            check_weights(found, block, stream.label, zeros=options.zero_weights == "drop")
            weights[begin:end] = found
        if check:
            check(block)
        begin = end
    if begin < count:
        raise InputError(
            f"{stream.label}: the file ends after {begin:,} of the {count:,} {what} that line {line} declares"
        )
    return sources, targets, weights


def _all_positive(numbers: Floats | None) -> bool:
    """Return whether there are numbers, and all are positive and finite; NaN is not."""
    return numbers is not None and bool(numbers.min(initial=np.inf) > 0) and bool(numbers.max(initial=0) < np.inf)


def check_weights(weights: Floats, block: Block, label: str, *, zeros: bool = False) -> None:
    """Raise `InputError`, with the line, unless every weight is positive and finite, or 0 where ``zeros`` may be."""
    if block.positive and weights is block.numbers:
        return
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
