"""Edge lists whose nodes have names, such as the sites of a web graph."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.host_memory import graph_bytes, require_memory
from cpms.graph.edge_list import EdgeList
from cpms.sources.readers.assemble import assemble
from cpms.sources.readers.edge_lists.cleaning import Cleaner
from cpms.sources.readers.edge_lists.delimiter import counted_fields
from cpms.sources.readers.edge_lists.first_line import refuse_isolated, refuse_titles, refuse_titles_below, refuse_twins
from cpms.sources.readers.edge_lists.form import EMPTY, EdgeListForm
from cpms.sources.readers.edge_lists.lines import OpenQuoteError, rows_of
from cpms.sources.readers.edge_lists.sample import CONTROL
from cpms.sources.readers.entries import NOT_A_WEIGHT, NUMBER, quoted, wrong_weight
from cpms.sources.readers.options import ReadOptions
from cpms.sources.readers.stream import Stream

_SPACES = "\x20\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200C)))


def read_named(stream: Stream, form: EdgeListForm, name: str, options: ReadOptions) -> EdgeList:
    """Read the edges of a stream that stands before its first one; nodes count by first appearance.

    Raises
    ------
    InputError
        If a line does not have the fields of the others, a weight is not positive and finite, the text is not UTF-8 or
        holds control characters, or the first line may hold titles; with file and line.
    """
    index: dict[str, int] = {}
    ends: list[npt.NDArray[np.int64]] = []
    weights: list[npt.NDArray[np.float64]] = []
    edges = 0
    cleaner = Cleaner(form, stream.label, trusting=options.comments != "auto")
    edges_of = _EdgesOf(form, options, stream.label, index)
    for first, lines in _line_blocks(stream, form, cleaner):
        block_ends, block_weights = edges_of(lines, first)
        ends.append(block_ends)
        weights.append(block_weights)
        edges += len(block_ends) // 2
        require_memory(
            graph_bytes(len(index), edges, weighted=form.valued), f"{stream.label}: a graph of over {edges:,} edges"
        )
    if not edges:
        raise InputError(f"{stream.label}: {EMPTY}")
    index, sources_and_targets = without_outer_spaces(index, np.concatenate(ends), stream.label)
    refuse_titles(form, index, stream.label)
    refuse_twins(index, stream.label)
    if form.doubtful and not _first_edge_is_connected(sources_and_targets):
        refuse_isolated(form, stream.label)
    if options.header == "auto":
        refuse_titles_below(index, sources_and_targets, stream.label)
    names = np.empty(len(index), object)
    names[:] = list(index)
    return assemble(
        sources_and_targets[::2],
        sources_and_targets[1::2],
        np.concatenate(weights) if form.valued else None,
        options,
        nodes=len(index),
        name=name,
        label=stream.label,
        names=names,
        record=cleaner.record(form.record()),
        both_ways=options.symmetric == "expand",
    )


def _first_edge_is_connected(ends: npt.NDArray[np.int64]) -> bool:
    """Return whether the first edge, from node 0, has a node in common with an edge other than its copies."""
    sources, targets = ends[::2], ends[1::2]
    target = targets[0]  # 0 of a self-loop, else 1
    first = (sources == 0) & (targets == target)
    return bool(((np.minimum(sources, targets) <= target) & ~first).any())


def without_outer_spaces(
    index: dict[str, int], ends: npt.NDArray[np.int64], label: str
) -> tuple[dict[str, int], npt.NDArray[np.int64]]:
    r"""Return names without the spaces of Unicode around them, which nobody sees, and the ends of edges among these.

    Raises
    ------
    InputError
        If a name consists of such spaces.

    Examples
    --------
    >>> without_outer_spaces({"a": 0, "a\xa0": 1, "b": 2}, np.array([0, 2, 1, 2]), "g.csv")
    ({'a': 0, 'b': 1}, array([0, 1, 0, 1]))
    """
    if all(name.isascii() or name == name.strip(_SPACES) for name in index):
        return index, ends
    bare: dict[str, int] = {}
    places = [bare.setdefault(name.strip(_SPACES), len(bare)) for name in index]
    if "" in bare:
        raise InputError(f"{label}: a name consists of white space alone")
    return bare, np.array(places, np.int64)[ends]


def _line_blocks(stream: Stream, form: EdgeListForm, cleaner: Cleaner) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line of each block, and its lines."""
    line = form.first_line
    for data in stream.line_blocks():
        lines = decoded(cleaner(data, line), stream.label, line)
        yield line, lines
        line += len(lines)


class _EdgesOf:
    """Makes lines into source and target of each edge in turn, and its weight; new names join ``index``."""

    def __init__(self, form: EdgeListForm, options: ReadOptions, label: str, index: dict[str, int]) -> None:
        self._form, self._label, self._index = form, label, index
        self._zeros = options.zero_weights == "drop"

    def __call__(self, lines: list[str], first: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        ends: list[int] = []
        weights: list[float] = []
        index, (source, target, *weight) = self._index, self._form.columns
        least, most = self._form.fields_possible
        line = first - 1
        try:
            for line, row in enumerate(rows_of(lines, self._form.separator), first):
                if least <= len(row) <= most and row[source] and row[target]:
                    ends.append(index.setdefault(row[source], len(index)))
                    ends.append(index.setdefault(row[target], len(index)))
                    if weight:
                        weights.append(_weight(row[weight[0]], f"{self._label}, line {line}", zeros=self._zeros))
                elif any(row):
                    raise InputError(f"{self._label}, line {line}: {self._misfit(row)}")
        except (csv.Error, OpenQuoteError) as error:
            raise InputError(f"{self._label}, line {line + 1}: {error}") from error
        return np.array(ends, np.int64), np.array(weights)

    def _misfit(self, row: list[str]) -> str:
        meaning = "source, target, weight" if self._form.valued else "source, target"
        columns = ", ".join(str(place + 1) for place in self._form.columns)
        if self._form.fields is None:
            return f"{counted_fields(row)} where {meaning} are columns {columns}"
        if self._form.chosen:
            return f"{counted_fields(row)} where {self._form.fields} belong (columns {columns}: {meaning})"
        hint = "; columns=… (--columns 1,2) reads some columns alone" if len(row) > self._form.fields else ""
        return f"{counted_fields(row)} where {self._form.fields} belong ({meaning}){hint}"


def decoded(block: bytes, label: str, first: int) -> list[str]:
    """Return the lines of a block of UTF-8, of which the first has the number ``first``.

    Raises
    ------
    InputError
        If the text is not UTF-8, or has control characters; with file and line.
    """
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first + block.count(b"\n", 0, error.start)
        raise InputError(f"{label}, line {line}: the text is not UTF-8") from error
    if bad := CONTROL.search(text):
        line = first + text.count("\n", 0, bad.start())
        raise InputError(f"{label}, line {line}: control character {bad.group()!a} in a text file")
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _weight(text: str, where: str, *, zeros: bool) -> float:
    if not NUMBER.fullmatch(text):
        raise InputError(f"{where}: {quoted(text)} is not a finite decimal number{NOT_A_WEIGHT}")
    weight = float(text)
    if weight < 0 or weight == math.inf or (weight == 0 and not zeros):
        raise InputError(f"{where}: {wrong_weight(weight)}")
    return weight
