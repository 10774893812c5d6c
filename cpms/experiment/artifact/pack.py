"""An artifact of rows: all that a stranger needs to rebuild figures and numbers of a paper from its rows.

An artifact is a folder with the rows and their configurations, plug-ins and data files
(`cpms.experiment.artifact.inputs`), the figures, and a copy of this package. It has a manifest from each figure to its
rows, commits, machines and SHA-256, the numbers as LaTeX macros, the text of an artifact appendix, a lock of the
environment, a container file and an RO-Crate. ``rebuild.py`` draws the figures again and compares them, the numbers and
the files (`cpms.experiment.artifact.changes`). Figures are those of show programs that need the rows, and those of
`cpms.experiment.report.templates` for experiments without a program. Nothing is measured; the cost is that of the
figures.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from cpms.base.atomic_files import replacing
from cpms.base.errors import InputError, UnavailableError
from cpms.base.package_data import experiments, show_programs
from cpms.base.text.progress import Bar
from cpms.experiment.artifact import changes, inputs, replacement, software, texts
from cpms.experiment.artifact.numbers import by_experiment, machine, numbers
from cpms.experiment.artifact.paper import compiled
from cpms.experiment.report import templates
from cpms.experiment.report.figures import ENDINGS
from cpms.experiment.report.output import Output
from cpms.experiment.report.show import needs_of, show, styled
from cpms.experiment.rows.flat import read_rows, source_folder
from cpms.experiment.rows.outcome import measured
from cpms.experiment.rows.rows import Row
from cpms.experiment.rows.standing import Recorded, commit_of, present_rows

_REBUILD = '''"""Draw the figures of this artifact from its rows, and compare them with those of the manifest."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE / "code"))

from cpms.base.text.terminal import say  # noqa: E402
from cpms.experiment.artifact.pack import rebuild  # noqa: E402

