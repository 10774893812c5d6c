"""An artifact of rows: all that a stranger needs to rebuild figures and numbers of a paper from its rows.

A folder holds the rows, the figures, a manifest from each figure to its rows, commit and machine (with SHA-256),
the numbers as LaTeX macros with units, the text of an artifact appendix in the form of the SC conference, a lock of the
environment, a container file, and metadata as an RO-Crate 1.1 (Soiland-Reyes et al., Data Science 5 (2022)).
``rebuild.py`` draws the figures anew and compares them. Nothing is measured; the cost is that of the figures.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from cpms.base.atomic_files import replacing
from cpms.base.errors import InputError
from cpms.base.package_data import __version__
from cpms.base.text import escape
from cpms.experiment.report import templates
from cpms.experiment.report.observations import observations
from cpms.experiment.report.output import Output
from cpms.experiment.report.show import styled
from cpms.experiment.rows.flat import read_rows
from cpms.experiment.rows.rows import Row
from cpms.experiment.rows.standing import commit_of, committed

_REBUILD = '''"""Draw the figures of this artifact from its rows, and compare them with those of the manifest."""

import sys
from pathlib import Path

from cpms.experiment.report.artifact import rebuild

sys.exit(rebuild(Path(__file__).parent))
'''


def artifact(source: Path | str, target: Path, *, width: str = "single") -> list[Path]:
    """Write the artifact of the rows of a file, a folder or an experiment, and return its files.

    Parameters
    ----------
    source : Path or str
    target : Path
        A folder that is empty or does not exist.
    width : str
        Of the figures: ``single`` or ``double`` column.

    Raises
    ------
    InputError
        If there are no rows, or the folder holds something.
    """
    rows = read_rows(source)
    if not rows:
        raise InputError(f"{source}: holds no rows; 'cpms run CONFIG.toml --output DIR' makes some")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target}: is no empty folder; give another --output")
    (target / "rows").mkdir(parents=True)
    for name, own in _by_experiment(rows).items():
        _write(target / "rows" / f"{name}.jsonl", "".join(json.dumps(row, allow_nan=False) + "\n" for row in own))
    described = _draw(target / "rows", target / "figures", width)
    texts = {
        "numbers.tex": numbers(rows),
        "appendix.md": _appendix(rows, described),
        "environment.txt": "\n".join(environment()) + "\n",
        "Containerfile": _container(rows),
        "rebuild.py": _REBUILD,
        "manifest.json": json.dumps({"width": width, "figures": described}, indent=1) + "\n",
    }
    for name, text in texts.items():
        _write(target / name, text)
    files = sorted(path for path in target.rglob("*") if path.is_file())
    _write(target / "ro-crate-metadata.json", _crate(rows, [path.relative_to(target).as_posix() for path in files]))
    return [*files, target / "ro-crate-metadata.json"]


def rebuild(folder: Path) -> int:
    """Draw the figures of an artifact anew into ``rebuilt``; return 0 if they are those of its manifest, else 1."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    again = _draw(folder / "rows", folder / "rebuilt", manifest["width"])
    return int({each["file"]: each["sha256"] for each in again} != _digests(manifest["figures"]))


def _digests(described: Iterable[dict[str, Any]]) -> dict[str, str]:
    return {each["file"]: each["sha256"] for each in described}


def _draw(rows: Path, target: Path, width: str) -> list[dict[str, Any]]:
    """Draw all figures, and return the entry of each in the manifest."""
    target.mkdir(parents=True, exist_ok=True)
    described = []
    for name, own in _by_experiment(read_rows(rows)).items():
        by_cell = {row["cell"]: row for row in own}
        with styled():
            for drawing in templates.drawings(own, width=width):
                out = Output(target, name, lambda _: None)
                out.drawing(drawing)
                of = [by_cell[cell] for cell in drawing.cells]
                described += [_entry(path, drawing, of) for path in out.written if path.suffix == ".pdf"]
    return described


def _entry(path: Path, drawing: templates.Drawing, rows: list[Row]) -> dict[str, Any]:
    return {
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "experiment": drawing.experiment,
        "cells": drawing.cells,
        "commits": _commits(rows),
        "not_committed": sum(not committed(row) for row in rows),
        "machines": _machines(rows),
        "caption": drawing.caption,
    }


