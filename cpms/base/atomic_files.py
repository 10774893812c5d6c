"""Atomic replacement of files: written under a temporary name in the same folder, then renamed.

A rename within a file system is atomic (POSIX), so an interrupted program leaves the old file or none, and readers see
a whole one. It costs a system call.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cpms.base.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that is renamed to ``path`` when the block succeeds.

    Raises
    ------
    InputError
        If the folder does not exist or cannot be written, or the disk is full.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> target.read_text()
    'whole'
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".cpms-", suffix=path.suffix)
    except OSError as error:
        raise InputError(f"{path}: cannot write there ({error.strerror or error}); give a folder that exists") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror or error}); give a file name on a disk with room"
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Refuse a path whose folder cannot be written, before any computation.

    Raises
    ------
    InputError
        If the path is a folder, or its folder does not exist or cannot be written.
    """
    folder = path.parent
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give a file name")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{path}: folder {folder} does not exist or cannot be written; give another")


def refuse_replacing(path: Path, option: str, read: Iterable[Path | str]) -> None:
    """Refuse an output of an option that is one of the files that a program reads.

    Raises
    ------
    InputError

    Examples
    --------
    >>> refuse_replacing(Path("ranks.npy"), "--output", ["web.mtx"])
    """
    for each in read:
        if os.path.isfile(each) and path.exists() and path.samefile(each):  # noqa: PTH113 - False for impossible names
            raise InputError(f"{path}: is read, and {option} would replace it; give another file name")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
