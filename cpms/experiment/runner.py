"""Run the cells of an experiment that its rows lack, and append a row after each.

A row is on disk before the next cell begins, so that a killed run loses one cell and the next run continues after it.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from cpms import engines
from cpms.base import plugins, threads, work_clock
from cpms.base.compilation import first_call
from cpms.base.errors import InputError, UnavailableError, UnsupportedError
from cpms.base.text.counted import counted
from cpms.base.text.progress import CellBar
from cpms.base.validation import described
from cpms.experiment import config
from cpms.experiment.conditions import ordered, pinned
from cpms.experiment.rows import changed, configured, outcome, outliers, rows
from cpms.experiment.rows.machine import load_average, ranges
from cpms.experiment.rows.provenance import provenance
from cpms.experiment.rows.series import refusals
from cpms.formats.formats import format_named
from cpms.sources.loading import is_missing

_NAME = re.compile("[0-9a-f]{6,16}")
"""Form of a cell's name or its beginning."""
_USUAL = ("graph", "storage", "engine")
"""Parameters by which users know cells."""


def run(
    path: Path,
    *,
    output: Path,
    only: str | None = None,
    dry_run: bool = False,
    echo: Callable[[str], None] = lambda _: None,
) -> Path:
    """Run an experiment and return the file of its rows, ``output/NAME.jsonl``.

    A cell with a row in the file is run again in four cases alone: ``only`` names it; its row has other ``threads``,
    another ``warmup``, ``affinity`` or treatment of ``outliers`` than the configuration; the file of its graph or of a
    plug-in that it names has changed; or a parameter that its name omits has another value. Changed code of the package
    alone repeats no cell. A cell that cannot run is recorded with its reason; the next run tries it again unless its
    ``status`` is "unsupported", which holds on every machine.

    A copy of the configuration is written beside the rows, ``output/NAME.config.toml``, unless it ships with cpms;
    `cpms.experiment.report.show.show` finds the rows of the present configuration by it.

    Parameters
    ----------
    path : Path
        A TOML configuration.
    output : Path
        Folder of the rows; made if need be.
    only : str, optional
        Run only the cells with a parameter of this text; or the cell of this name, which ``dry_run`` lists and rows
        have as ``cell``, again. The first six or more digits of a name suffice.
    dry_run : bool
        Report the cells through ``echo`` and do nothing.
    echo : callable
        Called with each line for the user.

    Raises
    ------
    InputError
        If the configuration is wrong, no cell is chosen, none of their graphs is there, or the output cannot be
        written; at the end, if the graph of a cell was not there or was wrong.
    UnavailableError, UnsupportedError
        At the end, if no cell could be measured.
    """
    with plugins.noted() as noted:
        return _run(path, output, only, dry_run, echo, noted)


def _run(
    path: Path,
    output: Path,
    only: str | None,
    dry_run: bool,
    echo: Callable[[str], None],
    noted: dict[plugins.Origin, None],
) -> Path:
    """Run an experiment as `run` does; ``noted`` holds the plug-ins that it has loaded so far."""
    experiment, content = config.read_once(path)
    kind = config.kind_of(experiment.kind)
    with plugins.running(kind):
        chosen, is_named = _chosen(experiment, only)
    target = output / f"{experiment.name}.jsonl"
    if dry_run:
        _list_cells(chosen, echo)
        return target
    if not target.exists():
        _require_graphs(path, experiment, chosen.values())
    with (
        rows.opened(target, _conditions(experiment, chosen.values()), experiment=experiment.name) as file,
        threads.limited(experiment.threads),
        pinned(experiment.affinity),
    ):
        held = {key: changed.why(file.done[key], experiment, cell) for key, cell in chosen.items() if key in file.done}
        if is_named:
            held = {}
        waiting = ordered([cell for key, cell in chosen.items() if held.get(key, "missing")], experiment.shuffle)
        _require_graphs(path, experiment, chosen.values() if waiting else ())
        configured.save_copy(output, experiment.name, content)
        first_call.end()
        measuring, found = _Measuring(experiment, content, kind, noted), []
        with CellBar(waiting, desc=experiment.name, unit="cell", disable=not sys.stderr.isatty()) as bar:
            try:
                for cell in bar:
                    bar.set_postfix_str(" ".join(str(cell[key]) for key in _USUAL if key in cell))
                    found.append(measuring.row(cell))
                    file.append(found[-1])
            except KeyboardInterrupt:
                left = f"{len(waiting) - len(found)} of {counted(len(chosen), 'cell')}"
                echo(f"interrupted, with {left} not yet run; the same command runs these")
                raise
    outcomes = f": {outcome.summary(found)}{_refused(found)}" if found else ""
    echo(f"{counted(len(found), 'cell')} run{outcomes}; {len(chosen) - len(waiting)} held already{_repeated(held)}")
    has_others = len(chosen) > len(waiting) or any(map(outcome.measured, found))
    _raise_failures(path, found, target if has_others else None)
    return target


