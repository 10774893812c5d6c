"""Tables and figures from recorded rows alone: runs the programs of ``experiments/figures`` on a folder of rows."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from cpms.base import caches, plugins
from cpms.base.errors import CpmsError, InputError
from cpms.base.package_data import experiments, folder, show_programs
from cpms.base.text.counted import counted
from cpms.base.text.progress import Bar
from cpms.base.text.suggestions import nearest
from cpms.experiment import config
from cpms.experiment.report import templates
from cpms.experiment.report.figures import ENDINGS
from cpms.experiment.report.output import Output
from cpms.experiment.report.style import common_style
from cpms.experiment.rows import outcome, rows
from cpms.experiment.rows.outcome import measured, why_not
from cpms.experiment.rows.series import refusals
from cpms.experiment.rows.standing import Recorded

_GROUP = "show_programs"
"""Group of plug-ins."""
_WRONG_ROWS = (LookupError, AttributeError, TypeError, ValueError, ArithmeticError)
"""Errors of a program whose rows lack a column, or have other values in it."""


def show(
    name: str,
    *,
    results: Path | Recorded | None = None,
    output: Path = Path("out"),
    width: str = "single",
    baseline: str | None = None,
    endings: Sequence[str] = ENDINGS,
    echo: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Draw ``name``: a show program, ``all`` that have rows, or an experiment; return the files written.

    A program is a Python file. ``NEEDS`` is the list of experiments whose rows it requires; its function
    ``show(rows, out)`` takes these rows, a pandas.DataFrame, and an `Output`. ``BESIDE`` lists experiments whose rows
    are optional; ``show`` then takes them as a third argument. Rows of an experiment without a program are drawn by
    `cpms.experiment.report.templates`. Programs that do not come with the package are plug-ins: a file ``.json`` beside
    their figures has their version and digest.

    Parameters
    ----------
    name : str
        A program in ``experiments/figures``, or one elsewhere: the path of a file that ends in ``.py``, or
        ``file.py:NAME``, ``module:NAME`` or an entry point of the group ``cpms.show_programs``, of an object with
        ``NEEDS`` and ``show``; a configuration that ends in ``.toml``, whose key ``show`` may name a program; or the
        name of an experiment without a program.
    results : Path or Recorded, optional
        Folder of the rows, or its rows if they have been read; those recorded with the package by default.
    output : Path
        Folder to draw into; made if need be.
    width : str
        Of figures: ``single`` or ``double`` column.
    baseline : str, optional
        Of figures without a program: the contestant that speed-ups are over.
    endings : sequence of str
        Of the files of a figure: ``.pdf``, ``.svg`` and ``.png``, or some of these.
    echo : callable
        Receives tables as text.

    Raises
    ------
    InputError
        If there is no such program, its rows are missing or hold no measurements, or the output cannot be written.
    """
    _matplotlib()
    source = results.source if isinstance(results, Recorded) else results or folder("experiments") / "results"
    if not source.is_dir():
        raise InputError(f"{source}: there is no such folder; give --results the folder of the rows")
    chosen = {program: _program(path) for program, path in _chosen(name, source).items()}
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{output}: cannot be made ({error.strerror}); give another --output") from None
    written: list[Path] = []
    drawn: list[str] = []
    of_folder = results if isinstance(results, Recorded) else Recorded(source)
    bar = Bar(chosen.items(), desc="drawing", disable=name != "all" or not sys.stderr.isatty(), leave=False)
    echo = _above(bar, echo)
    for program, module in bar:
        recorded = table_of(of_folder.chosen(module.NEEDS).rows)
        lacks = _lacks(recorded, source, module.NEEDS)
        if lacks and name != "all":
            raise InputError(lacks)
        if lacks:
            if not recorded.empty:
                echo(f"left out: {program}: {lacks}")
            continue
        read = [*module.NEEDS, *getattr(module, "BESIDE", [])]
        found = of_folder.chosen([*dict.fromkeys(read)])
        target = Output(
            output, program, echo, found.note, rows=found.rows, apart=found.apart, width=width, endings=endings
        )
        try:
            with common_style():
                if hasattr(module, "show"):
                    beside = [table_of(of_folder.chosen(module.BESIDE).rows)] if hasattr(module, "BESIDE") else []
                    with plugins.running(module):
                        module.show(recorded, target, *beside)
                    target.origin(plugins.origins_of(module), read)
                else:
                    drawings = templates.drawings(found.rows, width=width, baseline=baseline, beside=of_folder.rows)
                    _draw_templates(drawings, found.rows, target, echo)
        except _WRONG_ROWS as error:
            own = isinstance(error, CpmsError)
            lacks = str(error) if own else f"these rows cannot be drawn, which may be half-made: {error!r}"
            if name != "all":
                raise InputError(f"{program}: {lacks}") from error
            echo(f"left out: {program}: {lacks}")
            continue
        if target.left_out and not target.written and name != "all":
            raise InputError(f"{source}: nothing could be made of the rows: {outcome.some(target.left_out)}")
        for text in found.left_out:
            echo(text)
        written += target.written
        drawn += read
    if drawn:
        echo(of_folder.unexplained(drawn))
        echo(of_folder.counts(drawn))
    else:
        raise InputError(f"{source} holds no rows that anything draws; 'cpms run NAME --output {source}' first")
    return written


