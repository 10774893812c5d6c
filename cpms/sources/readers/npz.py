"""Graphs as ``.npz`` files: our own, written by `save_npz`, and those of SciPy's ``save_npz``.

Only plain arrays are read and written, nothing is unpickled, and no array is made before its declared size is compared
with the bytes that are stored.
"""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.atomic_files import replacing
from cpms.base.errors import CpmsError, InputError
from cpms.base.host_memory import require_memory
from cpms.base.text.phases import phase
from cpms.graph.edge_arrays import distinct_names
from cpms.graph.edge_list import Read
from cpms.graph.graph import Graph
from cpms.graph.read_record import ReadRecord
from cpms.sources.readers.assemble import apply_options
from cpms.sources.readers.options import ReadOptions
from cpms.sources.readers.scipy_npz import check_rows, from_scipy_arrays, integers

VERSION = 1
_PIECE_BYTES = 4 << 20
_HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_ONE_HEADER = threading.Lock()
"""Headers are Python literals, and CPython before 3.11.8 mixes up the depths of those that threads parse at once: it
then fails now and then (python/cpython issue 106905)."""


def save_npz(graph: Graph, path: Path | str) -> None:
    """Write a graph to an ``.npz`` file of plain arrays, whole or not at all.

    Parameters
    ----------
    graph : Graph
        Any graph.
    path : Path or str
        Where to write, a name that ends in ``.npz``; an existing file is replaced.

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
    arrays: dict[str, Any] = {
        "cpms_graph": np.int64(VERSION),
        "indptr": graph.indptr,
        "sources": graph.sources,
        "name": np.str_(graph.name),
        "first_id": np.int64(graph.first_id),
    }
    if graph.weights is not None:
        arrays["weights"] = graph.weights
    if graph.stand_in_for is not None:
        arrays["stand_in_for"] = np.str_(graph.stand_in_for)
    if graph.lower_triangle:
        arrays["lower_triangle"] = np.int64(1)
    if graph.names is not None:
        arrays |= _packed(graph.names)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)


def read(path: Path, options: ReadOptions) -> Read:
    """Read a graph that `save_npz` or SciPy's ``save_npz`` (CSR, CSC or COO) wrote.

    Option ``symmetric`` does not matter. SciPy matrices of booleans, all true, give unweighted graphs, others weighted
    ones.

    Raises
    ------
    InputError
        If the file is corrupt, holds no graph or would not fit in memory.
    """
    arrays = arrays_of(path)
    try:
        if "cpms_graph" in arrays:
            graph = _own(arrays)
            valued = graph.weights is not None and options.weights == "auto"
            record = ReadRecord(form="cpms .npz", weights="the weights of the edges" if valued else None)
            return apply_options(replace(graph, read=record), options)
        return replace(from_scipy_arrays(arrays, path.stem, options), label=str(path))
    except KeyError as error:
        raise InputError(f"{path}: there is no array {error}; use save_npz of cpms or SciPy") from error
    except CpmsError as error:
        raise InputError(f"{path}: {error}") from error


def arrays_of(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an ``.npz`` file by their names, each read by a thread; none of them is pickled.

    Raises
    ------
    InputError
        If the file is corrupt or would not fit in memory.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
            stored_bytes = sum(member.file_size for member in archive.infolist())
        with phase(f"reading {path.name}", stored_bytes) as reading:
            # An archive has one position, so threads that shared one would read each other's members.
            arrays = threads.each(partial(_array_of_file, path, reading.advance), members)
        return {member.removesuffix(".npy"): array for member, array in zip(members, arrays, strict=True)}
    except CpmsError as error:
        raise InputError(f"{path}: {error}") from error
    except MemoryError:
        raise
    except Exception as error:
        # On broken bytes, zipfile, its decompressors and the header parser raise errors of many kinds.
        raise InputError(f"{path}: corrupt .npz file ({' '.join(str(error).split())})") from error


def _array_of_file(path: Path, advance: Callable[[int], object], member: str) -> npt.NDArray[Any]:
    with zipfile.ZipFile(path) as archive:
        return stored_array(archive, member, advance)


def stored_array(
    archive: zipfile.ZipFile, member: str, advance: Callable[[int], object] = lambda _: None
) -> npt.NDArray[Any]:
    """Return an array of an archive, a single value as a list of one; ``advance`` is called with bytes that were read.

    Raises
    ------
    InputError
        If it is no list of numbers or texts, or not as long as it declares.
    """
    with archive.open(member) as file:
        shape, dtype = array_header(file, member)
        if dtype.kind not in "biufSU" or len(shape) > 1:
            given = f"{len(shape)}-dimensional {dtype}"
            raise InputError(f"array {member} is {given}; give lists of numbers, as SciPy's csr, csc or coo")
        count = shape[0] if shape else 1
        stored_bytes = archive.getinfo(member).file_size - file.tell()
        if count < 0 or count * dtype.itemsize != stored_bytes:
            raise InputError(f"array {member} declares {count:,} items, but {stored_bytes:,} bytes are stored")
        require_memory(2 * stored_bytes, f"array {member}")
        advance(file.tell())
        if stored_bytes == 0:
            return np.zeros(0 if dtype.itemsize else 1, dtype)
        data = bytearray()
        while piece := file.read(_PIECE_BYTES):
            data += piece
            advance(len(piece))
        return np.frombuffer(data, dtype).astype(dtype.newbyteorder("="), copy=False)


def array_header(file: Any, member: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read the header of a ``.npy`` array and return its shape and type.

    Raises
    ------
    InputError
        If the header is of a version that no graph has.
    """
    version = np.lib.format.read_magic(file)
    if version not in _HEADER_READERS:
        raise InputError(f"array {member} has .npy version {'.'.join(map(str, version))}; graphs use 1.0 or 2.0")
    with _ONE_HEADER:
        shape, _, dtype = _HEADER_READERS[version](file)
    return shape, dtype