def _list_cells(chosen: dict[str, config.Cell], echo: Callable[[str], None]) -> None:
    """Report the cells by name, and of those that never run the reason."""
    for name, cell in chosen.items():
        echo(f"{name}: " + ", ".join(f"{key}={value}" for key, value in cell.items()))
        if reason := _never_runs(cell):
            echo(f"  unsupported: {reason}")


def _conditions(experiment: config.Experiment, cells: Collection[config.Cell]) -> dict[str, Any]:
    """Return the columns besides its cell in which a row must agree with the configuration to be up to date."""
    by_rows = [key for key in ("threads", "warmup") if not any(key in cell for cell in cells)]
    conditions = {key: given for key in by_rows if (given := getattr(experiment, key, None)) is not None}
    conditions["outliers"] = experiment.outliers
    if experiment.affinity is not None:
        conditions["affinity"] = ranges(experiment.affinity)
    return conditions


def _never_runs(cell: config.Cell) -> str | None:
    """Return why the engine of a cell does not have its method in its storage; None if it may, or is not known yet."""
    engine, method, storage = (cell.get(key) for key in ("engine", "method", "storage"))
    is_ranking = "graph" in cell and method in ("power", "refine")
    if not (is_ranking and isinstance(engine, str) and isinstance(storage, str)) or "auto" in (engine, storage):
        return None
    try:
        return engines.get_any(engine).never_runs(str(method), format_named(storage))
    except InputError:  # Of a plug-in; the run records it.
        return None


def _require_graphs(path: Path, experiment: config.Experiment, cells: Iterable[config.Cell]) -> None:
    """Refuse cells all of whose graphs are files that do not exist, before a row is written."""
    if not experiment.graphs_are_loaded:
        return
    names = list(dict.fromkeys(str(cell["graph"]) for cell in cells if isinstance(cell.get("graph"), str)))
    if not names or not all(map(is_missing, names)):
        return
    files = "is no such file" if len(names) == 1 else "are no such files"
    beside = "; it lies beside the configuration" if all((path.parent / name).exists() for name in names) else ""
    hint = f"{beside}: 'cd {path.parent}' first" if beside else "; check the name"
    raise InputError(
        f"{path}: {outcome.some(names)}: there {files} in {Path.cwd()}, the folder that paths are relative to{hint}"
    )


def _refused(found: list[rows.Row]) -> str:
    """Return the number of results that measured rows lack, with the reasons."""
    reasons = [reason for row in found if outcome.measured(row) for reason in refusals(row)]
    results = f"{counted(len(reasons), 'result')} in these not measured"
    return f"; {results} ({outcome.some(reasons)})" if reasons else ""


def _repeated(held: dict[str, str | None]) -> str:
    """Return the numbers of recorded cells that ran again, with the reasons."""
    counts = Counter(reason for reason in held.values() if reason)
    return "".join(f"; {counted(count, 'cell')} run anew, since {reason} changed" for reason, count in counts.items())


def _raise_failures(path: Path, found: list[rows.Row], others: Path | None) -> None:
    """Raise an error if cells had bad input, or none could be measured on this machine; ``others`` has other rows."""
    bad = [row for row in found if row["status"] == outcome.BAD_INPUT]
    if bad:
        reasons = outcome.some([row["reason"] for row in bad])
        missing = any(isinstance(row.get("graph"), str) and is_missing(row["graph"]) for row in bad)
        where = f"; paths are relative to {Path.cwd()}" if missing else ""
        where += f"; {others} has the rows of the other cells" if others else ""
        raise InputError(f"{path}: {counted(len(bad), 'cell')} could not run: {reasons}{where}")
    if found and not any(map(outcome.measured, found)):
        reason = outcome.why_not(found[0])
        kind = UnavailableError if reason["status"] == "unavailable" else UnsupportedError
        raise kind(f"{path}: no cell could be measured: {reason['reason']}")


