"""Sparse matrices as SciPy's ``save_npz`` writes them: CSR, CSC or COO arrays by name.

They are checked and converted here, for SciPy trusts indices that would lead its C++ code astray.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.host_memory import graph_bytes, require_memory
from cpms.base.text.phases import phase
from cpms.graph.edge_list import EdgeList
from cpms.graph.read_record import ReadRecord
from cpms.sources.readers.assemble import assemble
from cpms.sources.readers.entries import wrong_weight
from cpms.sources.readers.options import ReadOptions

Arrays = dict[str, npt.NDArray[Any]]


@phase("checking entries")
def from_scipy_arrays(arrays: Arrays, name: str, options: ReadOptions) -> EdgeList:
    """Build a graph from the arrays of a SciPy ``.npz`` file: entry (i, j) is the edge i -> j.

    Raises
    ------
    InputError
        If the matrix is not square, is stored otherwise than CSR, CSC or COO, or has wrong indices or values.
    KeyError
        If an array is missing.
    """
    layout, shape, data = layout_of(arrays), integers(arrays, "shape"), arrays["data"]
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 1:
        raise InputError(f"the matrix has shape {shape.tolist()}; a graph needs a square one")
    if data.dtype.kind not in "biuf":
        raise InputError(f"the matrix holds {data.dtype}; edges need real weights")
    nodes = int(shape[0])
    require_memory(graph_bytes(nodes, len(data), weighted=True), f"{nodes:,} nodes and {len(data):,} entries")
    if layout in ("csr", "csc"):
        check_rows(integers(arrays, "indptr"), integers(arrays, "indices"), nodes)
    rows, columns = places(arrays)
    weights = None if data.dtype.kind == "b" and data.all() else data.astype(np.float64, copy=False)
    if weights is not None and options.weights == "auto":
        least = weights > 0 if options.zero_weights == "refuse" else weights >= 0
        wrong = np.flatnonzero(~(least & np.isfinite(weights)))
        if len(wrong):
            entry = int(wrong[0])
            raise InputError(f"entry {entry + 1} of {len(weights):,} has {wrong_weight(float(weights[entry]))}")
    valued = weights is not None and options.weights == "auto"
    record = ReadRecord(
        form=f"SciPy .npz, {layout}",
        weights=f"the values of the entries, {data.dtype}" if valued else None,
    )
    return assemble(rows, columns, weights, options, nodes=nodes, name=name, label=f"graph {name}", record=record)


def layout_of(arrays: Arrays) -> str:
    """Return the layout that the arrays are in, such as "csr"."""
    return "".join(map(str, np.char.decode(arrays["format"].astype("S"), "latin-1")))


def places(arrays: Arrays) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return row and column of each entry of a matrix in CSR, CSC or COO, one each for a value; not their range.

    Raises
    ------
    InputError
        If the matrix has another layout, its rows are not in order, or there are more values or fewer.
    KeyError
        If an array is missing.
    """
    layout, values = layout_of(arrays), len(arrays["data"])
    if layout == "coo":
        first, second = integers(arrays, "row"), integers(arrays, "col")
    elif layout in ("csr", "csc"):
        starts, second = integers(arrays, "indptr"), integers(arrays, "indices")
        if not len(starts) or starts[0] != 0 or starts[-1] != len(second) or (starts[1:] < starts[:-1]).any():
            raise InputError(f"row starts do not ascend from 0 to {len(second)}")
        first = np.repeat(np.arange(len(starts) - 1, dtype=_index_type(second, len(starts))), np.diff(starts))
    else:
        raise InputError(f"the matrix is stored as {layout!r}; convert it to csr, csc or coo")
    if values != len(first):
        raise InputError(f"{values} values for {len(first)} entries")
    return (second, first) if layout == "csc" else (first, second)


def _index_type(ids: npt.NDArray[Any], count: int) -> np.dtype[Any]:
    """Return the type of ids if it has numbers up to a count, else int64: edges of one type take no conversion."""
    return ids.dtype if count <= np.iinfo(ids.dtype).max else np.dtype(np.int64)


def integers(arrays: Arrays, key: str) -> npt.NDArray[Any]:
    """Return an array after checking that it holds integers that fit int64."""
    array = arrays[key]
    if array.dtype.kind not in "iu" or (array.dtype.kind == "u" and (array > np.iinfo(np.int64).max).any()):
        raise InputError(f"array {key} holds {array.dtype}; it needs integers below 2**63")
    return array.astype(np.int64) if array.dtype == np.uint64 else array


def check_rows(indptr: npt.NDArray[Any], indices: npt.NDArray[Any], nodes: int) -> None:
    """Raise `InputError` unless the arrays are the compressed rows of ``nodes`` nodes."""
    if nodes < 1 or len(indptr) != nodes + 1:
        raise InputError(f"{len(indptr)} row starts for {nodes} nodes; there must be one more than nodes")
    if indptr[0] != 0 or indptr[-1] != len(indices) or (indptr[1:] < indptr[:-1]).any():
        raise InputError(f"row starts do not ascend from 0 to {len(indices)}")
    if len(indices) and not (indices.min() >= 0 and indices.max() < nodes):
        raise InputError(f"node indices are out of range; the graph has {nodes} nodes")
