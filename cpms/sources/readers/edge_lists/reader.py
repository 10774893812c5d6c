"""Edge lists, ``.txt``, ``.el``, ``.csv``, ``.tsv``, ``.edges``, ``.edgelist``: ``source target [weight]`` a line.

Blanks, tabs, commas or semicolons separate the fields; lines that begin with ``#``, ``%`` or ``//`` are comments. Ids
are integers from 0, or names of any kind, such as those of web sites. The options ``columns``, ``header``, ``comments``
and ``delimiter`` decide what a file leaves open.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.host_memory import graph_bytes, require_memory
from cpms.base.text.phases import phase
from cpms.base.types import Floats
from cpms.graph.edge_arrays import LARGEST_ID, Ints
from cpms.graph.edge_list import EdgeList
from cpms.sources.readers.assemble import assemble
from cpms.sources.readers.edge_lists.cleaning import Cleaner, with_whole_ids, without_quotes
from cpms.sources.readers.edge_lists.first_line import refuse_counts
from cpms.sources.readers.edge_lists.form import EMPTY, EdgeListForm, sniff
from cpms.sources.readers.edge_lists.named_edges import read_named
from cpms.sources.readers.entries import LARGEST_64_BIT_ID, NOT_A_WEIGHT, Block, LineForm, check_weights, checked_blocks
from cpms.sources.readers.options import ReadOptions
from cpms.sources.readers.stream import Stream

if TYPE_CHECKING:
    import pandas as pd

_COMPACT = "; ids='compact' (--ids compact) takes ids below 2**63"


class NumberedEdges(NamedTuple):
    """Edges of a block of lines, ids in 32 bits where they fit."""

    sources: Ints
    targets: Ints
    weights: Floats
    """Empty without weights."""
    largest: int
    """The largest id."""


def read_stream(stream: Stream, name: str, options: ReadOptions) -> EdgeList:
    """Read an edge list.

    Options that say nothing of the form leave it to the first hundred lines, and only where these have evidence for
    one form alone: see `cpms.sources.readers.edge_lists.header` for the header and
    `cpms.sources.readers.edge_lists.delimiter` for the delimiter. Ids are numbers if most of those lines have numbers.
    Source and target, and perhaps a weight, are the first columns, unless ``columns`` names others.

    Nodes of numbers are 0 to the largest id (``ids="compact"``: those that occur, in order); those of names are the
    names that occur, in order of appearance.

    Raises
    ------
    InputError
        If a line is no edge or may be none, a weight is not positive and finite, there is no edge at all, or the
        graph would not fit in memory; with the option that settles what is open.
    """
    stream.keep()
    form = sniff(stream, options)
    stream.begin_again()
    stream.skip_byte_order_mark()
    for _ in range(form.first_line - 1):
        stream.readline()
    return (_read_numbered if form.numbered else read_named)(stream, form, name, options)


def line_form(form: EdgeListForm, options: ReadOptions) -> LineForm:
    """Return what the lines of a list of numbers must look like."""
    compact = options.ids == "compact"
    return LineForm(
        valued=form.valued,
        labelled=form.labelled,
        separator=form.separator,
        columns=form.columns if form.chosen else None,
        fields=form.fields if form.chosen else None,
        low=0,
        high=LARGEST_64_BIT_ID if compact else LARGEST_ID,
        advice=NOT_A_WEIGHT,
        range_advice="" if compact else _COMPACT,
    )


def _read_numbered(stream: Stream, form: EdgeListForm, name: str, options: ReadOptions) -> EdgeList:
    cleaner = Cleaner(form, stream.label)
    blocks = collected(numbered_edges(stream, form, options, cleaner, form.first_line), form, stream.label)
    (first, *_), largest = blocks, max(block.largest for block in blocks)
    below = max(largest_below([first.sources], [first.targets]), *(block.largest for block in blocks[1:]), -1)
    refuse_counts(form, sum(len(block.sources) for block in blocks), below, stream.label)
    return assemble(
        *joined(blocks, form),
        options,
        nodes=1 + largest,
        name=name,
        label=stream.label,
        record=cleaner.record(form.record()),
        both_ways=options.symmetric == "expand",
    )


@phase("joining edges")
def joined(blocks: list[NumberedEdges], form: EdgeListForm) -> tuple[Ints, Ints, Floats | None]:
    """Return sources, targets and weights, if the form has any, of all blocks."""
    return (
        threads.concatenated([block.sources for block in blocks]),
        threads.concatenated([block.targets for block in blocks]),
        threads.concatenated([block.weights for block in blocks]) if form.valued else None,
    )


def collected(edges: Iterator[NumberedEdges], form: EdgeListForm, label: str) -> list[NumberedEdges]:
    """Return all blocks of edges.

    Raises
    ------
    InputError
        If there is none, or their graph would not fit in memory.
    """
    blocks, count, checked = [], 0, 0
    for block in edges:
        blocks.append(block)
        count += len(block.sources)
        if 8 * count > 9 * checked:
            require_memory(graph_bytes(0, count, weighted=form.valued), f"{label}: a graph of over {count:,} edges")
            checked = count
    if not blocks:
        raise InputError(f"{label}: {EMPTY}")
    return blocks


def largest_below(sources: list[Ints], targets: list[Ints]) -> int:
    """Return the largest id of all edges but the first, -1 if there are no others.

    Examples
    --------
    >>> largest_below([np.array([9, 1])], [np.array([8, 2])])
    2
    """
    rest = [ids[1:] if block == 0 else ids for ends in (sources, targets) for block, ids in enumerate(ends)]
    return max(int(ids.max(initial=-1)) for ids in rest)


def numbered_edges(
    stream: Stream, form: EdgeListForm, options: ReadOptions, cleaner: Cleaner, first_line: int, *, lowest: int = 0
) -> Iterator[NumberedEdges]:
    """Yield the edges of the lines of a stream, by blocks; ids count from ``lowest``.

    Raises
    ------
    InputError
        At a line that is no edge between numbers, with its number; ``first_line`` is that of the stream's next one.
    """
    lines = replace(line_form(form, options), low=lowest)

    def clean(block: bytes, line: int) -> bytes:
        return without_quotes(cleaner(block, line), form)

    clean_all = form.chosen or cleaner.may_blank_edges
    for block in checked_blocks(stream, lines, first_line, clean=clean, mend=with_whole_ids, clean_all=clean_all):
        weights = numbers_of(block, lines) if form.valued else np.empty(0)
        if form.valued:
            check_weights(weights, block, stream.label, zeros=options.zero_weights == "drop")
        yield NumberedEdges(block.sources, block.targets, weights, block.largest)


def numbers_of(block: Block, form: LineForm) -> Floats:
    """Return the numbers of checked lines, those of many digits by the C engine of pandas.

    It takes more fields than the first line has where ``usecols`` names those that are read.
    """
    if block.numbers is not None:
        return block.numbers
    try:
        return _read_numbers(block.data, form, np.float64)
    except ValueError:  # Before version 3, pandas makes no float64 of a number beyond its range.
        return _read_numbers(block.data, form, np.object_)


def _read_numbers(data: bytes, form: LineForm, dtype: type[np.generic]) -> Floats:
    import pandas as pd

    place = form.places[2]
    frame: pd.DataFrame = pd.read_csv(
        io.BytesIO(data),
        sep=r"\s+" if form.separator is None else form.separator,
        skipinitialspace=True,
        header=None,
        usecols=[place],
        dtype={place: dtype},
        engine="c",
        encoding="latin-1",  # Fields that are read are ASCII, as checked; others may hold any bytes.
        na_filter=False,
        quoting=csv.QUOTE_NONE,
        **_exact_numbers(pd.__version__),
    )
    return frame[place].to_numpy(dtype=np.float64)


def _exact_numbers(version: str) -> dict[str, Any]:
    """Return the option by which pandas reads each decimal number as the nearest float64; from 3.1 on it always does.

    Examples
    --------
    >>> _exact_numbers("3.0.2"), _exact_numbers("3.1.1")
    ({'float_precision': 'round_trip'}, {})
    """
    major, minor = map(int, version.split(".")[:2])
    return {} if (major, minor) >= (3, 1) else {"float_precision": "round_trip"}
