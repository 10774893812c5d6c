"""Stored arrays in files of a documented layout, which are mapped into memory and of which the first segments are read.

A file is: 8 bytes ``CPMSARR1``; the length of the header as a little-endian uint32; the header, JSON in UTF-8 with the
keys ``format`` (the format's name), ``length``, ``shape`` and ``exponent``, filled with spaces so that what follows
begins at a multiple of 64 bytes; and the array's memory. Formats are found again by their names, or are given by the
reader, so that no file runs code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import plugins
from cpms.base.atomic_files import replacing
from cpms.base.errors import InputError
from cpms.formats.formats import Format, SegmentFormat, format_of
from cpms.storage.array import SegmentedArray
from cpms.storage.segment_views import segment_parts

_MAGIC = b"CPMSARR1"
_ALIGNED = 64
_MOST_HEADER = 1 << 16


def save_array(path: str | Path, stored: SegmentedArray) -> None:
    """Write a stored array in main memory, whole or not at all.

    Examples
    --------
    >>> import cpms, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.cpms"
    >>> save_array(path, cpms.encode([0.1, 2.0], "cpms4-planes"))
    >>> load_array(path).decode().tolist(), load_array(path, read=1).decode(1).tolist()
    ([0.1, 2.0], [0.099609375, 2.0])
    """
    header = {
        "format": stored.format.name,
        "length": stored.length,
        "shape": list(stored.shape),
        "exponent": stored.exponent,
    }
    text = json.dumps(header).encode()
    text += b" " * (-(len(_MAGIC) + 4 + len(text)) % _ALIGNED)
    with replacing(Path(path)) as temporary, temporary.open("wb") as file:
        file.write(_MAGIC + len(text).to_bytes(4, "little") + text)
        file.write(np.ascontiguousarray(stored.memory).tobytes())


def load_array(
    path: str | Path, *, format: Format | str | None = None, mapped: bool = False, read: int | None = None
) -> SegmentedArray:
    """Return the array that `save_array` wrote.

    Parameters
    ----------
    path : str or Path
    format : Format or str, optional
        Of the array, where its name is not that of a format of the package.
    mapped : bool
        Map the file into memory, read-only, and read no byte before it is used.
    read : int, optional
        Read the first segments alone; the others are 0. Of planes, the file's other bytes are not touched.

    Raises
    ------
    InputError
        If it is no such file.
    """
    file, (header, begin) = Path(path), _header(Path(path))
    try:
        with plugins.allowed(format is not None):
            storage = format_of(str(header["format"]) if format is None else format)
        length, exponent = int(header["length"]), int(header["exponent"])
        shape = tuple(int(size) for size in header["shape"])
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise InputError(f"{file}: {error}; give format=") from None
        raise InputError(f"{file}: its header is not that of a stored array ({error})") from None
    if storage.name != header["format"]:
        raise InputError(f"{file}: holds values in {header['format']}, not {storage.name}")
    nbytes = storage.nbytes(length)
    if file.stat().st_size != begin + nbytes:
        held = file.stat().st_size - begin
        raise InputError(f"{file}: holds {held} bytes of values; {length} in {storage.name} need {nbytes}")
    mapping: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)
    if nbytes:
        mapping = np.memmap(file, np.uint8, "r", begin, (nbytes,)).view(np.ndarray)
    if mapped and read is None:
        return SegmentedArray(mapping, length, storage, exponent, shape)
    memory = np.zeros(nbytes, np.uint8)
    if read is None or not isinstance(storage, SegmentFormat):
        storage.checked_read(read)
        memory[:] = mapping
    else:
        for start, stop in segment_parts(storage, length, storage.checked_read(read)):
            memory[start:stop] = mapping[start:stop]
    return SegmentedArray(memory, length, storage, exponent, shape)


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header and where the memory begins."""
    try:
        with path.open("rb") as file:
            first = file.read(len(_MAGIC) + 4)
            size = int.from_bytes(first[len(_MAGIC) :], "little")
            if first[: len(_MAGIC)] != _MAGIC or size > _MOST_HEADER:
                raise InputError(f"{path}: is no file of a stored array; SegmentedArray.save writes one")
            header = json.loads(file.read(size).decode())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: its header is no JSON ({error})") from None
    if not isinstance(header, dict):
        raise InputError(f"{path}: its header is no JSON object")
    return header, len(first) + size
