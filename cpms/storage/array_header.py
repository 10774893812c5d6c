"""The layout of files of stored arrays, which can be mapped into memory, and of which the first segments can be read.

A file has four parts: 8 bytes ``CPMSARR1``; the length of the header as a little-endian uint32; the header; and the
array's memory. The header is JSON in UTF-8 with the keys ``format`` (the format's name), ``length``, ``shape`` and
``exponent``. Spaces at its end let the memory begin at a multiple of 64 bytes. A reader finds the format by its name,
or is given it, so no file can run code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.atomic_files import replacing
from cpms.base.errors import InputError
from cpms.base.text.escape import abbreviate
from cpms.base.validation import described

_MAGIC = b"CPMSARR1"
_ALIGNED = 64
_MOST_HEADER = 1 << 16


def write_file(path: str | Path, header: dict[str, Any], memory: npt.NDArray[np.uint8]) -> None:
    """Write a header and an array's memory; an error leaves no part of a file behind."""
    if not isinstance(path, str | Path):
        raise InputError(f"path is {described(path)}; give the path of a file to write")
    text = json.dumps(header).encode()
    text += b" " * (-(len(_MAGIC) + 4 + len(text)) % _ALIGNED)
    with replacing(Path(path)) as temporary, temporary.open("wb") as file:
        file.write(_MAGIC + len(text).to_bytes(4, "little") + text)
        file.write(np.ascontiguousarray(memory).tobytes())


def read_header(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header, and the offset of the array's memory in the file."""
    try:
        with path.open("rb") as file:
            first = file.read(len(_MAGIC) + 4)
            size = int.from_bytes(first[len(_MAGIC) :], "little")
            if first[: len(_MAGIC)] != _MAGIC or size > _MOST_HEADER:
                raise InputError(f"{path}: is no file of a stored array; SegmentedArray.save writes one")
            header = json.loads(file.read(size).decode())
    except OSError as error:
        raise InputError(f"{abbreviate(str(path), 200)}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: its header is no JSON ({error})") from None
    if not isinstance(header, dict):
        raise InputError(f"{path}: its header is no JSON object")
    return header, len(first) + size
