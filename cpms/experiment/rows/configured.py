"""The configuration of recorded rows: the copy that a run writes beside them, or one that ships with cpms."""

from __future__ import annotations

import hashlib
import json
import tomllib
from functools import lru_cache
from pathlib import Path

from cpms.base.atomic_files import replacing
from cpms.base.errors import InputError
from cpms.base.package_data import experiments
from cpms.experiment import config
from cpms.experiment.config import Experiment
from cpms.experiment.rows import commits, rows
from cpms.experiment.rows.changed import differs, parameters

_CONDITIONS = ("name", "kind", "threads", "affinity", "outliers")
"""Keys on which a measurement depends besides the parameters of its cell; ``warmup`` is compared with the row's."""


def save_copy(folder: Path, name: str, content: bytes) -> None:
    """Write a copy of a configuration beside its rows, unless the same one ships with cpms or lies there."""
    copy, others = folder / f"{name}.config.toml", (folder / f"{name}.toml", experiments().get(name))
    if any(other.read_bytes() == content for other in others if other is not None and other.is_file()):
        copy.unlink(missing_ok=True)
        return
    with replacing(copy) as temporary:
        temporary.write_bytes(content)


def of_rows(folder: Path, name: str) -> Experiment | None:
    """Return the present configuration of an experiment whose rows are in a folder; None if there is none.

    It is ``NAME.toml`` in the folder, the copy that the last run wrote there, or the one of that name that ships with
    cpms.
    """
    candidates = [folder / f"{name}.toml", folder / f"{name}.config.toml", experiments().get(name)]
    for path in candidates:
        if path is not None and path.is_file():
            try:
                found = config.read(path)
            except InputError:
                continue
            if found.name == name:
                return found
    return None


def digest(content: bytes) -> str:
    """Return the digest of a configuration, which comments and the order of keys do not change.

    Examples
    --------
    >>> digest(b"tol = 1e-6  # loose") == digest(b"tol = 0.000001") != digest(b"tol = 1e-7")
    True
    """
    text = json.dumps(tomllib.loads(content.decode()), sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def is_same(row: rows.Row, path: Path, repository: Path) -> bool:
    """Return whether the digest in a row is that of a configuration, or of an earlier version with the same cell.

    Such a version is in Git's history, and has the cell with the same parameters and conditions. Rows of earlier
    versions of cpms have the digest of the file's bytes.
    """
    recorded, content = row.get("config_sha256"), path.read_bytes()
    if recorded in _digests(content):
        return True
    before = _versions(repository).get(str(recorded))
    warmup = getattr(config.parsed(content, path), "warmup", 0)
    return before is not None and row.get("warmup", 0) == warmup and row["cell"] in _shared(before, content, path)


@lru_cache(maxsize=4)
def _versions(repository: Path) -> dict[str, bytes]:
    """Return the versions of configurations in Git's history by both of their digests."""
    return {name: content for content in commits.configurations(repository) for name in _digests(content)}


def _digests(content: bytes) -> set[str]:
    found = {hashlib.sha256(content).hexdigest()}
    try:
        return {*found, digest(content)}
    except ValueError:  # No TOML: some version in the history.
        return found


@lru_cache(maxsize=64)
def _shared(before: bytes, now: bytes, path: Path) -> set[str]:
    """Return the names of the cells that two versions have with equal parameters and conditions."""
    try:
        earlier, present = config.parsed(before, path), config.parsed(now, path)
    except InputError:
        return set()
    if any(getattr(earlier, key) != getattr(present, key) for key in _CONDITIONS):
        return set()
    found = {rows.cell_key(cell): parameters(earlier, cell) for cell in earlier.cells()}
    wanted = {rows.cell_key(cell): parameters(present, cell) for cell in present.cells()}
    return {name for name, given in wanted.items() if found.get(name) == given}


class Cells:
    """The cells of a configuration, by their names."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._cells = {rows.cell_key(cell): cell for cell in experiment.cells()}
        self._places = {name: place for place, name in enumerate(self._cells)}

    def place(self, row: rows.Row) -> int:
        """Return the place of a row's cell among these cells; after them if it is none of them."""
        return self._places.get(row["cell"], len(self._places))

    def hold(self, row: rows.Row) -> bool:
        """Return whether a row is of one of these cells, with its present parameters."""
        cell = self._cells.get(row["cell"])
        if cell is None:
            return False
        return "parameters" not in row or not differs(row["parameters"], parameters(self._experiment, cell))
