"""METIS files ``.graph``: line i lists the neighbours of node i, each edge at both of its ends.

Format: G. Karypis, METIS 5.1.0 manual, section 4.1.1, as the tenth DIMACS challenge used it. Both directions of an edge
stand in the file, and both are edges of the graph. Sizes and weights of nodes are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.host_memory import graph_bytes, require_memory
from cpms.base.types import Floats
from cpms.graph.edge_list import EdgeList
from cpms.graph.read_record import ReadRecord
from cpms.sources.readers.assemble import assemble
from cpms.sources.readers.entries import IGNORED, quoted, wrong_weight
from cpms.sources.readers.options import ReadOptions
from cpms.sources.readers.stream import Stream

_HEADER = re.compile(rb"\s*(\d{1,17})\s+(\d{1,17})(?:\s+([01]{1,3})(?:\s+(\d{1,3}))?)?\s*")
_LONGEST_LINE_BYTES = 1 << 30
_NUMBERS = re.compile(rb"[0-9 \t]*")
_MOST_DIGITS = 18


@dataclass(frozen=True)
class _Form:
    nodes: int
    edges: int
    passed_over: int
    """Numbers at the beginning of a line: the size and the weights of its node."""
    valued: bool
    line: int
    comments: int


def read_stream(stream: Stream, name: str, options: ReadOptions) -> EdgeList:
    """Read a METIS file, whose ids count from 1; there are weights where the file has weights of edges.

    Option ``symmetric`` does not matter: both directions of each edge are in the file.

    Raises
    ------
    InputError
        If a line is no list of neighbours, an edge stands at one of its ends alone or has a weight of 0, or there are
        more or fewer nodes or edges than declared.
    """
    form = _header(stream)
    valued = form.valued and options.weights == "auto"
    require_memory(
        graph_bytes(form.nodes, 2 * form.edges, weighted=form.valued), f"{stream.label}: {form.edges:,} edges"
    )
    degrees: list[int] = []
    parts: list[npt.NDArray[np.int64]] = []
    found, number, skipped = 0, form.line, 0
    for number, line in _lines(stream, form.line + 1):
        if line[:1] == b"%":
            skipped += 1
            continue
        if len(degrees) == form.nodes:
            if line:
                raise InputError(f"{stream.label}, line {number}: more nodes than the {form.nodes:,} that are declared")
            continue
        numbers = _numbers(line, f"{stream.label}, line {number}")
        entries = len(numbers) - form.passed_over
        if entries < 0 or (form.valued and entries % 2):
            raise InputError(f"{stream.label}, line {number}: {len(numbers)} numbers, which the header has no form for")
        parts.append(np.array(numbers[form.passed_over :], np.int64))
        degrees.append(entries // (1 + form.valued))
        found += degrees[-1]
        if found > 2 * form.edges:
            raise InputError(f"{stream.label}, line {number}: more edges than the {form.edges:,} that are declared")
    if len(degrees) < form.nodes or found < 2 * form.edges:
        raise InputError(
            f"{stream.label}: the file ends at line {number} after {len(degrees):,} of {form.nodes:,} nodes, with "
            f"{found:,} ends of the {form.edges:,} edges that line {form.line} declares"
        )
    entries_of_all = np.concatenate([*parts, np.empty(0, np.int64)])
    targets = entries_of_all[:: 1 + form.valued] - 1
    weights = entries_of_all[1::2].astype(np.float64) if form.valued else None
    sources = np.repeat(np.arange(form.nodes), degrees)
    _check(sources, targets, weights, form.nodes, options, stream.label)
    record = ReadRecord(
        form="METIS graph",
        comment_lines=form.comments,
        skipped_lines=skipped,
        weights="the weights of the edges" if valued else None,
    )
    return assemble(
        *(sources, targets, weights, options),
        nodes=form.nodes,
        name=name,
        label=stream.label,
        first_id=1,
        record=record,
    )


def _header(stream: Stream) -> _Form:
    stream.skip_byte_order_mark()
    number = comments = 0
    while line := stream.readline():
        number += 1
        if line[:1] != b"%":
            break
        comments += 1
    where = f"{stream.label}, line {max(number, 1)}"
    found = _HEADER.fullmatch(line)
    if not found:
        given = quoted(line.decode("latin-1").strip())
        raise InputError(f"{where}: {given} where 'NODES EDGES [FORM [WEIGHTS]]' belongs, the head of a METIS file")
    nodes, edges = int(found[1]), int(found[2])
    if nodes == 0:
        raise InputError(f"{where}: the graph is empty; it needs at least one node")
    sized, weighted, valued = (digit == "1" for digit in (found[3] or b"").decode().zfill(3))
    return _Form(nodes, edges, sized + (int(found[4] or 1) if weighted else 0), valued, number, comments)


def _lines(stream: Stream, first: int) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each line, and the line without blanks around it; an empty line is that of a lonely node."""
    for block in stream.line_blocks(_LONGEST_LINE_BYTES):
        for line in block[:-1].split(b"\n"):
            yield first, line.strip(b" \t\r")
            first += 1


def _numbers(line: bytes, where: str) -> list[int]:
    found = line.split()
    if not _NUMBERS.fullmatch(line) or any(len(each) > _MOST_DIGITS for each in found):
        wrong = next((each for each in found if not each.isdigit() or len(each) > _MOST_DIGITS), line)
        raise InputError(f"{where}: {quoted(wrong.decode('latin-1'))} is not a whole number of at most 18 digits")
    return list(map(int, found))


def _check(
    sources: npt.NDArray[np.int64],
    targets: npt.NDArray[np.int64],
    weights: Floats | None,
    nodes: int,
    options: ReadOptions,
    label: str,
) -> None:
    """Refuse ids beyond the nodes, weights of 0, and edges that stand at one of their ends alone."""
    for wrong in np.flatnonzero((targets < 0) | (targets >= nodes))[:1]:
        raise InputError(
            f"{label}: node {sources[wrong] + 1} has neighbour {targets[wrong] + 1}; ids run from 1 to {nodes}"
        )
    if weights is not None and options.weights == "auto" and options.zero_weights == "refuse" and not weights.all():
        node = sources[np.flatnonzero(weights == 0)[0]] + 1
        raise InputError(f"{label}: an edge of node {node} has {wrong_weight(0.0)}")
    there, back = np.lexsort((targets, sources)), np.lexsort((sources, targets))
    differ = (sources[there] != targets[back]) | (targets[there] != sources[back])
    if weights is not None:
        differ |= weights[there] != weights[back]
    if differ.any():
        at = there[np.argmax(differ)]
        raise InputError(
            f"{label}: the edge between nodes {sources[at] + 1} and {targets[at] + 1} does not stand alike at both of "
            f"its ends, as METIS asks{IGNORED if weights is not None and options.weights == 'auto' else ''}"
        )
