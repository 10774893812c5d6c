"""The configuration of recorded rows: the copy that a run writes beside them, or one that ships with cpms."""

from __future__ import annotations

from pathlib import Path

from cpms.base.atomic_files import replacing
from cpms.base.errors import InputError
from cpms.base.package_data import experiments
from cpms.experiment import config
from cpms.experiment.config import Experiment
from cpms.experiment.rows import rows
from cpms.experiment.rows.changed import differs, parameters


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


class Cells:
    """The cells of a configuration, by their names."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._cells = {rows.cell_key(cell): cell for cell in experiment.cells()}

    def hold(self, row: rows.Row) -> bool:
        """Return whether a row is of one of these cells, with its present parameters."""
        cell = self._cells.get(row["cell"])
        if cell is None:
            return False
        return "parameters" not in row or not differs(row["parameters"], parameters(self._experiment, cell))
