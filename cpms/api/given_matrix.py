"""Conversion of the arguments of `cpms.matrix`: any matrix becomes compressed sparse rows, any name a format."""

from __future__ import annotations

import dataclasses
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from cpms.base.errors import CpmsError, InputError
from cpms.base.text.phases import phase
from cpms.base.validation import shortened
from cpms.contracts.product_request import ProductRequest
from cpms.formats.block_float import BLOCK_FLOATS, BlockFloatFormat
from cpms.formats.codes import CODES8, CodeFormat, ValueFormat
from cpms.formats.formats import format_of
from cpms.formats.magnitude import MagnitudeSplit, split_named
from cpms.graph.graph import Graph
from cpms.sources.readers.stream import open_stream
from cpms.sparse.lossless import lossless_storage
from cpms.sparse.matrix import Matrix
from cpms.sparse.transition import transition


@phase("arranging entries by row")
def given_matrix(A: Any, shape: tuple[int, int] | None) -> Matrix:
    """Return the matrix that a user gave, whatever it is; see `cpms.matrix`.

    Examples
    --------
    >>> given_matrix(([0], [1], [2.5]), (2, 2)).to_scipy().toarray().tolist()
    [[0.0, 2.5], [0.0, 0.0]]
    """
    if shape is not None and not isinstance(A, tuple):
        raise InputError("shape is for triplets (rows, columns, values); all else has a shape of its own")
    if isinstance(A, Matrix):
        return A
    if isinstance(A, Graph):
        return transition(A)
    if isinstance(A, str | Path):
        return _read(Path(A))
    if isinstance(A, tuple):
        if len(A) not in (2, 3):
            raise _refusal(A)
        return Matrix.from_triplets(*A, shape=shape)
    if scipy.sparse.issparse(A) or type(A).__module__.startswith("cupyx.scipy.sparse"):
        return Matrix.from_scipy(A)
    if isinstance(A, list) or hasattr(A, "__array__") or hasattr(A, "__dlpack__"):
        return Matrix.from_dense(A)
    raise _refusal(A)


def _refusal(A: Any) -> InputError:
    return InputError(
        f"a matrix cannot be made of {type(A).__name__}; give a sparse matrix of SciPy or CuPy, an array, triplets "
        "(rows, columns, values), a .mtx or .npz file or a cpms.Graph"
    )


def _read(path: Path) -> Matrix:
    """Read a Matrix Market file, of which SciPy fills in what symmetry leaves out, or an ``.npz`` file of SciPy."""
    import scipy.io

    if not os.path.isfile(path):  # noqa: PTH113 - a Path raises errors for some names that no file can have
        raise InputError(
            f"{shortened(str(path))}: there is no such file; a matrix is read from .mtx and .npz files, and "
            "cpms.sources.matrices.generate makes those of names such as stencil:points=7,side=32"
        )
    if path.suffix == ".npz":
        return _read_npz(path)
    try:
        field, symmetry = scipy.io.mminfo(path)[4:]
        if field == "complex":
            raise InputError(f"{path}: the matrix is complex; only real matrices have storage formats")
        with open_stream(path) as stream:
            read = scipy.io.mmread(stream.inner, spmatrix=False)
    except MemoryError:
        raise InputError(f"{path}: the matrix does not fit into memory; use a machine with more") from None
    except (ValueError, OSError, EOFError, OverflowError, zlib.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: not a Matrix Market file ({shortened(str(error))}); give a .mtx file of scipy.io.mmwrite "
            "or a .npz file of scipy.sparse.save_npz"
        ) from None
    try:
        found = Matrix.from_scipy(read) if scipy.sparse.issparse(read) else Matrix.from_dense(read)
    except CpmsError as error:
        raise type(error)(f"{path}: {error}") from None
    if symmetry != "general" and scipy.sparse.issparse(read) and found.entries < read.nnz:
        raise InputError(
            f"{path}: the file says that the matrix is {symmetry}, and has an entry twice or on both sides of the "
            "diagonal; give the entries on and below the diagonal once each, or say general"
        )
    is_pattern = field == "pattern" and symmetry != "skew-symmetric"  # Whose entries are 1 and -1.
    return dataclasses.replace(found, values=None) if is_pattern else found


def _read_npz(path: Path) -> Matrix:
    """Read a sparse matrix that SciPy's ``save_npz`` wrote."""
    from cpms.sources.readers.npz import arrays_of
    from cpms.sources.readers.scipy_npz import integers, places

    arrays = arrays_of(path)
    try:
        if "cpms_graph" in arrays:
            raise InputError("it holds a graph; give cpms.load of the file, for its transition matrix")
        shape = integers(arrays, "shape")
        if len(shape) != 2:
            raise InputError(f"the matrix has shape {shape.tolist()}; give two dimensions")
        return Matrix.from_triplets(*places(arrays), arrays["data"], shape=(int(shape[0]), int(shape[1])))
    except KeyError as error:
        raise InputError(f"{path}: there is no array {error}; scipy.sparse.save_npz writes such files") from None
    except CpmsError as error:
        raise InputError(f"{path}: {error}") from None


def storage_of(storage: ValueFormat | MagnitudeSplit | str, given: Matrix) -> ValueFormat | MagnitudeSplit:
    """Return a format or split that is given by itself or by its name, or the format that `lossless_storage` finds.

    Examples
    --------
    >>> storage_of("lossless", given_matrix([[2.0, -1.0]], None)).name
    'e4m3'
    """
    if isinstance(storage, CodeFormat | BlockFloatFormat | MagnitudeSplit):
        return storage
    if isinstance(storage, str) and storage == "lossless":
        return given.once("lossless", lambda: lossless_storage(given.given_values()))
    return named_storage(storage) if isinstance(storage, str) else format_of(storage)


def named_storage(name: str) -> ValueFormat | MagnitudeSplit:
    """Return the format or split of matrices that a name other than ``lossless`` stands for, whatever the matrix."""
    named = {format.name: format for format in (CODES8, *BLOCK_FLOATS)}
    return named.get(name) or split_named(name) or format_of(name)


def require_range(given: Matrix, request: ProductRequest) -> None:
    """Refuse values beyond float32 where products compute in it and no scale brings the values into its range."""
    if request.compute == "fp64" or request.scaling == "rows" or getattr(request.storage, "scaled", False):
        return
    largest, end = float(np.abs(given.given_values()).max(initial=0.0)), float(np.finfo(np.float32).max)
    if largest > end:
        raise InputError(
            f"the matrix holds a value of size {largest}, too large for products in fp32, which end at {end}; use "
            "compute='fp64', or a storage such as fp16-scaled"
        )
