"""Rows of an experiment: one JSON line a finished cell, on disk before the next cell begins."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cpms.errors import InputError
from cpms.experiment.outcome import may_pass

Row = dict[str, Any]
_BEGIN = b'{"cell": "'
"""Of every row that `RowFile` writes."""


def cell_key(cell: dict[str, Any]) -> str:
    """Return the name of a cell: a hash of its own parameters and nothing else.

    A cell keeps its name when other parts of the configuration change, so what is recorded stays.

    Examples
    --------
    >>> cell_key({"a": 1, "b": 2}) == cell_key({"b": 2, "a": 1})
    True
    """
    text = json.dumps(cell, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class RowFile:
    """An open file of rows that only this process appends to; ``done`` are the cells that need not run again."""

    def __init__(self, descriptor: int, done: set[str]) -> None:
        self._descriptor = descriptor
        self.done = done

    def append(self, row: Row) -> None:
        """Write one row in one piece and wait until the disk has it."""
        line = json.dumps(row, allow_nan=False).encode() + b"\n"
        if os.write(self._descriptor, line) != len(line):
            raise OSError("the disk is full: a row could not be written whole")
        os.fsync(self._descriptor)
        self.done.add(row["cell"])


@contextmanager
def opened(path: Path, measured: Row | None = None) -> Iterator[RowFile]:
    """Open a file of rows for appending, after cutting off a row that a killed run left unfinished.

    Rows that say of one of the columns ``measured`` that it was otherwise do not count as done.

    Raises
    ------
    InputError
        If the folder cannot be made or written, another run has the file open, or a line is no row, nor the begin
        of one that is the last.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    except OSError as error:
        raise InputError(f"{path}: rows cannot be written there ({error.strerror}); give another --output") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{path}: another run is writing it; wait for that, or give another --output") from None
        content = path.read_bytes()
        whole, last = _cut(content)
        recorded = _parsed(path, whole + last)
        if last:
            os.write(descriptor, b"\n")
        elif len(whole) < len(content):
            if not recorded and content[: len(_BEGIN)] != _BEGIN[: len(content)]:
                raise InputError(f"{path}: is no file of rows; move it away, or give another --output")
            os.ftruncate(descriptor, len(whole))
        yield RowFile(descriptor, _done(recorded, measured or {}))
    finally:
        os.close(descriptor)


def read(path: Path) -> list[Row]:
    """Return the whole rows of a file.

    Raises
    ------
    InputError
        If a line is no row.
    """
    return _parsed(path, b"".join(_cut(path.read_bytes())))


def _cut(content: bytes) -> tuple[bytes, bytes]:
    """Return the whole lines, and the last one without its end, if it is a row; nothing instead if it is none."""
    end = content.rfind(b"\n") + 1
    return content[:end], content[end:] if _row(content[end:]) else b""


def _row(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("cell"), str) else None


def _done(recorded: list[Row], measured: Row) -> set[str]:
    """Return the cells whose last row stands: it has measurements of that kind, or a reason that does not pass."""
    last = {row["cell"]: row for row in recorded}
    as_asked = {
        cell for cell, row in last.items() if all(row.get(key, given) == given for key, given in measured.items())
    }
    return {cell for cell in as_asked if not may_pass(last[cell])}


def _parsed(path: Path, content: bytes) -> list[Row]:
    parsed = []
    for number, line in enumerate(content.splitlines(), 1):
        row = _row(line)
        if row is None:
            raise InputError(f"{path}, line {number}: is not a row of an experiment; move the file away")
        parsed.append(row)
    return parsed