def _draw_templates(
    drawings: Iterable[templates.Drawing], found: Sequence[rows.Row], target: Output, echo: Callable[[str], None]
) -> None:
    """Write the figures and the table of an experiment without a program, and print what they leave out."""
    for drawing in drawings:
        target.drawing(drawing)
        echo(drawing.caption)
    table, caption = templates.table(found)
    if not table.empty:
        target.table(table, suffix="_table", caption=caption, of=())
    lacking = [reason for row in found if measured(row) for reason in refusals(row)]
    if lacking:
        echo(f"not measured: {counted(len(lacking), 'result')}: {outcome.some(lacking)}")
    if not target.written:
        raise InputError(
            "no figure for any experiment can be drawn, since its rows have neither a time (solve_s), a history, an "
            "error nor bytes_read; name a program of your own by show"
        )


def _above(bar: Bar, echo: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that prints lines above a bar, which the next step draws again."""

    def line(text: str) -> None:
        bar.clear()
        echo(text)

    return line


def _matplotlib() -> Any:
    """Load Matplotlib with a backend that needs no display.

    While it loads, the environment names that backend: one that this installation lacks would raise. Processes that are
    started later, such as the kernel of a notebook, get the environment as it was.
    """
    caches.redirect("matplotlib")
    given = os.environ.get("MPLBACKEND")
    os.environ["MPLBACKEND"] = "Agg"
    try:
        import matplotlib
    finally:
        if given is None:
            del os.environ["MPLBACKEND"]
        else:
            os.environ["MPLBACKEND"] = given
    matplotlib.use("Agg")
    return matplotlib


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the common style of figures, without a display."""
    _matplotlib()
    with common_style():
        yield


def has_rows(name: str, recorded: Recorded) -> bool:
    """Return whether a folder has rows of a show program, or of any program if the name is ``all``.

    Raises
    ------
    InputError
        If there is no such program.
    """
    return any(recorded.of(_program(path).NEEDS) for path in _chosen(name, recorded.source).values())


def needs_of(name: str, source: Path = Path()) -> list[str]:
    """Return the experiments whose rows a show program requires, given by its name or its path.

    ``source`` is the folder of the rows of an experiment without a program.

    Examples
    --------
    >>> needs_of("table2")
    ['table2', 'standins']
    """
    (path,) = _chosen(name, source).values()
    return list(_program(path).NEEDS)


def table_of(found: list[rows.Row]) -> pd.DataFrame:
    """Return rows as a table; a row without measurements gets the ``status`` and ``reason`` of its contestants."""
    return pd.DataFrame([row if measured(row) else {**row, **why_not(row)} for row in found])


def _chosen(name: str, source: Path) -> dict[str, Path | str]:
    """Return the programs or configurations that a name means, by their own names; a text is the name of a plug-in."""
    shipped, path = show_programs(), Path(name)
    if path.suffix == ".toml" and path.resolve() in experiments().values():
        name, path = path.stem, Path(path.stem)
    elif path.suffix in (".py", ".toml") and path.is_file():
        return {path.stem: path}
    if name not in shipped and name in experiments():
        return {name: experiments()[name]}
    if name not in shipped and Path(name).name == name and (source / f"{name}.jsonl").is_file():
        return {name: source / f"{name}.jsonl"}
    if name not in shipped and plugins.is_named("show_programs", name):
        return {re.sub(r"\W+", "-", name): name}
    if path.suffix in (".py", ".toml"):
        raise InputError(
            f"{name}: there is no such file; give the path of a program (.py) or of a configuration (.toml)"
        )
    if path.suffix == ".jsonl" and path.is_file():
        raise InputError(f"{name}: is a file of rows; 'cpms show {path.stem} --results {path.parent}' draws them")
    if name != "all" and name not in shipped:
        near = nearest(name, [*shipped, *(each.stem for each in source.glob("*.jsonl"))])
        it = f"did you mean {near}? It" if near else "it"
        raise InputError(
            f"{name!r} cannot be shown; {it} can be all, one of {', '.join([*shipped, *plugins.offered(_GROUP)])}, an "
            "experiment, or the path of a configuration (.toml) or of a program of your own that ends in .py; "
            "pandas.read_json(path, lines=True) reads rows, too"
        )
    return {**shipped} if name == "all" else {name: shipped[name]}


def _lacks(recorded: pd.DataFrame, source: Path, needs: Sequence[str]) -> str | None:
    """Return the reason why nothing can be drawn; None if something can."""
    named = " or ".join(needs)
    if recorded.empty:
        return (
            f"{source} holds no rows of {named}; 'cpms run {needs[0]}' first; where that has an --output DIR, "
            "show takes --results DIR"
        )
    if (recorded.status == "ok").any():
        return None
    reasons = "; ".join(dict.fromkeys(reason.rstrip(".") for reason in recorded.reason))
    return f"{source}: no cell of {named} could be measured: {reasons}; mend that and 'cpms run {needs[0]}' again"


def _program(path: Path | str) -> Any:
    """Return the program of a file or of a plug-in; for a configuration or a file of rows, only its experiments."""
    if isinstance(path, str):
        return program_named(path)
    if path.suffix == ".toml":
        experiment = config.read(path)
        if experiment.show is None:
            return SimpleNamespace(NEEDS=[experiment.name])
        return _program(Path(experiment.show) if experiment.show.endswith(".py") else experiment.show)
    if path.suffix == ".jsonl":
        return SimpleNamespace(NEEDS=list(dict.fromkeys(row["experiment"] for row in rows.read(path))) or [path.stem])
    if path not in show_programs().values():
        return _checked(plugins.load_file(_GROUP, str(path)), str(path))
    spec = importlib.util.spec_from_file_location(f"cpms_show_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return _checked(module, str(path))


def program_named(name: str) -> Any:
    """Return the program of a plug-in, an object or a module with ``NEEDS`` and ``show``."""
    found = plugins.load(_GROUP, name, object)
    if found is None:
        raise InputError(f"show names {name!r}, which is no plug-in; give file.py, or the name of one")
    return _checked(found, name)


def _checked(program: Any, name: str) -> Any:
    """Return a program if it has ``NEEDS`` and ``show``, else raise `InputError`."""
    needs = getattr(program, "NEEDS", None)
    is_list = isinstance(needs, list | tuple) and needs and all(isinstance(each, str) for each in needs)
    if not is_list or not callable(getattr(program, "show", None)):
        who = plugins.described_plugin(program, name)
        raise InputError(f"{who} has no list NEEDS of experiments, or no function show(rows, out); it needs both")
    return program
