"""GraphML and GML files by NetworkX, and its graphs themselves; undirected edges count in both directions.

The library is optional and imported when such a file is read. It builds dictionaries of Python objects for each edge,
so this is for small graphs.
"""

from __future__ import annotations

import io
from collections import Counter
from pathlib import PurePath
from typing import Any

import numpy as np

from cpms.base.errors import CpmsError, InputError, UnavailableError
from cpms.base.host_memory import require_memory
from cpms.base.text.phases import phase
from cpms.graph.edge_arrays import names_of
from cpms.graph.edge_list import EdgeList
from cpms.graph.read_record import ReadRecord
from cpms.sources.readers.assemble import assemble
from cpms.sources.readers.entries import quoted, wrong_weight
from cpms.sources.readers.kinds import without_compression
from cpms.sources.readers.options import ReadOptions
from cpms.sources.readers.stream import BYTE_ORDER_MARK, Stream

_BYTES_A_BYTE = 30
"""Least bytes of NetworkX's objects for each byte of a file."""
_NAMES = {".graphml": "GraphML", ".gml": "GML"}


def read_stream(stream: Stream, name: str, options: ReadOptions) -> EdgeList:
    """Read a GraphML or GML file, as the ending of the stream's label says.

    Option ``symmetric`` does not matter: undirected edges count in both directions.

    Raises
    ------
    InputError
        If NetworkX cannot read it, two nodes have one name, or a weight is not positive and finite.
    UnavailableError
        If NetworkX is not installed.
    """
    ending = PurePath(without_compression(stream.label)).suffix.lower()
    parts = []
    while part := stream.read(1 << 22):
        parts.append(part)
        require_memory(_BYTES_A_BYTE * sum(map(len, parts)), f"{stream.label}: a graph of NetworkX")
    try:
        import networkx as nx
    except ImportError:
        raise UnavailableError(
            f"{stream.label}: NetworkX reads such files, and is not installed; pip install networkx"
        ) from None
    try:
        graph = _parsed(nx, ending, b"".join(parts), stream.label)
    except (CpmsError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - its parsers raise anything on broken files
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{stream.label}: NetworkX cannot read it as {_NAMES[ending]} ({quoted(reason)})") from None
    return from_networkx(graph, name, stream.label, options, form=f"{_NAMES[ending]} by NetworkX")


@phase("parsing by NetworkX")
def _parsed(nx: Any, ending: str, data: bytes, label: str) -> Any:
    if ending == ".graphml":
        return _parsed_graphml(nx, data, label)
    text = data.removeprefix(BYTE_ORDER_MARK)
    try:
        return nx.read_gml(io.BytesIO(text))
    except nx.NetworkXError as error:
        if "label" not in str(error):
            raise
        return nx.read_gml(io.BytesIO(text), label="id")


def _parsed_graphml(nx: Any, data: bytes, label: str) -> Any:
    """Return the graph of a GraphML file; edges without a weight have the default of the file, if there is one.

    NetworkX reads the first graph of a file, passes over graphs within nodes, and leaves defaults to its caller.

    Raises
    ------
    InputError
        If the file holds other nodes or edges than those of that graph.
    """
    from xml.etree import ElementTree

    graph = nx.read_graphml(io.BytesIO(data))
    held, default = Counter[str](), None
    for _, element in ElementTree.iterparse(io.BytesIO(data)):  # noqa: S314 - NetworkX has parsed it
        kind = element.tag.rpartition("}")[2]
        held[kind] += 1
        if kind == "edge" and None in (element.get("source"), element.get("target")):
            raise InputError(f"{label}: edge {held[kind]} lacks its source or its target")
        if kind == "key" and element.get("attr.name") == "weight" and element.get("for", "all") in ("all", "edge"):
            default = element.findtext("{*}default")
    read = {"node": graph.number_of_nodes(), "edge": graph.number_of_edges()}
    if held["node"] > read["node"] or held["edge"] != read["edge"]:
        raise InputError(
            f"{label}: it holds {held['node']:,} nodes and {held['edge']:,} edges, of which NetworkX reads "
            f"{read['node']:,} and {read['edge']:,}; give a file of one graph, with an id for each node and edge"
        )
    if default is not None:
        for _, _, attributes in graph.edges(data=True):
            attributes.setdefault("weight", default)
    return graph


def from_networkx(given: Any, name: str, label: str, options: ReadOptions, *, form: str) -> EdgeList:
    """Return the edges of a graph of NetworkX as ``options`` ask.

    Weights are the edge attribute ``weight``, 1 where it is missing; there are none if all are 1.

    Raises
    ------
    InputError
        If it has no node, a weight is not positive and finite, or two nodes have one name.
    """
    nodes = list(given)
    if not nodes:
        raise InputError(f"{label}: the graph is empty; it needs at least one node")
    index = {node: place for place, node in enumerate(nodes)}
    ends: list[int] = []
    values: list[Any] = []
    for source, target, data in given.to_directed(as_view=True).edges(data=True):
        ends += index[source], index[target]
        values.append(data.get("weight", 1))
    weights = None
    if options.weights == "auto" and any(type(value) is not int or value != 1 for value in values):
        found = np.array([_weight(value, label, zeros=options.zero_weights == "drop") for value in values])
        weights = None if (found == 1.0).all() else found
    record = ReadRecord(form=form, weights="edge attribute weight" if weights is not None else None)
    pairs = np.array(ends, np.int64).reshape(-1, 2)
    try:
        return assemble(
            *(pairs[:, 0], pairs[:, 1], weights, options),
            nodes=len(nodes),
            name=name,
            label=label,
            names=names_of(nodes),
            record=record,
        )
    except InputError as error:
        raise error if label in str(error) else InputError(f"{label}: {error}") from None


def _weight(value: Any, label: str, *, zeros: bool) -> float:
    try:
        weight = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{label}: weight {quoted(str(value))} is no number; weights='ignore' reads the edges alone"
        ) from None
    if not 0 <= weight < float("inf") or (weight == 0 and not zeros):
        raise InputError(f"{label}: {wrong_weight(weight)}")
    return weight
