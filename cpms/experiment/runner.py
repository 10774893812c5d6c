"""Run the cells of an experiment that its rows do not hold yet."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from tqdm import tqdm

from cpms import threads
from cpms.errors import CpmsError, UnavailableError, UnsupportedError
from cpms.experiment import config, rows
from cpms.experiment.provenance import provenance


def run(
    path: Path,
    *,
    output: Path,
    only: str | None = None,
    dry_run: bool = False,
    echo: Callable[[str], None] = lambda _: None,
) -> Path:
    """Run an experiment and return the file of its rows, ``output/NAME.jsonl``.

    Cells that the file holds already are not run again; a cell that cannot run is recorded with its
    reason as ``status`` "unsupported". A run that is killed loses at most the cell it was at.

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
        If the configuration is wrong, or the output cannot be written.
    """
    experiment = config.read(path)
    chosen = [cell for cell in experiment.cells() if only is None or only in map(str, cell.values())]
    target = output / f"{experiment.name}.jsonl"
    if dry_run:
        for cell in chosen:
            echo(", ".join(f"{key}={value}" for key, value in cell.items()))
        return target
    kind = import_module(f"cpms.experiment.kinds.{experiment.kind}")
    with rows.opened(target) as file, threads.limited(experiment.threads):
        waiting = [cell for cell in chosen if rows.cell_key(cell) not in file.done]
        context = kind.Context(experiment)
        with tqdm(waiting, desc=experiment.name, unit="cell", disable=not sys.stderr.isatty()) as bar:
            for cell in bar:
                bar.set_postfix_str(" ".join(str(cell[key]) for key in ("graph", "storage", "engine") if key in cell))
                file.append(_row(experiment, path, cell, lambda cell=cell: context.measure(cell)))  # type: ignore[misc]
    echo(f"{len(waiting)} cells run, {len(chosen) - len(waiting)} held already")
    return target


def _row(
    experiment: config.Experiment, path: Path, cell: config.Cell, measure: Callable[[], dict[str, Any]]
) -> rows.Row:
    began = time.perf_counter()
    try:
        found = {"status": "ok", **measure()}
    except (UnsupportedError, UnavailableError, MemoryError) as error:
        found = {"status": "unsupported", "reason": str(error) or "out of memory"}
    except CpmsError as error:
        raise type(error)(f"{path}, cell {cell}: {error}") from None
    head = {"cell": rows.cell_key(cell), "experiment": experiment.name, "kind": experiment.kind}
    return {**head, **cell, **found, "cell_s": time.perf_counter() - began, **provenance(path, experiment.threads)}
