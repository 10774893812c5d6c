"""Digests of a graph's content and of its files, which every row records.

`cpms.base.package_data` has the digest of the code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cpms.graph.graph import Graph

_PART_BYTES = 1 << 22


def of_graph(graph: Graph) -> str:
    """Return the digest of a graph's content: its edges in their order, weights, and the ids of its nodes.

    The graph's name and file do not enter.

    Examples
    --------
    >>> from cpms import Graph
    >>> one, other = Graph.from_edges([0, 1], [1, 0]), Graph.from_edges([0, 1], [1, 1])
    >>> of_graph(one) == of_graph(Graph.from_edges([0, 1], [1, 0], name="other name")) != of_graph(other)
    True
    """
    found = hashlib.blake2b(f"{graph.nodes} {graph.edges} {graph.first_id}".encode(), digest_size=16)
    for array in (graph.indptr, graph.sources, graph.weights):
        found.update(b"none" if array is None else array.dtype.newbyteorder("<").str.encode())
        if array is not None:
            found.update(array.astype(array.dtype.newbyteorder("<"), order="C", copy=False).data)
    if graph.names is not None:
        found.update("\0".join(map(str, graph.names.tolist())).encode("utf-8", "surrogatepass"))
    return found.hexdigest()


def of_files(paths: Iterable[Path]) -> str | None:
    """Return the digest of the bytes of files, in their order; None if there are none, or one cannot be read."""
    found, count = hashlib.blake2b(digest_size=16), 0
    try:
        for count, path in enumerate(paths, 1):  # noqa: B007
            found.update(f"file {path.stat().st_size}\0".encode())
            with path.open("rb") as file:
                while part := file.read(_PART_BYTES):
                    found.update(part)
    except OSError:
        return None
    return found.hexdigest() if count else None
