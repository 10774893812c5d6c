"""Decompressed bytes of gzip, bzip2, xz, Zstandard and of a zip archive's only member, as a file read forward.

Standard decompressors do the work; Zstandard is Python's own from 3.14 on, before that the library `backports.zstd` of
the same code.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from importlib import import_module
from pathlib import PurePath
from typing import IO, Any

from cpms.base.errors import InputError, UnavailableError
from cpms.sources.readers.kinds import is_resource_fork

BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
"""Errors of decompressors on broken bytes."""
_OF_ZIP = (ValueError, NotImplementedError, RuntimeError)
"""Further errors of zip archives."""
MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
"""Compressions by the first bytes of a file."""


def decompressed(raw: IO[bytes], compression: str | None, label: str) -> IO[bytes]:
    """Return the decompressed bytes of an open file.

    Parameters
    ----------
    raw : binary file
    compression : str or None
        One of `cpms.sources.readers.kinds.COMPRESSIONS`; None for bytes as they are.
    label : str
        What errors call the file.

    Raises
    ------
    InputError
        If a zip archive does not hold one file, or compresses it by a method that Python does not know.
    UnavailableError
        If there is no library for Zstandard.
    """
    opened: Any = raw
    if compression == ".gz":
        opened = gzip.GzipFile(fileobj=raw)
    elif compression == ".bz2":
        opened = bz2.BZ2File(raw)
    elif compression == ".xz":
        opened = lzma.LZMAFile(raw)  # noqa: SIM115
    elif compression == ".zst":
        opened = _zstandard(raw, label)
    elif compression == ".zip":
        archive, member = only_member(raw, label)
        try:
            opened = io.BufferedReader(_Translated(archive.open(member), *_OF_ZIP))
        except _OF_ZIP as error:
            raise InputError(
                f"{label}: its member {member.filename!a} cannot be read ({error}); unpack it, and give the file"
            ) from None
    file: IO[bytes] = opened
    return file


def only_member(raw: IO[bytes], label: str) -> tuple[zipfile.ZipFile, zipfile.ZipInfo]:
    """Return a zip archive and its only file, not counting those of macOS.

    Raises
    ------
    InputError
        If it is no zip archive, holds no file, several or an encrypted one.
    """
    try:
        archive = zipfile.ZipFile(raw)
    except (*BROKEN, ValueError, NotImplementedError, RuntimeError) as error:
        raise InputError(
            f"{label}: no whole zip archive, by byte {raw.tell()} ({error}); fetch the file again"
        ) from None
    members = [
        each
        for each in archive.infolist()
        if not (each.filename.endswith("/") or is_resource_fork(PurePath(each.filename)))
    ]
    if len(members) != 1:
        names = ", ".join(each.filename for each in members[:5])
        raise InputError(
            f"{label}: the archive holds {len(members)} files{': ' + ascii(names) if names else ''}; one is read, so "
            "unpack it and give the file of the graph"
        )
    if members[0].flag_bits & 1:
        raise InputError(f"{label}: its member {members[0].filename!a} is encrypted; unpack it, and give the file")
    return archive, members[0]


def _zstandard(raw: IO[bytes], label: str) -> IO[bytes]:
    for module in ("compression.zstd", "backports.zstd"):
        try:
            library = import_module(module)
        except ImportError:
            continue
        return io.BufferedReader(_Translated(library.ZstdFile(raw), library.ZstdError))
    raise UnavailableError(
        f"{label}: needs a library for Zstandard; pip install backports.zstd, or decompress the file"
    )


class _Translated(io.RawIOBase):
    """A file whose decompressor raises errors of kinds of its own: here they are of those in `BROKEN`."""

    def __init__(self, file: Any, *errors: type[Exception]) -> None:
        self._file, self._errors = file, errors

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._file.readinto(buffer))
        except self._errors as error:
            raise OSError(str(error)) from error
