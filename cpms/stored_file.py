"""Segmented arrays in files: ``.npz`` without pickle, ``.npy`` for plain float64."""

from __future__ import annotations

import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.errors import InputError
from cpms.format import FloatFormat, Format, SegmentFormat
from cpms.segmented import SegmentedArray
from cpms.writing import replacing

_PLANES = -1


def save(path: Path, stored: SegmentedArray) -> None:
    """Write a stored array with its format as ``.npz``, whole or not at all.

    Examples
    --------
    >>> import cpms, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.npz"
    >>> save(path, cpms.encode([0.5], cpms.CPMS4))
    >>> load(path).decode().tolist()
    [0.5]
    """
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
    """Read what `save` wrote.

    Raises
    ------
    InputError
        If the file is not such a file, or its parts do not fit together.
    """
    try:
        with path.open("rb") as file, np.lib.npyio.NpzFile(file, allow_pickle=False) as parts:
            fields = {name: parts[name] for name in parts.files}
        format = _format(fields)
        length, exponent = int(fields["length"]), int(fields["exponent"])
        memory = fields["memory"]
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError, AttributeError) as error:
        lacks = f"it holds no {error}" if isinstance(error, KeyError) else error
        raise InputError(f"{path}: not an array that 'cpms convert' wrote ({lacks})") from None
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
    try:
        with path.open("rb") as file:
            values = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: not a readable .npy file ({error})") from None
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype != np.float64:
        raise InputError(f"{path}: must hold a one-dimensional float64 array")
    return values


def _format(fields: dict[str, Any]) -> Format:
    name, rounding, kind = str(fields["name"]), str(fields["rounding"]), str(fields["kind"])
    if kind == "FloatFormat":
        bits = int(fields["exponent_bits"]), int(fields["mantissa_bits"])
        return FloatFormat(name, *bits, rounding, bool(fields["scaled"]), int(fields["seed"]))  # type: ignore[arg-type]
    block = int(fields["block"])
    widths = tuple(int(width) for width in fields["widths"])
    return SegmentFormat(name, widths, None if block == _PLANES else block, rounding)  # type: ignore[arg-type]
