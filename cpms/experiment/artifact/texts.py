"""Texts of an artifact that are made from its rows: an appendix, and metadata.

The appendix has the sections of the artifact description and the artifact evaluation that the SC conference asks for.
The metadata are an RO-Crate 1.1 (Soiland-Reyes et al., Data Science 5 (2022)) with one action, which made the figures
of the rows.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import cpms
from cpms.base.text import escape
from cpms.base.text.tables import markdown
from cpms.experiment.artifact.inputs import Packed
from cpms.experiment.artifact.numbers import by_experiment, machine
from cpms.experiment.rows.outcome import measured
from cpms.experiment.rows.rows import Row
from cpms.experiment.rows.standing import commit_of

Entry = dict[str, Any]
"""A figure in the manifest."""
_LICENCE = "https://spdx.org/licenses/BSD-3-Clause"
_CODE = "code/"
_TYPES = {
    ".jsonl": "application/jsonl",
    ".json": "application/json",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".csv": "text/csv",
    ".md": "text/markdown",
    ".py": "text/x-python",
    ".tex": "application/x-tex",
}
"""Media types by the endings of files; other files are plain text."""


def appendix(
    rows: Sequence[Row],
    figures: Sequence[Entry],
    *,
    drawn_s: float,
    commands: Sequence[str],
    packed: Sequence[Packed],
    left_out: Sequence[str],
) -> str:
    """Return the artifact description and evaluation, in Markdown.

    Parameters
    ----------
    rows : sequence of dict
    figures : sequence of dict
        Entries of the manifest.
    drawn_s : float
        Seconds in which the figures were drawn.
    commands : sequence of str
        For each experiment the command that measures it again, or the reason why there is none.
    packed : sequence of Packed
        Plug-ins and data files in the artifact.
    left_out : sequence of str
        Those that are not in the artifact, each with the reason.
    """
    own = by_experiment(rows)
    measured_s = sum(float(row.get("cell_s", 0.0)) for row in rows)
    without = sum("cell_s" not in row for row in rows)
    if without == len(rows):
        again = "The rows do not hold it."
    else:
        again = f"{_minutes(measured_s)} in all" + (f"; {without} rows do not hold theirs." if without else ".")
    graphs = sorted({_relative(str(row["graph"])) for row in rows if row.get("graph") and measured(row)})
    systems = sorted({str(row["os"]) for row in rows if row.get("os")})
    libraries = sorted(
        {
            f"{name.removeprefix('version_')} {value}"
            for row in rows
            for name, value in row.items()
            if name.startswith("version_")
        }
    )
    return f"""# Artifact description

## Overview of contributions and artifacts

### Contributions

{_listed(f"C{place}: the measurements of experiment {name}" for place, name in enumerate(own, 1))}

### Computational artifacts

A1 is this folder. It has no DOI until it is deposited.

{_elements(own, figures)}

## Artifact A1

### Relation to contributions

The rows in `rows` are what each experiment measured. All figures and numbers are made of them and of nothing else.

{_experiments(own)}

### Expected results

Figures equal to those in `figures`, byte for byte. A new measurement on the same hardware gives the same iterations,
and times in which `cpms compare` finds no difference.

### Expected reproduction time

- Setup: the download of the packages in `environment.txt`.
- Execution, figures from rows: {_minutes(drawn_s)} when this artifact was made.
- Execution, measured again: {again}
- Analysis: less than a minute.

### Setup

- Hardware: {_text("; ".join(sorted(set(map(machine, rows)))))}.
- Software: cpms {cpms.__version__} in `code`, BSD-3-Clause, Python {platform.python_version()}, and the packages of
  `environment.txt`. Measured with: {_text(", ".join(libraries)) or "not recorded"}.
- Operating systems: {_text("; ".join(systems)) or "not recorded"}.
- Data: {_text(", ".join(graphs)) or "arrays of random numbers"}. Names with a colon are generators, and the others
  files or data sets, whose digests are in the rows.
- Plug-ins and data files in this folder, at the paths that the configurations name: {_packed(packed)}.
- Not in this folder: {_text("; ".join(left_out)) or "nothing that the configurations name"}.
- Installation: `podman build -t artifact .`, or a virtual environment with `pip install -r environment.txt`.

### Execution

`python rebuild.py` draws the figures from the rows. These commands, in this folder, measure experiments again:

{_listed(commands)}

### Analysis

