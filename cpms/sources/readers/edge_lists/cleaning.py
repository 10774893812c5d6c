"""Lines below the first edge that are no edges: comments, and headers that joined files repeat."""

from __future__ import annotations

import re
from dataclasses import replace
from threading import Lock

from cpms.base.errors import InputError
from cpms.graph.read_record import ReadRecord
from cpms.sources.readers.edge_lists.form import EdgeListForm, doubtful_comment
from cpms.sources.readers.edge_lists.header import known_titles
from cpms.sources.readers.stream import BYTE_ORDER_MARK

_MARKED_LINE = re.compile(b"\n" + BYTE_ORDER_MARK)
_QUOTED = re.compile(rb'(?:(?<=[,;\t ])|^)"([^"\s,;]*)"(?=[,;\t \r]|$)', re.MULTILINE)
_QUOTED_FIELD = re.compile(rb'(?:(?<=[,;\t |])|^)"(?:[^"\n]|"")*"', re.MULTILINE)
_WHOLE_WITH_EXPONENT = re.compile(rb"(?:(?<=[\s,;|])|^)(\d)(?:\.(\d*))?[eE]\+?(\d{1,2})(?=[\s,;|])", re.MULTILINE)
_WHOLE = re.compile(rb"(?:(?<=[\s,;|])|^)(\d+)\.0*(?=[\s,;|])", re.MULTILINE)


class Cleaner:
    r"""Empties lines that are no edges, and counts them; lines stay where they are.

    Parameters
    ----------
    form : EdgeListForm
    label : str
        What errors call the file.
    trusting : bool
        Whether every line that begins with a comment mark is a comment; else one that looks like an edge is refused.

    Examples
    --------
    >>> cleaner = Cleaner(EdgeListForm(",", (0, 1), True, header=("s", "t"), header_line=b"s,t", marks=("#",)), "g.csv")
    >>> cleaner(b"1,2\n# c\ns,t\n3,4\n", 1), cleaner.comment_lines, cleaner.repeated_headers
    (b'1,2\n\n\n3,4\n', 1, 1)
    """

    def __init__(self, form: EdgeListForm, label: str, *, trusting: bool = False) -> None:
        self.comment_lines = 0
        self.repeated_headers = 0
        self._form, self._label, self._lock = form, label, Lock()
        self._trusting = trusting or form.numbered
        self._marks = [mark.encode() for mark in form.marks]
        marks = b"|".join(map(re.escape, self._marks))
        self._comment = re.compile(rb"\n[ \t]*(" + marks + rb")[^\n]*")
        # Joined files may spell known titles in other cases; names of nodes may differ in case alone.
        titles_read = [title for place, title in enumerate(form.header or ()) if place in form.columns[:2]]
        self._any_case = len(titles_read) == 2 and known_titles(titles_read)
        self._titles = _spellings(form, lower=self._any_case)
        titles = b"|".join(map(re.escape, self._titles))
        self._header = re.compile(
            rb"\n[ \t]*(?:" + titles + rb")[ \t\r]*(?=\n)", re.IGNORECASE if self._any_case else re.NOFLAG
        )

    def __call__(self, block: bytes, first_line: int) -> bytes:
        """Return whole lines, the first of them line ``first_line``, without those that are no edges."""
        if BYTE_ORDER_MARK in block:
            block = _MARKED_LINE.sub(b"\n", b"\n" + block)[1:]
        if self._titles and self._repeats_titles(block):
            block, count = self._header.subn(b"\n", b"\n" + block)
            block = block[1:]
            with self._lock:
                self.repeated_headers += count
        if any(mark in block for mark in self._marks):
            block = self._without_comments(b"\n" + block, first_line)[1:]
        return block

    @property
    def may_blank_edges(self) -> bool:
        """Whether a mark of comments or the titles begin as an edge between numbers may: with a digit."""
        return any(each.lstrip()[:1].isdigit() for each in (*self._marks, *self._titles))

    def record(self, record: ReadRecord) -> ReadRecord:
        """Return a record with the lines that have been emptied so far."""
        return replace(record, skipped_lines=self.comment_lines, repeated_headers=self.repeated_headers)

    def _repeats_titles(self, block: bytes) -> bool:
        searched = block.lower() if self._any_case else block
        return any(titles in searched for titles in self._titles)

    def _without_comments(self, block: bytes, first_line: int) -> bytes:
        if not self._trusting:
            for found in self._comment.finditer(block):
                text = found.group().decode("utf-8", "replace").strip("\r\n")
                if self._form.looks_like_edge(text):
                    line = first_line + block.count(b"\n", 0, found.start())
                    raise InputError(f"{self._label}, line {line}: {doubtful_comment(text, found[1].decode())}")
        block, count = self._comment.subn(b"\n", block)
        with self._lock:
            self.comment_lines += count
        return block


def _spellings(form: EdgeListForm, *, lower: bool) -> list[bytes]:
    """Return the line of titles as it is, without quotes and with quotes."""
    if not form.header_line:
        return []
    found = [form.header_line]
    for separator in (" ", "\t") if form.separator is None else (form.separator,):
        for quote in ("", '"'):
            found.append(separator.join(f"{quote}{title}{quote}" for title in form.header or ()).encode())
    return list(dict.fromkeys(each.lower() if lower else each for each in found))


def without_quotes(block: bytes, form: EdgeListForm) -> bytes:
    """Return lines of numbers without the quotes around fields, and without delimiters between quotes."""
    if b'"' not in block:
        return block
    block = _QUOTED.sub(rb"\1", block)
    if form.chosen and b'"' in block:
        separators = re.compile(b"[ \t]" if form.separator is None else re.escape(form.separator.encode()))
        return _QUOTED_FIELD.sub(lambda found: separators.sub(b"_", found.group()), block)
    return block


def with_whole_ids(block: bytes) -> bytes:
    r"""Return lines whose fields such as ``1.0`` and ``1.20e+01`` are written as integers.

    A field with an exponent is left as it is where digits of the integer are missing, as in ``1.23e+05``: they may have
    been lost.

    Examples
    --------
    >>> with_whole_ids(b"1.0,2\n3,4.5\n1.20e+01,1.23e+05\n")
    b'1,2\n3,4.5\n12,1.23e+05\n'
    """
    if b"e" in block or b"E" in block:
        block = _WHOLE_WITH_EXPONENT.sub(_without_exponent, block)
    return _WHOLE.sub(rb"\1", block)


def _without_exponent(found: re.Match[bytes]) -> bytes:
    first, decimals, exponent = found[1], found[2] or b"", int(found[3])
    if len(decimals) < exponent or decimals[exponent:].strip(b"0"):
        return found.group()
    return (first + decimals[:exponent]).lstrip(b"0") or b"0"
