"""Reading of stored arrays from files: whole, mapped into memory, or in their first segments alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from cpms.base import plugins
from cpms.base.errors import InputError
from cpms.base.validation import described
from cpms.formats.formats import Format, SegmentFormat, format_of
from cpms.storage.array import SegmentedArray
from cpms.storage.array_header import read_header
from cpms.storage.segment_views import segment_parts


def load_array(
    path: str | Path, *, format: Format | str | None = None, mapped: bool = False, read: int | None = None
) -> SegmentedArray:
    """Return the array that `SegmentedArray.save` wrote.

    Parameters
    ----------
    path : str or Path
    format : Format or str, optional
        Format of the array, needed where the package has none of the name in the file.
    mapped : bool
        Map the file into memory, read-only, so that no byte is read before it is used. Without effect if ``read`` is
        given.
    read : int, optional
        Read the first segments alone, into memory; the others are 0. Of an array in planes, no other bytes of the file
        are read. A format of one's own needs ``segment_of`` for that.

    Raises
    ------
    InputError
        If the file is not one of a stored array, or its format is unknown.

    Examples
    --------
    >>> import cpms, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.cpms"
    >>> cpms.encode([0.1, 2.0], "cpms4-planes").save(path)
    >>> cpms.load_array(path).decode().tolist(), cpms.load_array(path, read=1).decode(1).tolist()
    ([0.1, 2.0], [0.09765625, 2.0])
    """
    if not isinstance(path, str | Path):
        raise InputError(f"path is {described(path)}; give the path of a file that SegmentedArray.save wrote")
    file, (header, begin) = Path(path), read_header(Path(path))
    try:
        with plugins.allowed(format is not None):
            storage = format_of(str(header["format"]) if format is None else format)
        length, exponent = int(header["length"]), int(header["exponent"])
        shape = tuple(int(size) for size in header["shape"])
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise InputError(f"{file}: {error}; give its format: --of NAME, or format= in Python") from None
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
    count = storage.checked_read(read)
    if count == storage.levels or not isinstance(storage, SegmentFormat):
        memory[:] = mapping
    else:
        for start, stop in segment_parts(storage, length, count):
            memory[start:stop] = mapping[start:stop]
    found = SegmentedArray(memory, length, storage, exponent, shape)
    if not isinstance(storage, SegmentFormat):
        for k in range(count, storage.levels):
            found.segment(k)[...] = 0
    return found
