"""Graphs as ``.npz`` files: our own, written by `save_npz`, and those of SciPy's ``save_npz``.

Only plain arrays are read and written, nothing is unpickled, and no array is allocated before its
size is compared with that of its archive member.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.errors import CpmsError, InputError
from cpms.graph import Graph
from cpms.readers.assemble import apply, assemble
from cpms.readers.memory import require_memory
from cpms.readers.options import ReadOptions

_VERSION = 1
Array = npt.NDArray[Any]


def save_npz(graph: Graph, path: Path | str) -> None:
    """Write a graph to an ``.npz`` file of plain arrays, whole or not at all.

    Parameters
    ----------
    graph : Graph
        Any graph.
    path : Path or str
        Where to write; an existing file is replaced.

    Raises
    ------
    InputError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "path.npz"
    >>> save_npz(Graph.from_edges([1, 2], [2, 3], first_id=1), file)
    >>> read(file, ReadOptions()).node_id(0)
    1
    """
    path = Path(path)
    arrays: dict[str, Any] = {"cpms_graph": np.int64(_VERSION), "indptr": graph.indptr, "sources": graph.sources}
    arrays |= {"name": _text([graph.name]), "first_id": np.int64(graph.first_id)}
    if graph.weights is not None:
        arrays["weights"] = graph.weights
    if graph.stand_in_for is not None:
        arrays["stand_in_for"] = _text([graph.stand_in_for])
    if graph.names is not None and graph.names.dtype.kind in "iu":
        arrays["names"] = graph.names
    elif graph.names is not None:
        names = [str(name) for name in graph.names]
        arrays["names_text"] = _text(names)
        arrays["names_ends"] = np.cumsum([len(_encoded(name)) for name in names], dtype=np.int64)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.savez(file, **arrays)
        part.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    finally:
        part.unlink(missing_ok=True)


def read(path: Path, options: ReadOptions) -> Graph:
    """Read a graph that `save_npz` or SciPy's ``save_npz`` (CSR, CSC or COO) wrote.

    Parameters
    ----------
    path : Path
        An ``.npz`` file.
    options : ReadOptions
        ``symmetric`` does not matter here. SciPy matrices of booleans give unweighted graphs,
        others weighted ones.

    Raises
    ------
    InputError
        If the file is corrupt, holds no graph or would not fit in memory.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {member.removesuffix(".npy"): _array(archive, member) for member in archive.namelist()}
    except CpmsError as error:
        raise InputError(f"{path}: {error}") from error
    except Exception as error:
        # zipfile, zlib and the .npy header parser raise many kinds of errors on broken bytes
        raise InputError(f"{path}: corrupt .npz file ({' '.join(str(error).split())})") from error
    try:
        if "cpms_graph" in arrays:
            return apply(_own(arrays), options)
        return _from_scipy(arrays, path.stem, options)
    except KeyError as error:
        raise InputError(f"{path}: no array {error}; write it with cpms or with SciPy's save_npz") from error
    except CpmsError as error:
        raise InputError(f"{path}: {error}") from error


def _array(archive: zipfile.ZipFile, member: str) -> Array:
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, dtype = read_header[version](file)
        if dtype.kind not in "biufSU" or len(shape) > 1:
            raise InputError(f"array {member} is {len(shape)}-dimensional {dtype}; a graph has lists of numbers")
        count = shape[0] if shape else 1
        stored_bytes = archive.getinfo(member).file_size - file.tell()
        if count * dtype.itemsize != stored_bytes:
            raise InputError(f"array {member} declares {count:,} items, but {stored_bytes:,} bytes are stored")
        require_memory(stored_bytes, f"array {member}")
        data = bytearray(file.read())
        return np.frombuffer(data, dtype.newbyteorder("<") if dtype.byteorder == "<" else dtype).astype(
            dtype.newbyteorder("="), copy=False
        )


def _own(arrays: dict[str, Array]) -> Graph:
    version = int(_integers(arrays, "cpms_graph").sum())
    if version != _VERSION:
        raise InputError(f"the graph has format version {version}; this program reads {_VERSION}")
    indptr, sources = _integers(arrays, "indptr").astype(np.int64), _integers(arrays, "sources")
    nodes = len(indptr) - 1
    _check_rows(indptr, sources, nodes)
    falls = np.flatnonzero(sources[1:] < sources[:-1]) + 1
    if not np.isin(falls, indptr).all():
        raise InputError("sources do not ascend within a target")
    weights = arrays.get("weights")
    if weights is not None:
        weights = weights.astype(np.float64)
        if len(weights) != len(sources) or not ((weights > 0) & np.isfinite(weights)).all():
            raise InputError("weights must be positive and finite, one an edge")
    stand_in_for = _strings(arrays["stand_in_for"])[0] if "stand_in_for" in arrays else None
    names = _names(arrays)
    if names is not None and len(names) != nodes:
        raise InputError(f"{len(names)} names for {nodes} nodes")
    return Graph(
        indptr,
        sources.astype(np.int32 if nodes < 2**31 else np.int64),
        weights,
        _strings(arrays["name"])[0],
        int(_integers(arrays, "first_id").sum()),
        names,
        stand_in_for=stand_in_for,
    )


def _from_scipy(arrays: dict[str, Array], name: str, options: ReadOptions) -> Graph:
    layout = bytes(arrays["format"].astype("S")[0]).decode("latin-1")
    shape, data = _integers(arrays, "shape"), arrays["data"]
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 1:
        raise InputError(f"the matrix has shape {shape.tolist()}; a graph needs a square one")
    nodes = int(shape[0])
    if layout == "coo":
        rows, columns = _integers(arrays, "row"), _integers(arrays, "col")
    elif layout in ("csr", "csc"):
        indptr, columns = _integers(arrays, "indptr"), _integers(arrays, "indices")
        _check_rows(indptr, columns, nodes)
        rows = np.repeat(np.arange(nodes), np.diff(indptr))
        if layout == "csc":
            rows, columns = columns, rows
    else:
        raise InputError(f"the matrix is stored as {layout!r}; convert it to csr, csc or coo")
    if data.dtype.kind not in "biuf":
        raise InputError(f"the matrix holds {data.dtype}; edges need real weights")
    weights = None if data.dtype.kind == "b" else data.astype(np.float64)
    if weights is not None and options.weights == "ignore" and len(weights) == len(rows):
        weights = None
    return assemble(rows, columns, weights, options, nodes=nodes, name=name)


def _integers(arrays: dict[str, Array], key: str) -> Array:
    if arrays[key].dtype.kind not in "iu":
        raise InputError(f"array {key} holds {arrays[key].dtype}; it needs integers")
    return arrays[key]


def _check_rows(indptr: Array, indices: Array, nodes: int) -> None:
    if nodes < 1 or len(indptr) != nodes + 1:
        raise InputError(f"{len(indptr)} row starts for {nodes} nodes")
    if indptr[0] != 0 or indptr[-1] != len(indices) or (indptr[1:] < indptr[:-1]).any():
        raise InputError(f"row starts do not ascend from 0 to {len(indices)}")
    if len(indices) and not (0 <= indices.min() and indices.max() < nodes):
        raise InputError(f"node indices are out of range; the graph has {nodes} nodes")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(strings: list[str]) -> Array:
    return np.frombuffer(_encoded("".join(strings)), np.uint8)
