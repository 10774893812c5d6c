"""Shortest-path files ``.gr`` of the ninth DIMACS challenge: a line ``a SOURCE TARGET WEIGHT`` for each arc.

Format: http://www.diag.uniroma1.it/challenge9/format.shtml. Lines ``c`` are comments, and ``p sp NODES ARCS`` comes
before the arcs; ids count from 1.
"""

from __future__ import annotations

import re
from threading import Lock

from cpms.base.errors import InputError
from cpms.base.host_memory import graph_bytes, require_memory
from cpms.graph.edge_list import EdgeList
from cpms.graph.read_record import ReadRecord
from cpms.sources.readers.assemble import assemble
from cpms.sources.readers.edge_lists.reader import numbers_of
from cpms.sources.readers.entries import IGNORED, LineForm, declared_entries, quoted
from cpms.sources.readers.options import ReadOptions
from cpms.sources.readers.stream import Stream

_PROBLEM = re.compile(rb"p\s+sp\s+(\d{1,17})\s+(\d{1,17})\s*")
_COMMENT = re.compile(rb"^c(?:[ \t][^\n]*)?\r?$", re.MULTILINE)
_ARC = re.compile(rb"^a[ \t]", re.MULTILINE)
_NO_ARC = re.compile(rb"^(?!a[ \t])[^\n]*[^\s][^\n]*", re.MULTILINE)


def read_stream(stream: Stream, name: str, options: ReadOptions) -> EdgeList:
    """Read a DIMACS file; ids count from 1, and weights are those of the arcs.

    Raises
    ------
    InputError
        If there is no line ``p sp NODES ARCS``, a line is no arc, a weight is not positive, or there are more or fewer
        arcs than declared.
    """
    nodes, arcs, line, comments = _header(stream)
    require_memory(
        graph_bytes(nodes if options.ids == "keep" else 0, arcs, weighted=True), f"{stream.label}: {arcs:,} arcs"
    )
    form = LineForm(valued=True, low=1, high=nodes, advice=IGNORED)
    clean = _Arcs(stream.label)
    edges = declared_entries(
        *(stream, form, options, lambda block: numbers_of(block, form)), what="arcs", count=arcs, line=line, clean=clean
    )
    record = ReadRecord(
        form="DIMACS shortest paths",
        comment_lines=comments,
        skipped_lines=clean.comment_lines,
        weights="the weights of the arcs" if options.weights == "auto" else None,
    )
    return assemble(
        *(*edges, options),
        nodes=nodes,
        name=name,
        label=stream.label,
        first_id=1,
        record=record,
        both_ways=options.symmetric == "expand",
    )


def _header(stream: Stream) -> tuple[int, int, int, int]:
    """Return nodes, arcs, the number of the line that declares them, and the comment lines above it."""
    stream.skip_byte_order_mark()
    lines = comments = 0
    while line := stream.readline():
        lines += 1
        if line[:1] == b"c" and line[1:2] in (b"", b" ", b"\t", b"\r", b"\n"):
            comments += 1
        elif line.strip():
            break
    where = f"{stream.label}, line {max(lines, 1)}"
    found = _PROBLEM.fullmatch(line)
    if not found:
        given = quoted(line.decode("latin-1").strip())
        raise InputError(f"{where}: {given} where 'p sp NODES ARCS' belongs, the head of a DIMACS shortest-path file")
    nodes, arcs = map(int, found.groups())
    if nodes == 0:
        raise InputError(f"{where}: the graph is empty; it needs at least one node")
    return nodes, arcs, lines, comments


class _Arcs:
    """Empties comment lines, which it counts, and takes the letter from the lines of arcs."""

    def __init__(self, label: str) -> None:
        self.comment_lines, self._lock = 0, Lock()
        self._label = label

    def __call__(self, block: bytes, first_line: int) -> bytes:
        if b"c" in block:
            block, count = _COMMENT.subn(b"", block)
            with self._lock:
                self.comment_lines += count
        if wrong := _NO_ARC.search(block):
            line = first_line + block.count(b"\n", 0, wrong.start())
            raise InputError(
                f"{self._label}, line {line}: {quoted(wrong.group().decode('latin-1').strip())} is no arc; "
                "a line is 'a SOURCE TARGET WEIGHT', or begins with c"
            )
        return _ARC.sub(b"  ", block)