Exit code 0 of `rebuild.py` means that all figures and tables, the rows and the packed files are those of the manifest,
and that `numbers.tex` is that of the rows; it prints the names of others. `manifest.json` leads from each figure to its
cells, commits and machines. A number of the paper is named EXPERIMENT/GRAPH/CONTESTANT/QUANTITY in `numbers.tex`, and
comes from the rows of that graph in `rows/EXPERIMENT.jsonl`; `PYTHONPATH=code python -m cpms rows rows --csv rows.csv`
writes all rows as a table. `--only CELL` after a command of the section Execution measures one cell again.

# Artifact evaluation

1. Setup: `podman build -t artifact .`
2. Execution: `podman run --rm artifact`, or `python rebuild.py`, which measures nothing and needs no network.
3. Analysis: the exit code, and the figures in `rebuilt`.
4. New measurements, on the hardware above: the commands of the section Execution, then
   `PYTHONPATH=code python -m cpms compare rows new`.

# Figures

{_listed(f"`figures/{each['file']}`: {_text(each['caption'])}" for each in figures) or "The rows hold nothing to draw."}
"""


def _elements(own: dict[str, list[Row]], figures: Sequence[Entry]) -> str:
    lines = []
    for place, (name, rows) in enumerate(own.items(), 1):
        files = [each["file"] for each in figures if rows[0]["experiment"] in each["experiments"]]
        lines.append(["A1", f"C{place}", ", ".join(files) or f"numbers of {name}"])
    return _table("artifact", "contributions", "elements of the paper", lines=lines)


def _experiments(own: dict[str, list[Row]]) -> str:
    lines = []
    for name, rows in own.items():
        known = [commit_of(row) for row in rows]
        named = ", ".join(commit[:10] for commit in sorted({each for each in known if each}))
        machines = "; ".join(sorted(set(map(machine, rows))))
        lines.append([name, len(rows), known.count(None), named or "none", machines])
    return _table("experiment", "rows", "of code without a commit", "commits", "machines", lines=lines)


def _packed(packed: Sequence[Packed]) -> str:
    """Return the plug-ins and data files of an artifact; of those without a digest in the rows, why they have none."""
    named = [each.file if each.what in ("plug-in", "data") else f"{each.file} ({each.what})" for each in packed]
    return _text(", ".join(named)) or "none"


def _relative(name: str) -> str:
    """Return the name of a graph, of an absolute path the last part."""
    return Path(name).name if Path(name).is_absolute() else name


def _table(*heads: str, lines: list[list[Any]]) -> str:
    return markdown(pd.DataFrame(lines, columns=list(heads)))


def _minutes(seconds: float) -> str:
    return "less than a minute" if seconds < 60 else f"{seconds / 60:.0f} minutes"


def _listed(texts: Any) -> str:
    return "\n".join(f"- {text}" for text in texts)


def _text(text: str) -> str:
    return escape.markdown(text)


def crate(rows: Sequence[Row], folder: Path, files: Sequence[Path]) -> str:
    """Return the metadata of a folder with these files, as JSON-LD; the copy of the package is one part."""
    by_name = {path.relative_to(folder).as_posix(): path for path in files}
    names = [name for name in by_name if not name.startswith(_CODE)]
    dates = sorted(str(row["time_utc"])[:10] for row in rows if "time_utc" in row)
    made = [{"@id": name} for name in names if name.startswith("figures/")]
    held = [{"@id": name} for name in names if name.startswith("rows/")]
    graph: list[Entry] = [
        {
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
            "about": {"@id": "./"},
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": f"Results of {', '.join(by_experiment(rows))}",
            "description": "Rows of measurements, with figures and numbers that are made of them.",
            "datePublished": dates[-1] if dates else "1970-01-01",
            "license": {"@id": _LICENCE},
            "hasPart": [{"@id": name} for name in [*names, _CODE]],
            "mentions": [{"@id": "#figures"}],
        },
        {"@id": _LICENCE, "@type": "CreativeWork", "name": "BSD 3-Clause", "description": "A permissive licence."},
        {"@id": "#cpms", "@type": "SoftwareApplication", "name": "cpms", "version": cpms.__version__},
        {
            "@id": "#figures",
            "@type": "CreateAction",
            "name": "Figures drawn from rows",
            "instrument": {"@id": "#cpms"},
            "object": held,
            "result": made,
        },
        {"@id": _CODE, "@type": "Dataset", "name": "Sources of cpms", "description": "What drew the figures."},
        *(_file(name, by_name[name]) for name in names),
    ]
    return json.dumps({"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": graph}, indent=1) + "\n"


def _file(name: str, path: Path) -> Entry:
    described = {"encodingFormat": _TYPES.get(path.suffix, "text/plain"), "contentSize": str(path.stat().st_size)}
    return {"@id": name, "@type": "File", "name": path.name, **described}
