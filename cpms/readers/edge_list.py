"""Edge lists, ``.txt``, ``.el``, ``.csv``, ``.tsv``, plain or gzipped: ``source target [weight]`` a line.

Blanks, tabs or commas separate the fields; lines that begin with ``#``, ``%`` or ``//`` are
comments. Ids are integers from 0, or names of any kind, such as those of web sites.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cpms.errors import InputError
from cpms.graph import LARGEST_ID, Graph, Ints
from cpms.readers.assemble import assemble
from cpms.readers.edge_list_form import EdgeListForm, bare, skip_byte_order_mark, sniff
from cpms.readers.entries import IGNORED, Block, LineForm, check_weights, checked_blocks
from cpms.readers.memory import graph_bytes, require_memory
from cpms.readers.named_edges import read_named
from cpms.readers.options import ReadOptions
from cpms.readers.stream import Stream, open_stream

if TYPE_CHECKING:
    import pandas as pd


def read(path: Path, options: ReadOptions) -> Graph:
    """Read an edge list.

    Whether ids are integers is decided by the majority of the first hundred lines; a header line
    is recognised by having no number where the lines after it have some, or by its words. Source and target, and
    perhaps a weight, are the first columns; a header that says otherwise is refused.

    Parameters
    ----------
    path : Path
        A text file, gzipped if its name ends in ``.gz``.
    options : ReadOptions
        What to do with weights, repeated edges, self-loops and unused ids.

    Returns
    -------
    Graph
        For integers the nodes 0 to the largest id (``ids="compact"``: those that occur, in
        order); for names those that occur, in order of appearance, answered by name.

    Raises
    ------
    InputError
        If a line is no edge, a weight is not positive and finite, there is no edge at all, or the
        graph would not fit in memory; with file and line.
    """
    with open_stream(path) as stream:
        form = sniff(stream)
    name = re.sub(r"\.(txt|el|csv|tsv)(\.gz)?$", "", path.name, flags=re.IGNORECASE)
    with open_stream(path, progress=options.progress) as stream:
        skip_byte_order_mark(stream)
        for _ in range(form.header_lines):
            stream.readline()
        return _read_numbered(stream, form, name, options) if form.numbered else read_named(stream, form, name, options)


def _read_numbered(stream: Stream, form: EdgeListForm, name: str, options: ReadOptions) -> Graph:
    use_weights = form.valued and options.weights == "auto"
    labelled = form.valued and not use_weights
    line_form = LineForm(
        valued=use_weights,
        labelled=labelled,
        comma=form.separator == ",",
        low=0,
        high=LARGEST_ID,
        advice=IGNORED,
    )
    sources, targets, weights = [], [], []
    edges = 0
    for block in checked_blocks(stream, line_form, form.header_lines + 1, clean=bare):
        ends, values = _parse(block, line_form)
        if use_weights:
            check_weights(values, block, stream.label)
            weights.append(values)
        sources.append(ends[0])
        targets.append(ends[1])
        edges += block.entries
        require_memory(graph_bytes(0, edges, weighted=use_weights), f"{stream.label}: a graph of over {edges:,} edges")
    if not sources:
        raise InputError(f"{stream.label}: the graph is empty; it needs at least one edge")
    return assemble(
        np.concatenate(sources),
        np.concatenate(targets),
        np.concatenate(weights) if use_weights else None,
        options,
        nodes=1 + max(int(ids.max()) for ids in (*sources, *targets)),
        name=name,
        label=stream.label,
    )


def parsed_lines(block: Block, form: LineForm) -> pd.DataFrame:
    """Parse checked lines with the C engine of pandas: columns 0 and 1 are ids, 2 the value where lines have one.

    It takes more fields than the first line has where ``usecols`` names those that are read.
    """
    import pandas as pd

    return pd.read_csv(
        io.BytesIO(block.data),
        sep="," if form.comma else r"\s+",
        skipinitialspace=True,
        header=None,
        usecols=range(2 + form.valued),
        dtype={0: np.int64, 1: np.int64, 2: np.float64} if form.valued else np.int64,
        engine="c",
        na_filter=False,
        quoting=csv.QUOTE_NONE,
    )


def _parse(block: Block, form: LineForm) -> tuple[tuple[Ints, Ints], Ints]:
    frame = parsed_lines(block, form)
    ids = frame[0].to_numpy(), frame[1].to_numpy()
    index_type = np.int32 if max(ids[0].max(), ids[1].max()) < 2**31 else np.int64
    values = frame[2].to_numpy() if form.valued else np.empty(0)
    return (ids[0].astype(index_type), ids[1].astype(index_type)), values