sys.exit(rebuild(HERE, echo=say))
'''
_COMPARED = (".pdf", ".tex")
"""Endings of the files of figures and tables that are in the manifest."""
_DRAWN_AGAIN = (".pdf",)
"""Endings of the files of figures that ``rebuild.py`` compares; drawing others would double the time."""


def artifact(
    source: Path | str,
    target: Path,
    *,
    width: str = "single",
    programs: Sequence[Path] = (),
    paper: Path | None = None,
    force: bool = False,
    echo: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write the artifact of the rows of a file, a folder or an experiment, and return its files.

    Parameters
    ----------
    source : Path or str
    target : Path
        A folder that is empty or does not exist; with ``force``, also an earlier artifact.
    width : str
        Of the figures: ``single`` or ``double`` column.
    programs : sequence of Path
        Programs of one's own that draw figures, as `cpms.experiment.report.show.show` takes them.
    paper : Path, optional
        A LaTeX file that inputs ``numbers`` and includes figures from ``figures``. It is copied and compiled.
    force : bool
        Replace an artifact. Files in its folder that its manifest does not list are kept.
    echo : callable
        Called with each line for the user.

    Raises
    ------
    InputError
        If there are no rows, a program cannot draw them, the paper does not compile, or the folder holds something.
    """
    rows, caveats = present_rows(source)
    for caveat in caveats:
        echo(caveat)
    for program in programs:
        if program.suffix != ".py" or not program.is_file():
            raise InputError(f"{program}: there is no such program; give the path of a .py file that draws figures")
    if paper is not None and not paper.is_file():
        raise InputError(f"{paper}: there is no such paper; give the path of a .tex file")
    others = replacement.others(target, force=force)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as made:
        _fill(Path(made) / "artifact", rows, source_folder(source), width, programs, paper, echo)
        replacement.replace(target, Path(made) / "artifact", others)
    return sorted(path for path in target.rglob("*") if path.is_file())


def _fill(
    target: Path,
    rows: list[Row],
    source: Path,
    width: str,
    programs: Sequence[Path],
    paper: Path | None,
    echo: Callable[[str], None],
) -> None:
    _copy_rows(target / "rows", rows, source)
    (target / "programs").mkdir()
    for program in programs:
        shutil.copy(program, target / "programs")
    held = [path.read_bytes() for path in sorted((target / "rows").glob("*.toml"))]
    packed, left_out = inputs.pack(rows, held, target)
    for text in left_out:
        echo(f"not packed: {text}")
    software.copy_package(target / "code", rows)
    began = time.perf_counter()
    figures = _draw(target, "figures", width, echo)
    written = {
        changes.NUMBERS: numbers(rows, figures),
        "appendix.md": texts.appendix(
            rows,
            figures,
            drawn_s=time.perf_counter() - began,
            commands=_commands(target, rows),
            packed=packed,
            left_out=left_out,
        ),
        "environment.txt": "\n".join(software.environment()) + "\n",
        "Containerfile": software.container(with_latex=paper is not None),
        "rebuild.py": _REBUILD,
    }
    for name, text in written.items():
        _write(target / name, text)
    if paper is not None:
        shutil.copy(paper, target)
        _compile(target / paper.name, rows, echo)
    inside = [path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()]
    manifest = {
        "width": width,
        "figures": figures,
        "paper": paper and paper.name,
        "inputs": [each._asdict() for each in packed],
        "sha256": changes.digests(target),
        "files": sorted([*inside, "manifest.json", "ro-crate-metadata.json"]),
    }
    _write(target / "manifest.json", json.dumps(manifest, indent=1) + "\n")
    files = sorted(path for path in target.rglob("*") if path.is_file())
    _write(target / "ro-crate-metadata.json", texts.crate(rows, target, files))


def _copy_rows(folder: Path, rows: list[Row], source: Path) -> None:
    """Write rows into a new folder, a file for each experiment, and the configurations that lie beside them."""
    folder.mkdir(parents=True)
    for name, own in by_experiment(rows).items():
        _write(folder / f"{name}.jsonl", "".join(json.dumps(row, allow_nan=False) + "\n" for row in own))
        for copied in (f"{name}.config.toml", f"{name}.toml"):
            if (source / copied).is_file():
                shutil.copy(source / copied, folder)


def _commands(target: Path, rows: Sequence[Row]) -> list[str]:
    """Return for each experiment the command that measures it again, or the reason why there is none."""
    found = list[str]()
    for name, own in by_experiment(rows).items():
        files = (f"rows/{name}.toml", f"rows/{name}.config.toml")
        shipped = name if own[0]["experiment"] in experiments() else None
        given = next((file for file in files if (target / file).is_file()), shipped)
        if not any(map(measured, own)):
            found.append(f"{name}: no cell could be measured")
        elif given is None:
            found.append(f"{name}: its configuration is not in this folder")
        else:
            found.append(f"`PYTHONPATH=code python -m cpms run {given} --output new`")
    return found


def rebuild(folder: Path, *, echo: Callable[[str], None] = lambda _: None) -> int:
    """Draw the figures of an artifact anew into ``rebuilt``, and write its numbers there.

    Return 0 if these and the files are those of the manifest, and the paper compiles, else 1.

    Parameters
    ----------
    folder : Path
    echo : callable
        Called with a line for each figure or file that differs, and with the number of figures that are equal.
    """
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    shutil.rmtree(folder / "rebuilt", ignore_errors=True)
    rows, drawn = read_rows(folder / "rows"), _draw(folder, "rebuilt", manifest["width"], lambda _: None, _DRAWN_AGAIN)
    held, again = ({each["file"]: each["sha256"] for each in figures} for figures in (manifest["figures"], drawn))
    others = sorted(name for name in held.keys() | again.keys() if held.get(name) != again.get(name))
    said = [*changes.of_files(folder, manifest), *(f"differs from the manifest: {name}" for name in others)]
    by_rows = numbers(rows, drawn)
    _write(folder / "rebuilt" / changes.NUMBERS, by_rows)
    given = folder / changes.NUMBERS
    said += changes.of_numbers(given.read_text(encoding="utf-8"), by_rows) if given.is_file() else []
    if manifest["paper"]:
        try:
            _compile(folder / manifest["paper"], rows, echo)
        except InputError as error:
            said.append(str(error))
    for line in said:
        echo(line)
    echo(f"{len(held.keys() | again.keys()) - len(others)} figures and tables are those of the manifest")
    return int(bool(said))


def _compile(paper: Path, rows: Sequence[Row], echo: Callable[[str], None]) -> None:
    try:
        compiled(paper, rows)
    except UnavailableError as error:
        echo(f"left out: {paper.with_suffix('.pdf').name}: {error}")


def _draw(
    folder: Path, name: str, width: str, echo: Callable[[str], None], endings: Sequence[str] = ENDINGS
) -> list[texts.Entry]:
    """Draw all figures of an artifact's rows into a folder of it, and return the entry of each in the manifest."""
    target, rows = folder / name, read_rows(folder / "rows")
    target.mkdir(parents=True, exist_ok=True)
    recorded, drawn, found = Recorded(folder / "rows"), set[str](), []
    own = {path.stem: str(path) for path in sorted((folder / "programs").glob("*.py"))}
    programs = {**{name: name for name in show_programs()}, **own}
    for program, path in Bar(programs.items(), desc="drawing", disable=not sys.stderr.isatty(), leave=False):
        needs = needs_of(path)
        if not recorded.of(needs):
            continue
        try:
            written = show(path, results=recorded, output=target, width=width, endings=endings)
        except InputError as error:
            if program in own:
                raise
            echo(f"left out: {program}: {error}")
            continue
        found += [_entry(each, recorded.of(needs)) for each in written if each.suffix in _COMPARED]
        drawn.update(needs if any(each.suffix == ".pdf" for each in written) else ())
    with styled():
        for experiment, measured in by_experiment(rows).items():
            if measured[0]["experiment"] in drawn:
                continue
            for drawing in templates.drawings(measured, width=width, beside=rows):
                out = Output(target, experiment, echo, endings=endings)
                out.drawing(drawing)
                used = [*measured, *drawing.beside]
                found += [_entry(path, used) for path in out.written if path.suffix in _COMPARED]
            table, caption = templates.table(measured)
            if not table.empty:
                out = Output(target, experiment, lambda _: None)
                out.table(table, suffix="_table", caption=caption)
                found += [
                    {**_entry(path, measured), "caption": caption} for path in out.written if path.suffix in _COMPARED
                ]
    return found


def _entry(path: Path, rows: Iterable[Row]) -> texts.Entry:
    """Return the entry of a figure in the manifest; a ``.json`` file beside the figure lists its rows, if it exists."""
    beside = path.with_suffix(".json")
    described: dict[str, Any] = json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else {}
    cells = described.get("cells") or [row["cell"] for row in rows]
    own = [row for row in rows if row["cell"] in set(cells)]
    return {
        "file": path.name,
        "sha256": changes.file_digest(path),
        "experiments": list(dict.fromkeys(row["experiment"] for row in own)),
        "cells": cells,
        "commits": sorted({commit for row in own if (commit := commit_of(row))}),
        "not_committed": sum(commit_of(row) is None for row in own),
        "machines": sorted(set(map(machine, own))),
        "caption": described.get("caption") or f"Of experiments {', '.join(sorted({r['experiment'] for r in own}))}.",
    }


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
