"""Edge lists whose nodes have names, such as the sites of a web graph."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cpms.errors import InputError
from cpms.graph import Graph
from cpms.readers.assemble import assemble
from cpms.readers.edge_list_form import EdgeListForm, counted, without_comments
from cpms.readers.entries import IGNORED, NUMBER, shown
from cpms.readers.memory import graph_bytes, require_memory
from cpms.readers.options import ReadOptions
from cpms.readers.stream import Stream

Rows = Iterator[tuple[int, list[str]]]

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")


def read_named(stream: Stream, form: EdgeListForm, name: str, options: ReadOptions) -> Graph:
    """Read the edges of a stream that stands before its first one; nodes count by first appearance.

    Raises
    ------
    InputError
        If a line does not have the fields of the others, a weight is not positive and finite, or
        the text is not UTF-8 or holds control characters; with file and line.
    """
    index: dict[str, int] = {}
    ends: list[npt.NDArray[np.int64]] = []
    weights: list[npt.NDArray[np.float64]] = []
    edges = 0
    use_weights = form.valued and options.weights == "auto"
    for rows in _row_blocks(stream, form):
        block_ends: list[int] = []
        block_weights: list[float] = []
        for line, row in rows:
            block_ends.append(index.setdefault(row[0], len(index)))
            block_ends.append(index.setdefault(row[1], len(index)))
            if use_weights:
                block_weights.append(_weight(row[2], f"{stream.label}, line {line}"))
        ends.append(np.array(block_ends, np.int64))
        weights.append(np.array(block_weights))
        edges += len(block_ends) // 2
        needed_bytes = graph_bytes(len(index), edges, weighted=use_weights)
        require_memory(needed_bytes, f"{stream.label}: a graph of over {edges:,} edges")
    if not edges:
        raise InputError(f"{stream.label}: the graph is empty; it needs at least one edge")
    names = np.empty(len(index), object)
    names[:] = list(index)
    sources_and_targets = np.concatenate(ends)
    return assemble(
        sources_and_targets[::2],
        sources_and_targets[1::2],
        np.concatenate(weights) if use_weights else None,
        options,
        nodes=len(index),
        name=name,
        label=stream.label,
        names=names,
    )


def _row_blocks(stream: Stream, form: EdgeListForm) -> Iterator[Rows]:
    line = form.header_lines + 1
    for data in stream.line_blocks():
        lines = _decoded(without_comments(data), stream.label, line)
        yield _checked(_rows(lines, form.separator, stream.label, line), form.valued, stream.label)
        line += len(lines)


def _checked(rows: Rows, valued: bool, label: str) -> Rows:
    """Pass on the rows that have the fields of an edge, pass over blank ones."""
    fields = 3 if valued else 2
    for line, row in rows:
        if len(row) == fields and row[0] and row[1]:
            yield line, row
        elif any(row):
            meaning = "source, target, weight" if valued else "source, target"
            raise InputError(f"{label}, line {line}: {counted(row)} where {fields} belong ({meaning})")


def _rows(lines: list[str], separator: str | None, label: str, first: int) -> Rows:
    if separator is None:
        for number, line in enumerate(lines, first):
            yield number, line.split()
        return
    if separator == "\t":
        for number, line in enumerate(lines, first):
            yield number, [field.strip(" ") for field in line.split("\t")]
        return
    reader = csv.reader(lines, skipinitialspace=True, strict=True)
    number = 0
    try:
        for row in reader:
            number += 1
            if reader.line_num != number:
                raise InputError(f"{label}, line {first + number - 1}: a quoted field runs past the end of its line")
            yield first + number - 1, [field.strip(" \t") for field in row]
    except csv.Error as error:
        raise InputError(f"{label}, line {first + number}: {error}") from error


def _decoded(block: bytes, label: str, first: int) -> list[str]:
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first + block.count(b"\n", 0, error.start)
        raise InputError(f"{label}, line {line}: the text is not UTF-8") from error
    if bad := _CONTROL.search(text):
        line = first + text.count("\n", 0, bad.start())
        raise InputError(f"{label}, line {line}: control character {bad.group()!a} in a text file")
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _weight(text: str, where: str) -> float:
    if not NUMBER.fullmatch(text):
        raise InputError(f"{where}: {shown(text)} is not a finite decimal number{IGNORED}")
    weight = float(text)
    if not 0 < weight < math.inf:
        raise InputError(f"{where}: weight {weight}; weights must be positive and finite{IGNORED}")
    return weight
