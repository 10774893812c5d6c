"""Digests of the code, of a graph's content and of its files, which every row records.

The digest of code is over Git's blob names, so that commits have one without their contents. This module needs nothing
but Python, since the build of a wheel uses it, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cpms.graph.graph import Graph

FOLDERS = ("cpms", "kernels")
_KINDS = (".py", ".cu", ".cuh", ".cl", ".hpp")
_PART_BYTES = 1 << 22


def is_code(path: str) -> bool:
    """Return whether a path in the repository is code that measures; copies in a wheel are not.

    Examples
    --------
    >>> [is_code(path) for path in ("cpms/api/pagerank.py", "kernels/cuda/spmv.cuh", "tests/test_solve.py")]
    [True, True, False]
    >>> is_code("cpms/_shipped/experiments/figures/table1.py"), is_code("cpms/__pycache__/solve.py")
    (False, False)
    """
    parts = PurePosixPath(path).parts
    inside = len(parts) > 1 and parts[0] in FOLDERS and not {"_shipped", "__pycache__"} & set(parts)
    return inside and PurePosixPath(path).suffix in _KINDS


def of_code(package: Path, kernels: Path) -> str:
    """Return the digest of the package and of the kernels, wherever the two folders lie."""
    files = [
        (f"{name}/{path.relative_to(folder).as_posix()}", path)
        for name, folder in zip(FOLDERS, (package, kernels), strict=True)
        for path in folder.rglob("*")
    ]
    return of_blobs((path, blob(file.read_bytes())) for path, file in files if is_code(path) and file.is_file())


def of_blobs(blobs: Iterable[tuple[str, str]]) -> str:
    """Return the digest of paths and their blob names, in any order.

    Examples
    --------
    >>> files = [("cpms/a.py", blob(b"a")), ("cpms/b.py", blob(b"b"))]
    >>> of_blobs(files) == of_blobs(reversed(files)) != of_blobs(files[:1])
    True
    """
    lines = "".join(f"{content} {path}\n" for path, content in sorted(blobs))
    return hashlib.blake2b(lines.encode(), digest_size=16).hexdigest()


def blob(content: bytes) -> str:
    """Return the name that Git gives a file's content, so that a commit's digest needs no contents.

    Examples
    --------
    >>> blob(b"")
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    head = f"blob {len(content)}\0".encode()
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


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