def _own(arrays: dict[str, npt.NDArray[Any]]) -> Graph:
    version = int(only(integers(arrays, "cpms_graph")))
    if version != VERSION:
        raise InputError(f"the graph has format version {version}; this program reads {VERSION}")
    indptr, sources = integers(arrays, "indptr"), integers(arrays, "sources")
    nodes = len(indptr) - 1
    check_rows(indptr, sources, nodes)
    falls = np.flatnonzero(sources[1:] < sources[:-1]) + 1
    if not np.isin(falls, indptr).all():
        raise InputError("sources do not ascend within a target")
    weights = arrays.get("weights")
    if weights is not None:
        if weights.dtype != np.float64 or len(weights) != len(sources):
            raise InputError("weights must be float64, one an edge")
        if not ((weights > 0) & np.isfinite(weights)).all():
            raise InputError("weights must be positive and finite")
    names = _unpacked(arrays)
    if names is not None:
        names = distinct_names(names, nodes)
    return Graph(
        indptr.astype(np.int64, copy=False),
        sources.astype(np.int32 if nodes < 2**31 else np.int64, copy=False),
        weights,
        str(only(arrays["name"])),
        int(only(integers(arrays, "first_id"))),
        names,
        stand_in_for=str(only(arrays["stand_in_for"])) if "stand_in_for" in arrays else None,
        lower_triangle="lower_triangle" in arrays and bool(only(integers(arrays, "lower_triangle"))),
    )


def only(array: npt.NDArray[Any]) -> Any:
    """Return the value of an array that holds one; `InputError` if it does not."""
    if len(array) != 1:
        raise InputError(f"a field holds {len(array)} values where one belongs")
    return array[0]


def _packed(names: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Return names as plain arrays: integers as they are, strings as UTF-8 end to end."""
    if names.dtype.kind in "iu":
        return {"names": names}
    encoded = [str(name).encode("utf-8", "surrogatepass") for name in names]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    return {"names_utf8": np.frombuffer(b"".join(encoded), np.uint8), "names_ends": ends}


def _unpacked(arrays: dict[str, npt.NDArray[Any]]) -> npt.NDArray[Any] | None:
    if "names" in arrays:
        return integers(arrays, "names")
    if "names_utf8" not in arrays:
        return None
    encoded, ends = integers(arrays, "names_utf8").tobytes(), integers(arrays, "names_ends").tolist()
    begins = [0, *ends[:-1]]
    try:
        names = [encoded[i:j].decode("utf-8", "surrogatepass") for i, j in zip(begins, ends, strict=True)]
    except UnicodeDecodeError as error:
        raise InputError(f"a node name is not UTF-8 ({error.reason})") from error
    unpacked = np.empty(len(names), object)
    unpacked[:] = names
    return unpacked
