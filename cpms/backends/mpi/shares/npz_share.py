"""A rank's share of an ``.npz`` file: a range of its edges, mapped into memory and copied from there."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from cpms.backends.mpi.shares.redistribution import Share
from cpms.base.errors import InputError
from cpms.sources.readers.npz import VERSION, array_header, only, stored_array
from cpms.sources.readers.scipy_npz import integers

_LOCAL_HEADER = 30
_SINGLE = ("cpms_graph.npy", "name.npy", "first_id.npy", "stand_in_for.npy")
"""Members that hold one value, which every rank reads."""

_Arrays = dict[str, npt.NDArray[Any]]


def read(path: Path, rank: int, ranks: int) -> Share:
    """Return the edges of one rank, in the order of the file.

    Raises
    ------
    InputError
        If `cpms.sources.readers.npz.save_npz` did not write the file, its nodes have names, or the share is corrupt.
    """
    try:
        return _share(_arrays(path), rank, ranks)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _arrays(path: Path) -> _Arrays:
    """Return the arrays of a graph, mapped but for single values."""
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            arrays = {
                info.filename.removesuffix(".npy"): stored_array(archive, info.filename)
                if info.filename in _SINGLE
                else _mapped(path, file, info)
                for info in archive.infolist()
                if "cpms_graph.npy" in archive.namelist()
            }
    except (InputError, MemoryError):
        raise
    except Exception as error:
        # On broken bytes, zipfile and the header parser raise errors of many kinds.
        raise InputError(f"corrupt .npz file ({' '.join(str(error).split())})") from error
    if "cpms_graph" not in arrays or arrays["cpms_graph"].tolist() != [VERSION]:
        raise InputError("cpms.sources.readers.npz.save_npz did not write it; load it and save it so, or use --whole")
    if "names" in arrays or "names_utf8" in arrays:
        raise InputError("its nodes have names; ranks read numbered nodes alone, so use --whole")
    return arrays


def _share(arrays: _Arrays, rank: int, ranks: int) -> Share:
    try:
        share = _edges(arrays, rank, ranks)
        share.name = str(only(arrays["name"]))
        share.first_id = int(only(integers(arrays, "first_id")))
        share.stand_in_for = str(only(arrays["stand_in_for"])) if "stand_in_for" in arrays else None
    except (InputError, KeyError) as error:
        raise InputError(f"the arrays are corrupt ({error}); save the graph again") from None
    return share


def _edges(arrays: _Arrays, rank: int, ranks: int) -> Share:
    indptr, weights = arrays["indptr"], arrays.get("weights")
    nodes, edges = len(indptr) - 1, len(arrays["sources"])
    if nodes < 1 or indptr[0] != 0 or indptr[-1] != edges:
        raise InputError(f"row starts do not run from 0 to {edges}")
    part = indptr[nodes * rank // ranks : nodes * (rank + 1) // ranks + 1]
    if (part[1:] < part[:-1]).any():
        raise InputError("row starts do not ascend")
    begin, end = (edges * place // ranks for place in (rank, rank + 1))
    first = int(np.searchsorted(indptr, begin, side="right")) - 1
    last = int(np.searchsorted(indptr, end, side="left"))
    counts = np.diff(np.clip(indptr[first : last + 1], begin, end))
    sources = np.array(arrays["sources"][begin:end])
    if (counts < 0).any() or counts.sum() != len(sources):
        raise InputError(f"the rows do not hold {edges} edges")
    if len(sources) and not (sources.min() >= 0 and sources.max() < nodes):
        raise InputError(f"a source is no node; the graph has {nodes}")
    own_weights = None
    if weights is not None:
        own_weights = np.array(weights[begin:end], np.float64)
        if len(weights) != edges or not ((own_weights > 0) & np.isfinite(own_weights)).all():
            raise InputError("weights are not positive finite numbers, one an edge")
    ids = np.int32 if nodes < 2**31 else np.int64
    targets = np.repeat(np.arange(first, first + len(counts), dtype=ids), counts)
    return Share(sources.astype(ids, copy=False), targets, own_weights, nodes, "graph")


def _mapped(path: Path, file: BinaryIO, info: zipfile.ZipInfo) -> npt.NDArray[Any]:
    """Return an array that is stored in an archive, without reading it."""
    if info.compress_type != zipfile.ZIP_STORED:
        raise InputError(f"array {info.filename} is compressed, so no rank can map its share; use --whole")
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER)
    file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
    begin = file.tell()
    shape, dtype = array_header(file, info.filename)
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.kind not in "iuf" or count * dtype.itemsize != info.file_size - (file.tell() - begin):
        raise InputError(f"array {info.filename} is not the numbers that it declares; save the graph again")
    if count == 0:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", file.tell(), shape)
