"""Run the cells of an experiment that its rows do not hold yet."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from cpms import threads
from cpms.errors import InputError, UnavailableError, UnsupportedError
from cpms.experiment import config, outcome, rows
from cpms.experiment.provenance import provenance
from cpms.progress import Bar


def run(
    path: Path,
    *,
    output: Path,
    only: str | None = None,
    dry_run: bool = False,
    echo: Callable[[str], None] = lambda _: None,
) -> Path:
    """Run an experiment and return the file of its rows, ``output/NAME.jsonl``.

    Cells that the file holds already are not run again, unless they were measured on other ``threads``, where these are
    given, or after another ``warmup``. A cell that cannot run is recorded with its reason, and others
    go on; it is run again later unless its ``status`` is "unsupported", which no other machine changes. A run that is
    killed loses at most the cell it was at.

    Parameters
    ----------
    path : Path
        A TOML configuration.
    output : Path
        Folder of the rows; made if need be.
    only : str, optional
        Run only cells one of whose parameters is this text.
    dry_run : bool
        Report the cells through ``echo`` and do nothing.
    echo : callable
        Receives lines for the user.

    Raises
    ------
    InputError
        If the configuration is wrong, no cell is chosen, or the output cannot be written; at the end, if the graph of a
        cell was not there or was wrong.
    UnavailableError, UnsupportedError
        At the end, if no cell could be measured.
    """
    experiment, digest = config.read_once(path)
    chosen = _chosen(experiment, only)
    target = output / f"{experiment.name}.jsonl"
    if dry_run:
        for cell in chosen:
            echo(", ".join(f"{key}={value}" for key, value in cell.items()))
        return target
    kind = import_module(f"cpms.experiment.kinds.{experiment.kind}")
    by_rows = [key for key in ("threads", "warmup") if not any(key in cell for cell in chosen)]
    asked = {key: given for key in by_rows if (given := getattr(experiment, key, None)) is not None}
    with rows.opened(target, asked) as file, threads.limited(experiment.threads):
        waiting = [cell for cell in chosen if rows.cell_key(cell) not in file.done]
        context, found = kind.Context(experiment), []
        with Bar(waiting, desc=experiment.name, unit="cell", disable=not sys.stderr.isatty()) as bar:
            for cell in bar:
                bar.set_postfix_str(" ".join(str(cell[key]) for key in ("graph", "storage", "engine") if key in cell))
                found.append(_row(experiment, digest, cell, lambda cell=cell: context.measure(cell)))  # type: ignore[misc]
                file.append(found[-1])
    outcomes = f": {outcome.counted(found)}" if found else ""
    echo(f"{_cells(len(found))} run{outcomes}; {len(chosen) - len(waiting)} held already")
    _complain(path, found)
    return target


def _complain(path: Path, found: list[rows.Row]) -> None:
    """Raise an error where cells had bad input, or none of them could be measured here."""
    bad = [row for row in found if row["status"] == outcome.BAD_INPUT]
    if bad:
        reasons = outcome.some([row["reason"] for row in bad])
        raise InputError(f"{path}: {_cells(len(bad))} could not run: {reasons}")
    if found and not any(map(outcome.measured, found)):
        reason = outcome.why_not(found[0])
        kind = UnavailableError if reason["status"] == "unavailable" else UnsupportedError
        raise kind(f"{path}: no cell could be measured: {reason['reason']}")


def _chosen(experiment: config.Experiment, only: str | None) -> list[config.Cell]:
    cells = experiment.cells()
    found = [cell for cell in cells if only is None or only in map(str, cell.values())]
    if cells and not found:
        columns = {key: dict.fromkeys(repr(str(cell[key])) for cell in cells) for key in _told_apart(cells)}
        texts = [f"{key} {', '.join(values)}" for key, values in columns.items()]
        raise InputError(f"no cell of {experiment.name} has {only!r}; --only can be one of: {'; '.join(texts)}")
    return found


def _told_apart(cells: list[config.Cell]) -> list[str]:
    """Return the parameters of one value by which cells differ, and those by which they mostly do."""
    usual = ("graph", "storage", "engine")
    single = [key for key, value in cells[0].items() if isinstance(value, str | int | float)]
    return [key for key in single if key in usual or len({str(cell[key]) for cell in cells}) > 1]


def _row(
    experiment: config.Experiment, digest: str, cell: config.Cell, measure: Callable[[], dict[str, Any]]
) -> rows.Row:
    began = time.perf_counter()
    try:
        found = outcome.tried(measure)
    except InputError as error:
        found = {"status": outcome.BAD_INPUT, "reason": str(error)}
    head = {"cell": rows.cell_key(cell), "experiment": experiment.name, "kind": experiment.kind}
    return {**head, **cell, **found, "cell_s": time.perf_counter() - began, **provenance(digest, experiment.threads)}


def _cells(count: int) -> str:
    return f"{count} cell" if count == 1 else f"{count} cells"
