"""Files ``out.NAME`` of the KONECT collection: an edge list whose first line declares directions and weights.

Format: J. Kunegis, "Handbook of Network Analysis: The KONECT Project", section 8. Ids count from 1; the second line may
hold the numbers of edges and nodes; after the weight there may be a time, which is not read.
"""

from __future__ import annotations

import re
from dataclasses import replace

from cpms.base.errors import InputError
from cpms.graph.edge_list import EdgeList
from cpms.sources.readers.assemble import assemble
from cpms.sources.readers.edge_lists.cleaning import Cleaner
from cpms.sources.readers.edge_lists.form import EdgeListForm
from cpms.sources.readers.edge_lists.reader import collected, joined, numbered_edges
from cpms.sources.readers.entries import quoted
from cpms.sources.readers.options import ReadOptions
from cpms.sources.readers.stream import Stream

_DECLARED = re.compile(r"%\s*(sym|asym|bip)\s+([a-z]+)\s*", re.IGNORECASE)
_SIZES = re.compile(rb"%\s*(\d{1,18})\s+(\d{1,18})\s+(\d{1,18})\s*")
_WITHOUT_WEIGHTS = "unweighted"
_WEIGHTS = (
    *(_WITHOUT_WEIGHTS, "positive", "posweighted", "signed", "multisigned", "weighted", "multiweighted"),
    *("multiposweighted", "dynamic"),
)


def read_stream(stream: Stream, name: str, options: ReadOptions) -> EdgeList:
    """Read a KONECT file, whose ids count from 1.

    With ``symmetric="expand"`` both directions of each edge of a file that declares itself symmetric are edges.

    Raises
    ------
    InputError
        If the first line declares nothing, unknown weights, or a bipartite graph; if a line is no edge, a weight is
        not positive, or an id is above the number of nodes that the file declares.
    """
    stream.skip_byte_order_mark()
    line = stream.readline().decode("latin-1")
    declared = _DECLARED.fullmatch(line.rstrip("\r\n"))
    if not declared:
        raise InputError(
            f"{stream.label}, line 1: {quoted(line.strip())} is not the first line of a KONECT file, such as "
            "'% asym unweighted'; let the name of an edge list end in .txt"
        )
    directions, weights = declared[1].lower(), declared[2].lower()
    if weights not in _WEIGHTS:
        raise InputError(
            f"{stream.label}, line 1: {quoted(weights)} is no kind of weights, which KONECT calls {', '.join(_WEIGHTS)}"
        )
    if directions == "bip":
        raise InputError(
            f"{stream.label}, line 1: the graph is bipartite, with ids of its own for targets; join the ids"
        )
    form, nodes = _form(stream, valued=weights != _WITHOUT_WEIGHTS and options.weights == "auto")
    cleaner = Cleaner(form, stream.label)
    edges = numbered_edges(stream, form, options, cleaner, form.first_line, lowest=1)
    blocks = collected(edges, form, stream.label)
    largest = 1 + max(block.largest for block in blocks)
    if nodes is not None and largest > nodes:
        raise InputError(f"{stream.label}: an edge names node {largest}, but line 2 declares {nodes:,} nodes")
    record = replace(form.record(), form=f"KONECT, {directions} {weights}", comment_lines=1 if nodes is None else 2)
    return assemble(
        *joined(blocks, form),
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
    has_weight = len(line.split()) > 2
    columns = (0, 1, 2) if valued and has_weight else (0, 1)
    # Where the first edge has no weight, none may follow that would be passed over.
    fields = 2 if valued and not has_weight else None
    form = EdgeListForm(None, columns, numbered=True, fields=fields, chosen=True, marks=("%",), first_line=2)
    return form, max(map(int, sizes.groups()[1:])) if sizes else None
