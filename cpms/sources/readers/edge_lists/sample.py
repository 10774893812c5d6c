"""The first lines of an edge list, from which its form is detected."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cpms.base.errors import InputError
from cpms.sources.readers.stream import BYTE_ORDER_MARK, Stream

_SAMPLE_LINES = 100
_OTHER_KINDS = {
    "version https://git-lfs": "is a pointer of Git LFS, not the file itself; fetch that with 'git lfs pull'",
    "%%matrixmarket": "is a Matrix Market file; let its name end in .mtx",
    "<!doctype": "is HTML, perhaps a page of a web site in place of the download; fetch the file again",
    "<html": "is HTML, perhaps a page of a web site in place of the download; fetch the file again",
    "<?xml": "is XML, not an edge list; write one edge a line",
    "*vertices": "is a Pajek file, not an edge list; write one edge a line",
    "graph [": "is a GML file, not an edge list; write one edge a line",
    "digraph ": "is a Graphviz file, not an edge list; write one edge a line",
}


_OTHER_BYTES = {
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
    b"\x1f\x8b": "gzipped; let its name end in .gz",
    b"PK\x03\x04": "a zip archive (or a spreadsheet); unpack it, or save it as .csv",
}
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
"""Characters that no text file has."""


@dataclass
class Sample:
    """The first lines of a file that are neither blank nor comments, and the comment lines among them.

    Parameters
    ----------
    lines : list of (int, str)
        Numbers and texts of up to a hundred lines.
    first_bytes : bytes
        The first of them as it stands in the file, without its end.
    marked : list of (int, str)
        Numbers of the lines that begin with a comment mark, and the texts of the first hundred.
    """

    lines: list[tuple[int, str]] = field(default_factory=list)
    first_bytes: bytes = b""
    marked: list[tuple[int, str]] = field(default_factory=list)

    def marked_before(self, line: int) -> int:
        """Return how many comment lines are above a line."""
        return sum(number < line for number, _ in self.marked)


def sample_of(stream: Stream, marks: tuple[str, ...]) -> Sample:
    """Read the first lines of a stream, past a byte order mark.

    Raises
    ------
    InputError
        If they are those of a file of another kind.
    """
    stream.skip_byte_order_mark()
    sample = Sample()
    number = 0
    while len(sample.lines) < _SAMPLE_LINES and (line := stream.readline()):
        number += 1
        line = line.removeprefix(BYTE_ORDER_MARK)  # Of a file that was joined to another.
        if number == 1:
            _refuse_other_bytes(line, stream.label)
        text = line.decode("utf-8", "replace").strip(" \r\n")
        if not text.strip("\t "):
            continue
        if not sample.lines and len(sample.marked) < 1:
            _refuse_other_kinds(text, f"{stream.label}, line {number}")
        if "\r" in text:
            raise InputError(
                f"{stream.label}, line {number}: carriage returns end its lines; put line feeds in their place"
            )
        if bad := CONTROL.search(text):
            raise InputError(f"{stream.label}, line {number}: control character {bad.group()!a} in a text file")
        if text.lstrip("\t ").startswith(marks):
            sample.marked.append((number, text if len(sample.marked) < _SAMPLE_LINES else ""))
            continue
        sample.first_bytes = sample.first_bytes or line.strip(b" \r\n")
        sample.lines.append((number, text))
    return sample


def _refuse_other_bytes(line: bytes, label: str) -> None:
    for beginning, kind in _OTHER_BYTES.items():
        if line.startswith(beginning):
            raise InputError(f"{label}: the file is {kind}")


def _refuse_other_kinds(text: str, where: str) -> None:
    for beginning, description in _OTHER_KINDS.items():
        if text.lower().startswith(beginning):
            raise InputError(f"{where}: this {description}")