def numbers(rows: Iterable[Row]) -> str:
    r"""Return the median times and errors of rows as LaTeX, for ``\cpmsnumber{experiment/graph/contestant/seconds}``.

    Examples
    --------
    >>> row = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "path", "engine": "cpu", "solve_s": 0.25}
    >>> print(numbers([row]).splitlines()[-1])
    \cpmsdefine{mine/path/cpu/seconds}{0.25\,s}
    """
    lines = [
        "% Generated by cpms artifact from rows; do not edit.",
        r"\newcommand{\cpmsdefine}[2]{\expandafter\def\csname cpms@#1\endcsname{#2}}",
        r"\newcommand{\cpmsnumber}[1]{\ifcsname cpms@#1\endcsname\csname cpms@#1\endcsname"
        r"\else\errmessage{cpms has no number #1}\fi}",
    ]
    for name, own in _by_experiment(rows).items():
        for line in observations(own).to_dict("records"):
            for column, unit in (("seconds", r"\,s"), ("error", "")):
                if line[column] > 0:
                    key = re.sub(r"[^A-Za-z0-9:./-]+", "-", f"{name}/{line['graph']}/{line['contestant']}/{column}")
                    lines.append(rf"\cpmsdefine{{{key}}}{{{_latex_number(line[column])}{unit}}}")
    return "\n".join(lines) + "\n"


def _latex_number(value: float) -> str:
    digits, _, power = f"{value:.3g}".partition("e")
    return rf"\ensuremath{{{digits}\times10^{{{int(power)}}}}}" if power else digits


def environment() -> list[str]:
    """Return name and version of cpms and of all that it needs, without addresses of registries."""
    waiting, found = ["cpms"], {"cpms": __version__}
    while waiting:
        name = waiting.pop()
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        for need in needs:
            other = re.split(r"[^A-Za-z0-9._-]", need, maxsplit=1)[0]
            if "extra ==" in need or other.lower() in found:
                continue
            try:
                found[other.lower()] = metadata.version(other)
                waiting.append(other)
            except metadata.PackageNotFoundError:
                continue  # A package of other platforms.
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def _appendix(rows: list[Row], described: list[dict[str, Any]]) -> str:
    commits = _commits(rows)
    dirty = sum(not committed(row) for row in rows)
    graphs = sorted({str(row["graph"]) for row in rows if row.get("graph")})
    figures = "\n".join(f"- `figures/{each['file']}`: {escape.markdown(each['caption'])}" for each in described)
    return f"""# Artifact description

- Software: cpms {__version__}, BSD-3-Clause; versions of all packages in `environment.txt`.
- Code: commits {", ".join(commits)}; {dirty} of {len(rows)} rows are of code that was not committed.
- Hardware: {escape.markdown("; ".join(_machines(rows)))}.
- Operating systems: {escape.markdown("; ".join(sorted({str(row.get("os", "not recorded")) for row in rows})))}.
- Data: {escape.markdown(", ".join(graphs)) or "arrays of random numbers"}.
- Experiments: {escape.markdown(", ".join(_by_experiment(rows)))}; {len(rows)} rows in `rows`.

# Artifact evaluation

1. Build the environment: `podman build -t artifact .`, or install `environment.txt` and cpms.
2. Rebuild the figures from the rows, without any measurement: `python rebuild.py`. Exit code 0 says that all are equal.
3. Measure again, on the hardware above: `cpms run EXPERIMENT --output new`, then `cpms compare rows new`.

# Figures

{figures}
"""


def _container(rows: list[Row]) -> str:
    versions = sorted({str(row["version_python"]) for row in rows if "version_python" in row})
    python = ".".join(versions[-1].split(".")[:2]) if versions else "3.12"
    return (
        f"FROM python:{python}-slim\nWORKDIR /artifact\nCOPY . .\n"
        "RUN pip install --no-cache-dir -r environment.txt\n"
        'CMD ["python", "rebuild.py"]\n'
    )


def _crate(rows: list[Row], files: list[str]) -> str:
    dates = sorted(str(row["time_utc"])[:10] for row in rows if "time_utc" in row)
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"Results of {', '.join(_by_experiment(rows))}",
        "description": "Rows of measurements, with figures and numbers that are made of them.",
        "datePublished": dates[-1] if dates else "1970-01-01",
        "license": "BSD-3-Clause",
        "hasPart": [{"@id": name} for name in files],
    }
    head = {
        "@id": "ro-crate-metadata.json",
        "@type": "CreativeWork",
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
        "about": {"@id": "./"},
    }
    parts = [{"@id": name, "@type": "File", "name": Path(name).name} for name in files]
    return json.dumps({"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": [head, root, *parts]}, indent=1)


def _commits(rows: Iterable[Row]) -> list[str]:
    """Return the commits of rows: those that have their code, else those that their code was changed from."""
    return sorted({commit_of(row) or str(row.get("git_commit")) for row in rows})


def _machines(rows: Iterable[Row]) -> list[str]:
    return sorted({" with ".join(filter(None, [row.get("cpu", "unknown"), row.get("gpu")])) for row in rows})


def _by_experiment(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(re.sub(r"[^A-Za-z0-9_-]", "-", row["experiment"]), []).append(row)
    return found


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