def _chosen(experiment: config.Experiment, only: str | None) -> tuple[dict[str, config.Cell], bool]:
    """Return cells by their names, and whether ``only`` is such a name.

    A graph that a configuration lists twice makes one cell. A parameter has precedence over a name.
    """
    cells = experiment.cells()
    found = {rows.cell_key(cell): cell for cell in cells if only is None or only in map(str, cell.values())}
    if not found and only is not None and _NAME.fullmatch(only):
        found = {rows.cell_key(cell): cell for cell in cells if rows.cell_key(cell).startswith(only)}
        if len(found) > 1:
            raise InputError(f"{only!r} begins the names of {len(found)} cells: {', '.join(found)}; give more of one")
        if found:
            return found, True
    if cells and not found:
        columns = {key: dict.fromkeys(repr(str(cell[key])) for cell in cells) for key in _distinguishing(cells)}
        texts = [f"{key} {', '.join(values)}" for key, values in columns.items()]
        raise InputError(
            f"no cell of {experiment.name} has {only!r}; --only can be one of: {'; '.join(texts)}; or the name of a "
            "cell as --dry-run lists it"
        )
    return found, False


def _distinguishing(cells: list[config.Cell]) -> list[str]:
    """Return the scalar parameters by which cells differ, and the usual ones."""
    single = [key for key, value in cells[0].items() if isinstance(value, str | int | float)]
    return [key for key in single if key in _USUAL or len({str(cell[key]) for cell in cells}) > 1]


class _Measuring:
    """Measures cells and makes their rows; code, machine and graphs are recorded outside all timed regions."""

    def __init__(
        self, experiment: config.Experiment, content: bytes, kind: Any, noted: dict[plugins.Origin, None]
    ) -> None:
        self._experiment, self._kind, self._noted = experiment, kind, noted
        with plugins.running(kind):
            self._context = kind.Context(experiment)
        self._config_sha256 = configured.digest(content)

    def row(self, cell: config.Cell) -> rows.Row:
        """Measure a cell."""
        # The digest precedes the load, so that a file that changes in between is measured again.
        files_digest = changed.files_digest(cell)
        load = load_average()
        began, compiled_before_s = time.perf_counter(), work_clock.compiled_s()
        try:
            found = outcome.tried(lambda: self._measured(cell))
        except InputError as error:
            found = {"status": outcome.BAD_INPUT, "reason": str(error)}
        spent = {"cell_s": time.perf_counter() - began, "compile_s": work_clock.compiled_s() - compiled_before_s}
        experiment, graph = self._experiment, getattr(self._context, "graph", None)
        if experiment.outliers != "keep":
            found = outliers.set_aside(found)
        return {
            "cell": rows.cell_key(cell),
            "experiment": experiment.name,
            "kind": experiment.kind,
            **cell,
            **found,
            **spent,
            "outliers": experiment.outliers,
            **({} if experiment.shuffle is None else {"shuffle": experiment.shuffle}),
            "parameters": changed.parameters(experiment, cell),
            "graph_digest": graph.digest(cell["graph"]) if graph else None,
            "graph_files_digest": files_digest,
            **({} if load is None else {"load_average_before": load}),
            **provenance(self._config_sha256, experiment.threads),
            **({"plugins": plugins.as_columns(self._noted)} if self._noted else {}),
        }

    def _measured(self, cell: config.Cell) -> dict[str, Any]:
        """Return the columns of a cell."""
        with plugins.running(self._kind):
            found = self._context.measure(cell)
        who = plugins.described_plugin(self._kind)
        if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
            raise InputError(f"{who} measured {described(found)}; measure must return a dictionary of columns")
        try:
            json.dumps(found, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError(f"{who} measured what a row cannot hold ({error}); give finite numbers and text") from None
        return found
