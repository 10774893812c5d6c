"""Stored arrays in files of NumPy: ``.npz`` with the format besides the bytes, and ``.npy`` for plain float64.

Files are read without pickle, and fields are checked against each other before an array is made.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import host_memory
from cpms.base.atomic_files import replacing
from cpms.base.errors import InputError
from cpms.base.validation import shortened, whole
from cpms.formats.formats import FloatFormat, Format, SegmentFormat
from cpms.storage.array import SegmentedArray

_PLANES = -1
_MOST_EXPONENT = 2200
"""Bound of the binary exponents between the smallest float64 and the largest, with a margin for a format's range."""


def save(path: Path, stored: SegmentedArray) -> None:
    """Write a stored array of one dimension with its format as ``.npz``; an error leaves no part of a file behind.

    Examples
    --------
    >>> import cpms, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.npz"
    >>> save(path, cpms.encode([0.5], cpms.CPMS4))
    >>> load(path).decode().tolist()
    [0.5]
    """
    if not isinstance(stored.format, SegmentFormat | FloatFormat):
        raise InputError(
            f"{shortened(stored.format.name)} has a codec of its own, which .npz files cannot name; write a .cpms file"
        )
    if stored.ndim != 1:
        raise InputError(f"{path}: .npz files hold no shape, and the array has {stored.shape}; write a .cpms file")
    fields: dict[str, Any] = asdict(stored.format)
    if isinstance(stored.format, SegmentFormat):
        fields["block"] = _PLANES if stored.format.block is None else stored.format.block
    header = {
        "kind": type(stored.format).__name__,
        "length": stored.length,
        "exponent": stored.exponent,
        **fields,
    }
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, memory=stored.memory, **header)


def load(path: Path) -> SegmentedArray:
    """Read a stored array that `save` wrote.

    Raises
    ------
    InputError
        If the file is not such a file, or its parts do not fit together.
    """
    try:
        with path.open("rb") as file, np.lib.npyio.NpzFile(file, allow_pickle=False) as parts:
            fields = {name: parts[name] for name in parts.files}
        format = _format(fields)
        length, exponent = _whole(fields, "length"), _whole(fields, "exponent")
        memory = np.asarray(fields["memory"])
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  # NumPy and zipfile raise many kinds of errors.
        lacks = f"it holds no {error}" if isinstance(error, KeyError) else error
        raise InputError(f"{path}: not an array that 'cpms convert' wrote ({lacks})") from None
    if abs(exponent) > (_MOST_EXPONENT if isinstance(format, FloatFormat) else 0):
        raise InputError(f"{path}: holds the exponent {exponent}, which no array in {format.name} has")
    if memory.dtype != np.uint8 or memory.ndim != 1 or length < 0 or len(memory) != format.nbytes(length):
        raise InputError(f"{path}: holds {memory.nbytes} bytes, but {length} values in {format.name} need others")
    return SegmentedArray(memory, length, format, exponent)


def load_values(path: Path) -> npt.NDArray[np.float64]:
    """Read a one-dimensional float64 array from ``.npy``.

    Raises
    ------
    InputError
        If the file is not one.
    """
    if not path.exists():
        raise InputError(f"{path}: there is no such file")
    try:
        with path.open("rb") as file:
            values = np.lib.format.read_array(file, allow_pickle=False)
    except MemoryError:
        if path.stat().st_size > host_memory.free_bytes():
            raise
        raise InputError(
            f"{path}: not a readable .npy file (its header claims more values than the file has)"
        ) from None
    except Exception as error:  # noqa: BLE001  # NumPy raises many kinds of errors.
        raise InputError(f"{path}: not a readable .npy file ({error})") from None
    if values.ndim != 1 or values.dtype != np.float64:
        raise InputError(
            f"{path}: holds {values.dtype} of shape {values.shape}; one dimension of float64 is needed, as "
            "numpy.save(path, array.ravel().astype(float)) writes"
        )
    return values


def _format(fields: dict[str, Any]) -> Format:
    name, rounding, kind = str(fields["name"]), str(fields["rounding"]), str(fields["kind"])
    if kind == "FloatFormat":
        bits = _whole(fields, "exponent_bits"), _whole(fields, "mantissa_bits")
        scaled, seed = bool(fields["scaled"]), _whole(fields, "seed")
        return FloatFormat(name, *bits, rounding, scaled, seed)  # type: ignore[arg-type]
    block = _whole(fields, "block")
    widths = tuple(fields["widths"].tolist())
    return SegmentFormat(name, widths, None if block == _PLANES else block, rounding)  # type: ignore[arg-type]


def _whole(fields: dict[str, Any], name: str) -> int:
    return whole(name, fields[name].item())
