"""What an edge list looks like: separator, columns, header line, numbers or names as ids."""

from __future__ import annotations

import csv
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cpms.errors import InputError
from cpms.readers.stream import Stream

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SAMPLE_LINES = 100
_CSV = re.compile(r"\.csv(\.gz)?$", re.IGNORECASE)
_COMMENT_MARKS = (b"#", b"%", b"//")
_COMMENT_LINE = re.compile(rb"^(?:#|%|//)[^\n]*", re.MULTILINE)
_INTEGER = re.compile(r"[-+]?\d+", re.ASCII)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|[-+]?inf", re.ASCII | re.IGNORECASE)
_QUOTED = re.compile(rb'(?:(?<=[,\t ])|^)"([^"\s,]*)"(?=[,\t \r]|$)', re.MULTILINE)
_SOURCE_WORDS = {"source", "sourceid", "src", "from", "fromid", "fromnode", "fromnodeid"}
_TARGET_WORDS = {"target", "targetid", "dst", "dest", "to", "toid", "tonode", "tonodeid"}


@dataclass(frozen=True)
class EdgeListForm:
    """How to read the lines of an edge list.

    Parameters
    ----------
    separator : str or None
        ``","``, a tab, or None for any run of blanks and tabs.
    valued : bool
        Whether a third column holds weights.
    numbered : bool
        Whether ids are integers.
    header_lines : int
        Lines before the first edge that must be skipped: up to the header line, if there is one.
    """

    separator: str | None
    valued: bool
    numbered: bool
    header_lines: int


def sniff(stream: Stream) -> EdgeListForm:
    """Find out the form of an edge list from its first lines.

    Raises
    ------
    InputError
        If there is no line but comments, semicolons separate the fields, or no line has two or three; or if a header
        says that the first two columns are not source and target.
    """
    skip_byte_order_mark(stream)
    lines = _sample(stream)
    if not lines:
        raise InputError(f"{stream.label}: the graph is empty; it needs at least one edge")
    separator = _separator(lines, stream.label)
    rows = [split(text, separator) for _, text in lines]
    has_header = _is_header(rows)
    if has_header:
        _check_order(rows[0], f"{stream.label}, line {lines[0][0]}")
    body = rows[1:] if has_header else rows
    return EdgeListForm(
        separator=separator,
        valued=not _most([len(row) < 3 for row in rows]),
        numbered=_most([_is_numbered(row) for row in body]),
        header_lines=lines[0][0] if has_header else 0,
    )


def split(text: str, separator: str | None) -> list[str]:
    """Split a line into fields without the blanks and quotes around them; between quotes commas do not separate."""
    fields = text.split(separator)
    if separator == "," and '"' in text:
        with suppress(csv.Error):
            fields = next(csv.reader([text], skipinitialspace=True))
    return [field.strip(' \t\r"') for field in fields]


def counted(row: list[str]) -> str:
    """Say how many fields a line has, for a message.

    Examples
    --------
    >>> counted(["0"]), counted(["0", "1", ""])
    ('1 fields', '3 fields, 1 of them empty,')
    """
    empty = sum(not field for field in row)
    return f"{len(row)} fields, {empty} of them empty," if empty else f"{len(row)} fields"


def without_comments(block: bytes) -> bytes:
    """Return whole lines with the comment lines among them emptied."""
    if block.startswith(_COMMENT_MARKS) or any(b"\n" + mark in block for mark in _COMMENT_MARKS):
        return _COMMENT_LINE.sub(b"", block)
    return block


def bare(block: bytes) -> bytes:
    """Return whole lines of numbers, with comment lines emptied and without the quotes around fields."""
    block = without_comments(block)
    return _QUOTED.sub(rb"\1", block) if b'"' in block else block


def skip_byte_order_mark(stream: Stream) -> None:
    """Move past the mark with which some spreadsheets begin a UTF-8 file."""
    inner: Any = stream.inner
    with stream.reporting():
        marked = inner.peek(3).startswith(_BYTE_ORDER_MARK)
    if marked:
        stream.read(3)


def _sample(stream: Stream) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    number = 0
    while len(lines) < _SAMPLE_LINES and (line := stream.readline()):
        number += 1
        text = without_comments(line).decode("utf-8", "replace").strip()
        if text:
            lines.append((number, text))
    return lines


def _separator(lines: list[tuple[int, str]], label: str) -> str | None:
    def fitting(separator: str | None) -> int:
        return sum(_fits(split(text, separator)) for _, text in lines)

    # max takes the first of equals: blanks inside the names of a .csv, or marks inside those of other lists, come last
    candidates: tuple[str | None, ...] = ("\t", ",", None, ";") if _CSV.search(label) else ("\t", None, ",", ";")
    best = max(candidates, key=fitting)
    if fitting(best) == 0:
        number, text = lines[0]
        if "\r" in text:
            raise InputError(f"{label}, line {number}: carriage returns end its lines; put line feeds in their place")
        row = max((split(text, separator) for separator in candidates), key=len)
        raise InputError(
            f"{label}, line {number}: {counted(row)} where 2 or 3 belong (source, target, perhaps weight); "
            "keep these columns alone, with blanks, tabs or commas between them"
        )
    if best == ";":
        raise InputError(f"{label}: semicolons separate its fields; put commas or tabs in their place")
    return best


def _fits(row: list[str]) -> bool:
    return len(row) in (2, 3) and all(field and not {field[0], field[-1]} & {",", ";"} for field in row)


def _is_numbered(row: list[str]) -> bool:
    return len(row) >= 2 and all(_INTEGER.fullmatch(field) for field in row[:2])


def _is_header(rows: list[list[str]]) -> bool:
    first, rest = rows[0], rows[1:]
    if any(_NUMBER.fullmatch(field) for field in first):
        return False
    if _most([_is_numbered(row) for row in rest]):
        return True
    if len(first) == 3 and _most([len(row) == 3 and bool(_NUMBER.fullmatch(row[2])) for row in rest]):
        return True
    return _place_of(_SOURCE_WORDS, first) is not None and _place_of(_TARGET_WORDS, first) is not None


def _place_of(words: set[str], header: list[str]) -> int | None:
    """Return the column whose title is one of these words."""
    found = [place for place, title in enumerate(header) if re.sub("[ _-]", "", title.lower()) in words]
    return found[0] if found else None


def _check_order(header: list[str], where: str) -> None:
    """Refuse a header that names source and target in other columns than the first two, or not the first column."""
    source, target = _place_of(_SOURCE_WORDS, header), _place_of(_TARGET_WORDS, header)
    if (source not in (None, 0)) or (target not in (None, 1)) or not header[0]:
        titles = ", ".join(ascii(title) for title in header)
        raise InputError(
            f"{where}: its header has the columns {titles}; source and target, then perhaps a weight, must come first, "
            "and no others (pandas: frame.to_csv(path, columns=['source', 'target'], index=False))"
        )


def _most(votes: list[bool]) -> bool:
    return 2 * sum(votes) >= len(votes) > 0
