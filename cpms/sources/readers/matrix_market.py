"""Matrix Market coordinate files, ``.mtx``: entry (i, j) is the edge i -> j.

Format: R. F. Boisvert, R. Pozo, K. A. Remington, "The Matrix Market Exchange Formats: Initial Design", NISTIR 5935,
1996.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from cpms.base.errors import InputError
from cpms.base.host_memory import graph_bytes, require_memory
from cpms.base.types import Floats
from cpms.graph.edge_list import EdgeList
from cpms.graph.read_record import ReadRecord
from cpms.sources.readers.assemble import assemble
from cpms.sources.readers.entries import Block, LineForm, declared_entries, quoted
from cpms.sources.readers.options import ReadOptions
from cpms.sources.readers.stream import Stream

_BANNER = (
    "%%matrixmarket",
    "matrix",
    "coordinate",
    ("pattern", "integer", "unsigned-integer", "real"),
    ("general", "symmetric"),
)
_COMMENT = re.compile(rb"\n[ \t]*%[^\n]*")
_DOS_END = re.compile(rb"\x1a(\s*)\Z")
_D_EXPONENT = re.compile(rb"([\d.])[dD](?=[-+]?\d)")
_SIZES = re.compile(rb"\s*(\d{1,17})\s+(\d{1,17})\s+(\d{1,17})\s*", re.ASCII)


@dataclass(frozen=True)
class _Header:
    valued: bool
    symmetric: bool
    nodes: int
    entries: int
    lines: int
    comment_lines: int


class _Comments:
    """Empties the comment lines among the entries and a mark of DOS at the end, and counts the comment lines."""

    def __init__(self) -> None:
        self.count, self._lock = 0, Lock()

    def __call__(self, block: bytes, _: int) -> bytes:
        if b"\x1a" in block:
            block = _DOS_END.sub(rb"\1", block)
        if b"%" in block:
            block, count = _COMMENT.subn(b"\n", b"\n" + block)
            block = block[1:]
            with self._lock:
                self.count += count
        return block


def read_stream(stream: Stream, name: str, options: ReadOptions) -> EdgeList:
    """Read a Matrix Market file, whose ids count from 1; there are weights where it has values.

    Raises
    ------
    InputError
        If the file is no square sparse matrix of positive numbers, is truncated or corrupt, holds more or fewer entries
        than it declares, or would not fit in memory.
    """
    header = _read_header(stream)
    count = header.entries * (2 if header.symmetric and options.symmetric == "expand" else 1)
    nodes = header.nodes if options.ids == "keep" else 0
    needed_bytes = graph_bytes(nodes, count, weighted=header.valued)
    require_memory(needed_bytes, f"{stream.label}: {header.nodes:,} nodes and {header.entries:,} entries")
    comments = _Comments()
    rows, columns, values = declared_entries(
        *(stream, LineForm(valued=header.valued, low=1, high=header.nodes), options),
        lambda block: _parse(block, header, stream.label) if block.numbers is None else block.numbers,
        what="entries",
        count=header.entries,
        line=header.lines,
        check=(lambda block: _check_lower(block, stream.label)) if header.symmetric else None,
        clean=comments,
        mend=_with_e_exponents,
        clean_all=False,
    )
    record = ReadRecord(
        form=f"Matrix Market, {'symmetric' if header.symmetric else 'general'}",
        comment_lines=header.comment_lines,
        skipped_lines=comments.count,
        weights=None if values is None else "the values of the entries",
        symmetric="lower" if header.symmetric else None,
    )
    edges = assemble(
        rows,
        columns,
        values,
        options,
        nodes=header.nodes,
        name=name,
        label=stream.label,
        first_id=1,
        record=record,
        both_ways=header.symmetric and options.symmetric == "expand",
    )
    return replace(edges, lower_triangle=header.symmetric and options.symmetric == "lower")


def _read_header(stream: Stream) -> _Header:
    valued, symmetric = _read_banner(stream)
    lines, comment_lines = 1, 0
    while True:
        line = stream.readline()
        lines += 1
        if not line:
            raise InputError(f"{stream.label}: the file ends at line {lines - 1}, before its line of sizes")
        if not line.strip():
            continue
        if not line.lstrip().startswith(b"%"):
            break
        comment_lines += 1
    where = f"{stream.label}, line {lines}"
    sizes = _SIZES.fullmatch(line)
    if not sizes:
        given = quoted(line.decode("latin-1").strip())
        raise InputError(f"{where}: {given} where 'rows columns entries' belong, three whole numbers")
    rows, columns, entries = map(int, sizes.groups())
    if rows != columns:
        raise InputError(f"{where}: the matrix is {rows} x {columns}; a graph needs a square one")
    if rows == 0:
        raise InputError(f"{where}: the graph is empty; it needs at least one node")
    return _Header(valued, symmetric, rows, entries, lines, comment_lines)


def _read_banner(stream: Stream) -> tuple[bool, bool]:
    stream.skip_byte_order_mark()
    banner = stream.readline().decode("latin-1")
    found = banner.lower().split()[: len(_BANNER)]  # Further words say nothing of the matrix.
    where = f"{stream.label}, line 1"
    if len(found) < len(_BANNER) or found[0] != _BANNER[0]:
        raise InputError(
            f"{where}: {quoted(banner.strip())} is not the banner of a Matrix Market file, such as "
            "'%%MatrixMarket matrix coordinate pattern general'"
        )
    for given, possible in zip(found[1:], _BANNER[1:], strict=True):
        known = (possible,) if isinstance(possible, str) else possible
        if given not in known:
            raise InputError(
                f"{where}: the matrix is declared {quoted(given)}; only {' or '.join(map(repr, known))} can be read"
            )
    return found[3] != "pattern", found[4] == "symmetric"


def _with_e_exponents(block: bytes) -> bytes:
    """Return lines whose numbers have exponents as in C, not as in Fortran (``1.5D0``)."""
    return _D_EXPONENT.sub(rb"\1e", block)


def _parse(block: Block, header: _Header, label: str) -> Floats:
    """Return the values of checked lines by SciPy's parser, which takes no plus signs, given a header of their own."""
    import scipy.io

    sizes = b"%d %d %d\n" % (header.nodes, header.nodes, block.entries)
    data = block.data.replace(b" +", b" ").replace(b"\t+", b"\t") if b"+" in block.data else block.data
    text = b"%%MatrixMarket matrix coordinate real general\n" + sizes + data
    try:
        matrix: Any = scipy.io.mmread(io.BytesIO(text), spmatrix=False)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{label}, at or after line {block.first_line}: {error}") from error
    values: Floats = matrix.data
    return values


def _check_lower(block: Block, label: str) -> None:
    upper = np.flatnonzero(block.sources < block.targets)
    if len(upper):
        row, column = block.sources[upper[0]] + 1, block.targets[upper[0]] + 1
        raise InputError(
            f"{label}, line {block.line_of(int(upper[0]))}: entry ({row}, {column}) lies above the diagonal; "
            "a symmetric file stores its lower triangle (declare it general to keep both)"
        )
