"""Lines of an edge list: their fields between delimiters and quotes, and the marks of comment lines."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

from cpms.sources.readers.entries import NUMBER, quoted

MARKS = ("#", "%", "//")
"""Comment marks where ``comments`` is auto."""
_NOT_A_WORD = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|[-+]?inf", re.ASCII | re.IGNORECASE)
_TOKEN = re.compile(r'"(?:[^"]|"")*"(?=[ \t]|$)|[^ \t]+')


class OpenQuoteError(Exception):
    """A field begins with a quote, and its line ends before another closes it."""


def marks_of(comments: str) -> tuple[str, ...]:
    """Return the comment marks that an option ``comments`` stands for.

    Examples
    --------
    >>> marks_of("auto"), marks_of("none"), marks_of("c")
    (('#', '%', '//'), (), ('c',))
    """
    return {"auto": MARKS, "none": ()}.get(comments, (comments,))


def is_decimal(text: str) -> bool:
    """Return whether a field is a finite decimal number.

    Examples
    --------
    >>> is_decimal("1.0"), is_decimal("nan"), is_decimal("1a")
    (True, False, False)
    """
    return bool(NUMBER.fullmatch(text))


def is_word(text: str) -> bool:
    """Return whether a field is no number of any kind, so that it may be a title."""
    return not _NOT_A_WORD.fullmatch(text)


def fields_of(line: str, separator: str | None) -> list[str]:
    r"""Split a line into fields without the blanks and quotes around them.

    Blanks and tabs alone separate where ``separator`` is None, no other white space does. A field between quotes is
    what lies between them, where two quotes stand for one; other quotes are part of a name.

    Raises
    ------
    OpenQuoteError
        If a field begins with a quote that nothing closes.

    Examples
    --------
    >>> fields_of('"New York"\tRio\u00a0Grande', None)
    ['New York', 'Rio\xa0Grande']
    """
    if '"' in line:
        return _quoted_fields(line, separator)
    if separator is None:
        return [part for part in line.replace("\t", " ").split(" ") if part]
    padding = " " if separator == "\t" else " \t"
    return [part.strip(padding) for part in line.split(separator)]


def sampled_fields(line: str, separator: str | None) -> list[str]:
    """Split a line as `fields_of` does, also where a quote is open."""
    with suppress(OpenQuoteError, csv.Error):
        return fields_of(line, separator)
    return fields_of(line.replace('"', ""), separator)


def rows_of(lines: list[str], separator: str | None) -> Iterator[list[str]]:
    """Yield the fields of each line as `fields_of` returns them; `OpenQuoteError` or `csv.Error` at an open quote."""
    if separator == ",":
        padded = any(" " in line or "\t" in line for line in lines)
        reader = csv.reader(lines, skipinitialspace=True, strict=True)
        for number, row in enumerate(reader, 1):
            if reader.line_num != number:
                raise OpenQuoteError("a quoted field runs past the end of its line")
            yield [part.strip(" \t") for part in row] if padded else row
        return
    for line in lines:
        yield fields_of(line, separator)


def _quoted_fields(line: str, separator: str | None) -> list[str]:
    if separator == ",":
        return [part.strip(" \t") for part in next(csv.reader([line], skipinitialspace=True, strict=True))]
    if separator is None:
        parts = _TOKEN.findall(line)
    else:
        padding = " " if separator == "\t" else " \t"
        parts = [part.strip(padding) for part in _fields_between(separator).findall(separator + line)]
    return [_unquoted(part).strip(" \t") for part in parts]


@cache
def _fields_between(separator: str) -> re.Pattern[str]:
    """Return what finds the fields after each separator; none is seen between quotes around a whole field."""
    mark, padding = re.escape(separator), "[ ]*" if separator == "\t" else "[ \t]*"
    return re.compile(f'{mark}({padding}"(?:[^"]|"")*"{padding}(?={mark}|$)|[^{mark}]*)')


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    if len(text) > 1 and text.endswith('"') and '"' not in text[1:-1].replace('""', ""):
        return text[1:-1].replace('""', '"')
    if text.count('"') % 2:
        raise OpenQuoteError(f"nothing closes the quote of {quoted(text)}")
    return text
