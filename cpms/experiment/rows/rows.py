"""Rows of an experiment: one JSON line a finished cell, on disk before the next cell begins."""

from __future__ import annotations

import codecs
import fcntl
import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cpms.base.errors import InputError
from cpms.experiment.rows.outcome import may_pass

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
    """An open file of rows that only this process appends to.

    Parameters
    ----------
    descriptor : int
    done : dict of str to dict
        The rows of the cells that need not run again, by cell.
    """

    def __init__(self, descriptor: int, done: dict[str, Row]) -> None:
        self._descriptor = descriptor
        self.done = done

    def append(self, row: Row) -> None:
        """Write one row in one piece and wait until the disk has it."""
        line = json.dumps(row, allow_nan=False).encode() + b"\n"
        if os.write(self._descriptor, line) != len(line):
            raise OSError("the disk is full: a row could not be written whole")
        os.fsync(self._descriptor)
        self.done[row["cell"]] = row


@contextmanager
def opened(path: Path, measured: Row | None = None, *, experiment: str | None = None) -> Iterator[RowFile]:
    """Open a file of rows for appending, after cutting off a row that a killed run left unfinished.

    Rows that say of one of the columns ``measured`` that it was otherwise do not count as done, nor do those of
    another experiment, which stay where they are.

    Raises
    ------
    InputError
        If the folder cannot be made or written, there is something else than a file, another run has the file open, or
        a line is no row, nor the begin of one that is the last.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A pipe would wait for a reader.
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise InputError(f"{path}: rows cannot be written there ({error.strerror}); give another --output") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InputError(f"{path}: is no file but a pipe or a device; move it away, or give another --output")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{path}: another run is writing it; wait for that, or give another --output") from None
        content = path.read_bytes()
        recorded, whole = _parsed(path, content)
        if whole == len(content) and content and not content.endswith(b"\n"):
            os.write(descriptor, b"\n")
        elif whole < len(content):
            os.ftruncate(descriptor, whole)
        yield RowFile(descriptor, _done(recorded, measured or {}, experiment))
    finally:
        os.close(descriptor)


def read(path: Path) -> list[Row]:
    """Return the whole rows of a file, without the last one if a killed run left it unfinished.

    Raises
    ------
    InputError
        If a line is no row, or the file cannot be read.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is no file; move it away")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: rows cannot be read ({error.strerror})") from None
    return _parsed(path, content)[0]


def _parsed(path: Path, content: bytes) -> tuple[list[Row], int]:
    """Return the rows of a file, and how many of its bytes hold them: what follows is a row that was torn."""
    parsed: list[Row] = []
    at = len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0
    for number, line in enumerate(content[at:].splitlines(keepends=True), 1):
        row = _row(line)
        if row is None:
            if at + len(line) == len(content) and _torn(line):
                return parsed, at
            raise InputError(f"{path}, line {number}: is not a row of an experiment; move the file away")
        parsed.append(row)
        at += len(line)
    return parsed, at


def _row(line: bytes) -> Row | None:
    """Return the row that a line holds, if it holds one and nothing else."""
    try:
        row = json.loads(line.decode(), object_pairs_hook=_once, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        return None
    return row if _is_row(row) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number that a row can hold")
    return number


def _is_row(row: Any) -> bool:
    """Say whether a value has what every row has, in the types that every row has it in."""
    if not (isinstance(row, dict) and all(isinstance(row.get(key), str) for key in ("cell", "experiment", "status"))):
        return False
    results, refused = row.get("results", []), row.get("refused", {})
    texts = all(isinstance(row.get(key, ""), str) for key in ("kind", "reason"))
    return texts and isinstance(refused, dict) and isinstance(results, list) and all(map(_is_result, results))


def _is_result(result: Any) -> bool:
    return isinstance(result, dict) and all(isinstance(result.get(key, ""), str) for key in ("status", "reason"))


def _torn(line: bytes) -> bool:
    """Say whether a last line is the begin of a row, perhaps followed by zeros that a disk holds after a crash."""
    begun = line.rstrip(b"\0")
    if line.endswith((b"\n", b"\r")) or begun[: len(_BEGIN)] != _BEGIN[: len(begun)]:
        return False
    try:
        json.JSONDecoder().raw_decode(begun.decode(errors="replace"))
    except ValueError:
        return True
    except RecursionError:
        return False
    return False  # A whole value, which is no row.


def _done(recorded: list[Row], measured: Row, experiment: str | None) -> dict[str, Row]:
    """Return the cells whose last row stands: it has measurements of that kind, or a reason that does not pass."""
    own = [row for row in recorded if experiment in (None, row["experiment"])]
    last = {row["cell"]: row for row in own}
    return {
        cell: row
        for cell, row in last.items()
        if all(row.get(key, given) == given for key, given in measured.items()) and not may_pass(row)
    }
