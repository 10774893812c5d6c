"""Pajek networks ``.net`` and ``.pajek``: numbered vertices with labels, then their arcs, edges or matrix.

Format: W. de Nooy, A. Mrvar and V. Batagelj, "Exploratory Social Network Analysis with Pajek", and the manual of Pajek.
Vertices count from 1. Lines of ``*Arcs`` and ``*Edges`` are ``SOURCE TARGET [VALUE]``, those of ``*Arcslist`` and
``*Edgeslist`` a vertex and its neighbours, and each line of ``*Matrix`` has a vertex's values, one for each target.
Files have any number of these sections, and lines ``%`` are comments. NetworkX takes every line below the first
section, comments too, for one of that section, so it is not used here. Lines are read one by one, in Python.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable

import numpy as np

from cpms.base.errors import InputError
from cpms.base.host_memory import graph_bytes, require_memory
from cpms.graph.edge_arrays import names_of
from cpms.graph.edge_list import EdgeList
from cpms.graph.read_record import ReadRecord
from cpms.sources.readers.assemble import assemble
from cpms.sources.readers.edge_lists.lines import OpenQuoteError, fields_of
from cpms.sources.readers.edge_lists.named_edges import decoded
from cpms.sources.readers.entries import IGNORED, NUMBER, quoted, wrong_weight
from cpms.sources.readers.options import ReadOptions
from cpms.sources.readers.stream import Stream

_WITHOUT_LINES = ("*network",)
_MOST_DIGITS = 17
_ESCAPED = re.compile(r"\\([\"\\])")


def read_stream(stream: Stream, name: str, options: ReadOptions) -> EdgeList:
    """Read a Pajek network; weights are the values of lines, and there are none if all values are 1.

    Nodes are called by the labels of the vertices, or all by their numbers if a label is missing or occurs twice.
    Option ``symmetric`` does not matter: edges, which have no direction, count in both.

    Raises
    ------
    InputError
        If a line does not fit its section, names a vertex that does not exist, or has a value that is not positive.
    """
    stream.skip_byte_order_mark()
    network, line = _Network(stream.label, options), 1
    for block in stream.line_blocks():
        lines = decoded(block, stream.label, line)
        network.read(lines, line)
        line += len(lines)
        require_memory(graph_bytes(network.vertices, len(network.sources), weighted=True), f"{stream.label}: its graph")
    return network.edge_list(name)


class _Network:
    """The lines of a network so far: its vertices, its edges, and how the next line is read."""

    def __init__(self, label: str, options: ReadOptions) -> None:
        self.sources: list[int] = []
        self.vertices = 0
        self._targets: list[int] = []
        self._weights: list[float] = []
        self._labels: dict[int, str] = {}
        self._label, self._options = label, options
        self._take: Callable[[str], None] = self._misplaced
        self._rows = self._comments = 0
        self._is_directed = True

    def read(self, lines: Iterable[str], first: int) -> None:
        """Read lines; ``first`` is the number of the first one in its file."""
        for number, line in enumerate(lines, first):
            text = line.strip()
            try:
                if text.startswith("%"):
                    self._comments += 1
                elif text.startswith("*"):
                    self._begin(text)
                elif text:
                    self._take(text)
            except (InputError, OpenQuoteError, csv.Error) as error:
                raise InputError(f"{self._label}, line {number}: {error}") from None

    def edge_list(self, name: str) -> EdgeList:
        """Return the edges between vertices counted from 0."""
        if not self.vertices:
            raise InputError(f"{self._label}: there is no line '*Vertices NUMBER', so it is no Pajek network")
        if reason := self._missing_rows():
            raise InputError(f"{self._label}: {reason}")
        values = np.array(self._weights)
        weights = None if (values == 1.0).all() else values
        labels = [self._labels[vertex] for vertex in sorted(self._labels)]
        are_names = len(labels) == self.vertices == len(set(labels)) and "" not in labels
        return assemble(
            np.array(self.sources, np.int64) - 1,
            np.array(self._targets, np.int64) - 1,
            *(weights, self._options),
            nodes=self.vertices,
            name=name,
            label=self._label,
            first_id=0 if are_names else 1,
            names=names_of(labels) if are_names else None,
            record=ReadRecord(
                form=f"Pajek, nodes called by their {'labels' if are_names else 'numbers'}",
                skipped_lines=self._comments,
                weights=None if weights is None else "the values of the lines",
            ),
        )

    def _begin(self, text: str) -> None:
        """Begin a section."""
        if reason := self._missing_rows():
            raise InputError(reason)
        title, *numbers = text.split()
        section = title.lower()
        if section in _WITHOUT_LINES:
            self._take = self._misplaced
        elif section == "*vertices":
            self._declare(numbers)
        elif not self.vertices:
            raise InputError(f"{quoted(title)} stands above '*Vertices NUMBER'")
        elif section in ("*arcs", "*edges"):
            self._is_directed, self._take = section == "*arcs", self._tie
        elif section in ("*arcslist", "*edgeslist"):
            self._is_directed, self._take = section == "*arcslist", self._neighbours
        elif section == "*matrix":
            self._is_directed, self._take, self._rows = True, self._row, 0
        else:
            raise InputError(f"section {quoted(title)} is not one of a network; give a file of the network alone")

    def _declare(self, numbers: list[str]) -> None:
        if self.vertices:
            raise InputError("a second network begins; give a file of each")
        count = numbers[0] if numbers else ""
        if not _is_whole(count) or int(count) == 0:
            raise InputError(f"{quoted(count)} is no number of vertices of at least 1")
        if len(numbers) > 1:
            raise InputError("vertices are of two kinds, so the graph is bipartite; write '*Vertices NUMBER'")
        require_memory(graph_bytes(int(count), 0, weighted=False), f"{int(count):,} vertices")
        self.vertices, self._take = int(count), self._vertex

    def _missing_rows(self) -> str | None:
        is_short = self._take == self._row and self._rows < self.vertices
        return f"the matrix ends after {self._rows} of {self.vertices} rows" if is_short else None

    def _misplaced(self, text: str) -> None:
        raise InputError(f"{quoted(text)} stands above '*Vertices NUMBER', the head of a Pajek network")

    def _vertex(self, text: str) -> None:
        try:
            number, *rest = fields_of(text, None)
        except OpenQuoteError:  # NetworkX writes a quote within quotes with a backslash before it, from 3.7 on.
            number, *rest = fields_of(_ESCAPED.sub(lambda found: found[1].replace('"', '""'), text), None)
        vertex = self._vertex_number(number)
        if vertex in self._labels:
            raise InputError(f"vertex {vertex} is there twice")
        self._labels[vertex] = rest[0] if rest else ""

    def _tie(self, text: str) -> None:
        source, *rest = text.split()
        if not rest:
            raise InputError("1 field where 'SOURCE TARGET [VALUE]' belongs")
        self._add(source, rest[0], rest[1] if len(rest) > 1 else None)

    def _neighbours(self, text: str) -> None:
        source, *targets = text.split()
        for target in targets:
            self._add(source, target)

    def _row(self, text: str) -> None:
        values = text.split()
        self._rows += 1
        if self._rows > self.vertices or len(values) != self.vertices:
            raise InputError(f"the matrix has {self.vertices} rows of as many values")
        for target, value in enumerate(values, 1):
            if _number(value) != 0:
                self._add(str(self._rows), str(target), value)

    def _add(self, source: str, target: str, value: str | None = None) -> None:
        ends = self._vertex_number(source), self._vertex_number(target)
        weight = self._weight(value)
        both = not self._is_directed and ends[0] != ends[1]
        for first, second in (ends, ends[::-1]) if both else (ends,):
            self.sources.append(first)
            self._targets.append(second)
            self._weights.append(weight)

    def _vertex_number(self, text: str) -> int:
        if not _is_whole(text) or not 1 <= int(text) <= self.vertices:
            raise InputError(f"{quoted(text)} is no vertex; these are 1 to {self.vertices}")
        return int(text)

    def _weight(self, text: str | None) -> float:
        if text is None or self._options.weights == "ignore":
            return 1.0
        weight = _number(text)
        if not 0 <= weight < float("inf") or (weight == 0 and self._options.zero_weights == "refuse"):
            raise InputError(wrong_weight(weight))
        return weight


def _number(text: str) -> float:
    if not NUMBER.fullmatch(text):
        raise InputError(f"value {quoted(text)} is not a finite decimal number{IGNORED}")
    return float(text)


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
