"""Removal of rows that no figure needs: of bad input, and of cells that the configuration no longer has.

The file is replaced as a whole, under its lock, and a copy of the old one stays beside it.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cpms.base.atomic_files import replacing
from cpms.base.errors import InputError
from cpms.base.package_data import folder
from cpms.base.text.counted import counted
from cpms.experiment.rows import rows
from cpms.experiment.rows.configured import of_rows
from cpms.experiment.rows.outcome import BAD_INPUT

_BAD, _GONE = "of bad input", "of cells that the configuration no longer has"


class Pruned(NamedTuple):
    """What was removed from a file of rows.

    Parameters
    ----------
    path : Path
    kept : int
        Rows that the file still has.
    removed : dict of str to int
        Numbers of removed rows by the reason.
    copy : Path or None
        The copy of the file as it was; None if nothing was removed.
    """

    path: Path
    kept: int
    removed: dict[str, int]
    copy: Path | None

    def sentence(self) -> str:
        """Return the numbers in words.

        Examples
        --------
        >>> Pruned(Path("out/mine.jsonl"), 18, {"of bad input": 2}, Path("out/mine.jsonl.bak")).sentence()
        'out/mine.jsonl: 2 rows removed (2 of bad input), 18 kept; the file as it was: out/mine.jsonl.bak'
        """
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.removed.items())
        texts = [f"{counted(sum(self.removed.values()), 'row')} removed" + (f" ({reasons})" if reasons else "")]
        return f"{self.path}: {', '.join([*texts, f'{self.kept} kept'])}" + (
            f"; the file as it was: {self.copy}" if self.copy else ""
        )


def prune(path: Path) -> Pruned:
    """Remove rows of bad input, and rows of cells that the configuration beside the file no longer has.

    Of an experiment without a configuration only rows of bad input are removed, and quoted rows stay.

    Raises
    ------
    InputError
        If the rows come with cpms, a line is not a row, a run is writing the file, or it cannot be written.
    """
    if path.resolve().is_relative_to((folder("experiments") / "results").resolve()):
        raise InputError(f"{path}: comes with cpms; copy it, and give the path of the copy")
    if not path.is_file():
        raise InputError(f"{path}: is no file of rows; give one that 'cpms run' wrote")
    with rows.opened(path):
        found = rows.read(path)
        reasons = _reasons(found, path.parent)
        kept = [row for row, reason in zip(found, reasons, strict=True) if reason is None]
        removed = dict(Counter(filter(None, reasons)))
        if not removed:
            return Pruned(path, len(kept), {}, None)
        copy = _free(path)
        shutil.copy2(path, copy)
        with replacing(path) as temporary:
            temporary.write_text("".join(json.dumps(row, allow_nan=False) + "\n" for row in kept), encoding="utf-8")
    return Pruned(path, len(kept), removed, copy)


def _reasons(found: Iterable[rows.Row], beside: Path) -> list[str | None]:
    """Return the reason for the removal of each row; None of those that stay."""

    @cache
    def cells(experiment: str) -> set[str] | None:
        present = of_rows(beside, experiment)
        return None if present is None else {rows.cell_key(cell) for cell in present.cells()}

    reasons = list[str | None]()
    for row in found:
        names = cells(row["experiment"])
        is_gone = names is not None and row["cell"] not in names and "source" not in row
        reasons.append(_BAD if row["status"] == BAD_INPUT else _GONE if is_gone else None)
    return reasons


def _free(path: Path) -> Path:
    """Return a path for a copy that no file has; its ending is not that of rows."""
    copy, number = path.with_name(f"{path.name}.bak"), 1
    while copy.exists():
        number += 1
        copy = path.with_name(f"{path.name}.bak{number}")
    return copy
