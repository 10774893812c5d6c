"""Files of rows: one JSON line for each finished cell, appended with one write and synchronised.

A lock keeps a file to one process. A torn last row of a killed run is cut off; any other line that is not a row is an
error.
"""

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
"""The beginning of every row that `RowFile` writes."""


def cell_key(cell: dict[str, Any]) -> str:
    """Return the name of a cell: a hash of its own parameters and nothing else.

    The name does not depend on other parts of the configuration, so that recorded rows remain valid.

    Examples
    --------
    >>> cell_key({"a": 1, "b": 2}) == cell_key({"b": 2, "a": 1})
    True
    """
    text = json.dumps(cell, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class RowFile:
    """An open file of rows, locked by this process.

    Parameters
    ----------
    descriptor : int
    done : dict of str to dict
        The rows of finished cells, by cell.
    """

    def __init__(self, descriptor: int, done: dict[str, Row]) -> None:
        self._descriptor = descriptor
        self.done = done

    def append(self, row: Row) -> None:
        """Append one row with one write, and synchronise the file."""
        line = json.dumps(row, allow_nan=False).encode() + b"\n"
        if os.write(self._descriptor, line) != len(line):
            raise OSError("the disk is full: a row could not be written whole")
        os.fsync(self._descriptor)
        self.done[row["cell"]] = row


@contextmanager
def opened(path: Path, measured: Row | None = None, *, experiment: str | None = None) -> Iterator[RowFile]:
    """Open a file of rows for appending, and cut off a torn last row.

    Rows that differ in one of the columns ``measured``, and rows of another experiment, do not count as done; they are
    not removed.

    Raises
    ------
    InputError
        If the folder cannot be made or written, the path is not a file, another run has locked it, or a line is not a
        row, other than a torn last one.
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
        if not path.exists() or not os.path.samestat(os.fstat(descriptor), path.stat()):
            raise InputError(f"{path}: another command has replaced it just now; run this one again")
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
    """Return the rows of a file, without a torn last row.

    Raises
    ------
    InputError
        If a line is not a row, or the file cannot be read.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is no file; move it away")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: rows cannot be read ({error.strerror})") from None
    return _parsed(path, content)[0]


def _parsed(path: Path, content: bytes) -> tuple[list[Row], int]:
    """Return the rows of a file, and the number of their bytes; the rest is a torn row."""
    parsed: list[Row] = []
    at = len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0
    for number, line in enumerate(content[at:].splitlines(keepends=True), 1):
        row = _row(line)
        if row is None:
            if at + len(line) == len(content) and _torn(line):
                return parsed, at
            raise InputError(
                f"{path}, line {number}: is not a row of an experiment; remove the line, or move the file away"
            )
        parsed.append(row)
        at += len(line)
    return parsed, at


def _row(line: bytes) -> Row | None:
    """Return the row of a line; None if the line is not one row."""
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
    """Return whether a value has the keys of every row, with their types."""
    if not (isinstance(row, dict) and all(isinstance(row.get(key), str) for key in ("cell", "experiment", "status"))):
        return False
    results, refused = row.get("results", []), row.get("refused", {})
    texts = all(isinstance(row.get(key, ""), str) for key in ("kind", "reason"))
    return texts and isinstance(refused, dict) and isinstance(results, list) and all(map(_is_result, results))


def _is_result(result: Any) -> bool:
    return isinstance(result, dict) and all(isinstance(result.get(key, ""), str) for key in ("status", "reason"))


def _torn(line: bytes) -> bool:
    """Return whether a last line is the beginning of a row, possibly followed by zeros of a crashed file system."""
    begun = line.rstrip(b"\0")
    if line.endswith((b"\n", b"\r")) or begun[: len(_BEGIN)] != _BEGIN[: len(begun)]:
        return False
    try:
        json.JSONDecoder().raw_decode(begun.decode(errors="replace"))
    except ValueError:
        return True
    except RecursionError:
        return False
    return False  # The line is a whole JSON value other than a row.


def _done(recorded: list[Row], measured: Row, experiment: str | None) -> dict[str, Row]:
    """Return the cells whose last row is final: it has such measurements, or a permanent reason."""
    own = [row for row in recorded if experiment in (None, row["experiment"])]
    last = {row["cell"]: row for row in own}
    return {
        cell: row
        for cell, row in last.items()
        if all(row.get(key, given) == given for key, given in measured.items()) and not may_pass(row)
    }
