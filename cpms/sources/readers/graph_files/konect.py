"""Files ``out.NAME`` of the KONECT collection: an edge list whose first line declares directions and weights.

Format: J. Kunegis, "Handbook of Network Analysis: The KONECT Project", section 8. Ids count from 1; the second line may
hold the numbers of edges and nodes; after the weight there may be a time, which is not read.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from cpms.base.errors import InputError
from cpms.base.host_memory import graph_bytes, require_memory
from cpms.graph.graph import Graph
from cpms.sources.readers.assemble import assemble
from cpms.sources.readers.edge_lists.cleaning import Cleaner
from cpms.sources.readers.edge_lists.form import EMPTY, EdgeListForm
from cpms.sources.readers.edge_lists.reader import numbered_edges
from cpms.sources.readers.entries import shown
from cpms.sources.readers.options import ReadOptions
from cpms.sources.readers.stream import Stream

_DECLARED = re.compile(r"%\s*(sym|asym|bip)\s+([a-z]+)\s*", re.IGNORECASE)
_SIZES = re.compile(rb"%\s*(\d{1,18})\s+(\d{1,18})\s+(\d{1,18})\s*")
_WITHOUT_WEIGHTS = ("unweighted",)


def read_stream(stream: Stream, name: str, options: ReadOptions) -> Graph:
    """Read a KONECT file to its end.

    Parameters
    ----------
    stream : Stream
    name : str
        What the graph is called.
    options : ReadOptions
        With ``symmetric="expand"`` both directions of each edge of a file that declares itself symmetric.

    Returns
    -------
    Graph
        Its ids count from 1.

    Raises
    ------
    InputError
        If the first line declares nothing, or a bipartite graph; if a line is no edge, a weight is not positive, or an
        id is above the number of nodes that the file declares.
    """
    stream.skip_byte_order_mark()
    line = stream.readline().decode("latin-1")
    declared = _DECLARED.fullmatch(line.rstrip("\r\n"))
    if not declared:
        raise InputError(
            f"{stream.label}, line 1: {shown(line.strip())} is not the first line of a KONECT file, such as "
            "'% asym unweighted'; let the name of an edge list end in .txt"
        )
    directions, weights = declared[1].lower(), declared[2].lower()
    if directions == "bip":
        raise InputError(
            f"{stream.label}, line 1: the graph is bipartite, with ids of its own for targets; join the ids"
        )
    form, nodes = _form(stream, valued=weights not in _WITHOUT_WEIGHTS and options.weights == "auto")
    cleaner = Cleaner(form, stream.label)
    blocks, edges = [], 0
    for block in numbered_edges(stream, form, options, cleaner, form.first_line, lowest=1):
        blocks.append(block)
        edges += len(block[0])
        require_memory(graph_bytes(0, edges, weighted=form.valued), f"{stream.label}: a graph of over {edges:,} edges")
    if not blocks:
        raise InputError(f"{stream.label}: {EMPTY}")
    sources, targets, values = (np.concatenate(column) for column in zip(*blocks, strict=True))
    largest = max(int(sources.max()), int(targets.max()))
    if nodes is not None and largest > nodes:
        raise InputError(f"{stream.label}: an edge names node {largest}, but line 2 declares {nodes:,} nodes")
    record = replace(form.record(), form=f"KONECT, {directions} {weights}", comment_lines=1 if nodes is None else 2)
    return assemble(
        sources - 1,
        targets - 1,
        values if form.valued else None,
        options,
        nodes=nodes or largest,
        name=name,
        label=stream.label,
        first_id=1,
        record=cleaner.record(record),
        both_ways=directions == "sym" and options.symmetric == "expand",
    )


def _form(stream: Stream, *, valued: bool) -> tuple[EdgeListForm, int | None]:
    """Return the form of the edges, which begin in line 2 or below, and the number of nodes if line 2 declares it."""
    stream.keep()
    line = stream.readline()
    sizes = _SIZES.fullmatch(line)
    while line and (line.lstrip().startswith(b"%") or not line.strip()):
        line = stream.readline()
    stream.begin_again()
    columns = (0, 1, 2) if valued and len(line.split()) > 2 else (0, 1)
    form = EdgeListForm(None, columns, numbered=True, chosen=True, marks=("%",), first_line=2)
    return form, max(map(int, sizes.groups()[1:])) if sizes else None
