"""A report of rows as one HTML page that needs no network: figures, tables that sort and filter, provenance of numbers.

Figures are SVG within the page, and tables are plain HTML with the full numbers of the rows. A click on a line shows
the provenance of its row, which the page has as JSON, with what many rows have in common stored once. Every text of
rows is escaped once, as the last step. Cells and lines of tables have no end tags, which HTML does not need. Without
JavaScript the page has all its content, but does not sort or filter. The cost is that of the figures.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Sequence
from typing import Any

import pandas as pd

from cpms.base.package_data import folder
from cpms.base.text import escape
from cpms.base.text.counted import counted
from cpms.base.text.progress import Bar
from cpms.experiment.report import figures, templates
from cpms.experiment.report.generic.flaws import flaw
from cpms.experiment.report.generic.parts import named_baseline
from cpms.experiment.report.html.inline_svg import InlineFigures
from cpms.experiment.report.observations import Names, observations
from cpms.experiment.report.show import styled
from cpms.experiment.rows.flat import flatten
from cpms.experiment.rows.rows import Row
from cpms.experiment.rows.schema import unit_of
from cpms.experiment.rows.series import MEASURED
from cpms.experiment.rows.standing import commit_text

NUMBERS = (
    *("solve_s", "query_s", "run_s", "solves_s", "amortised_us", "sweep_us", "median_ms"),
    *("convert_gbps", "restore_gbps"),
    *("iterations", "bits", "error_l1", "error", "residual_l1", "residual", "error_bound"),
    *("matrix_bytes", "least_bytes", "bytes", "prepare_s", "nodes", "edges"),
)
"""Columns of numbers in the tables of the page; columns that the rows of an experiment lack are omitted."""
TEXTS = ("graph", "contestant", "status")
_PROVENANCE = (
    *("time_utc", "gpu", "cpu", "git_commit", "git_dirty", "code_digest", "config_sha256", "cpms_version"),
    *(
        "version_python",
        "version_numpy",
        "cuda_driver",
        "threads",
        "samples",
        "rounds",
        "warmup",
        "repetition",
        "reason",
    ),
)
_OF_ROWS = ("time_utc", "config_sha256", "samples", "rounds", "repetition", "reason")
"""The part of provenance that differs from row to row; the rest is common to many rows."""


def html_report(rows: Sequence[Row], *, title: str = "Results", baseline: str | None = None) -> str:
    """Return a page of the rows of any experiments.

    Parameters
    ----------
    rows : sequence of dict
    title : str
    baseline : str, optional
        The contestant over which speed-ups are computed, see `cpms.experiment.report.templates.drawings`. Experiments
        without it have another one.

    Raises
    ------
    InputError
        If no experiment has the baseline.

    Examples
    --------
    >>> row = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "a<b", "engine": "cpu", "solve_s": 0.5}
    >>> page = html_report([row])
    >>> "a&lt;b" in page, "a<b" in page, "://" in page
    (True, False, False)
    """
    names = list(dict.fromkeys(row["experiment"] for row in rows))
    numbers = {name: number for number, name in enumerate(dict.fromkeys(map(_cell, rows)))}
    inline = InlineFigures()
    of = {name: [row for row in rows if row["experiment"] == name] for name in names}
    baselines = {} if baseline is None else _baselines(of, baseline)
    sections = [
        _section(name, of[name], baselines.get(name), inline, numbers, rows)
        for name in Bar(names, desc="drawing", disable=not sys.stderr.isatty(), leave=False)
    ]
    links = "\n".join(f'<a href="#{_anchor(name)}">{escape.html(name)}</a>' for name in names)
    page = (folder("experiments") / "report.html").read_text(encoding="utf-8")
    return _filled(
        page,
        STYLES=inline.rules(),
        TITLE=escape.html(title),
        SUMMARY=escape.html(f"{counted(len(names), 'experiment')}, {counted(len(rows), 'row')}"),
        LINKS=links,
        SECTIONS="\n".join(sections),
        PROVENANCE=_script(provenance(rows)),
    )


def _baselines(of: dict[str, list[Row]], baseline: str) -> dict[str, str]:
    """Return the baseline of each experiment that has such a contestant."""
    found = {name: held for name, rows in of.items() if not (held := observations(rows)).empty}
    having = {name: baseline for name, held in found.items() if any(baseline in called for called in held.called)}
    if found and not having:
        named_baseline(pd.concat(found.values()), baseline)
    return having


def _filled(page: str, **parts: str) -> str:
    """Replace the placeholders of a page in one pass, so that no text of a row is taken for a placeholder."""
    return re.sub(r"\{\{([A-Z]+)\}\}", lambda place: parts[place[1]], page)


def _script(value: Any) -> str:
    """Return JSON that cannot end the script element around it."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")


def _anchor(name: str) -> str:
    return "of-" + re.sub(r"[^A-Za-z0-9_-]", "-", name)


def provenance(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the provenance of rows: ``common`` to many rows, and the rest for each of the ``cells``.

    An entry of ``cells`` is the name of a cell, the index into ``common``, and the cell's own values. Of several rows
    of a cell, the last one is used.

    Examples
    --------
    >>> row = {"experiment": "mine", "cell": "0", "cpu": "Ours", "samples": 3}
    >>> found = provenance([row, {**row, "cell": "1"}])
    >>> found["common"], found["cells"][1]
    ([{'commit': 'unknown', 'cpu': 'Ours'}], ['mine/1', 0, {'samples': 3}])
    """
    common, cells = dict[str, int](), dict[str, list[Any]]()
    for row in rows:
        recorded = {name: row[name] for name in _PROVENANCE if row.get(name) is not None}
        own = {name: recorded.pop(name) for name in _OF_ROWS if name in recorded}
        text = json.dumps({"commit": commit_text(row), **recorded})
        cells[_cell(row)] = [_cell(row), common.setdefault(text, len(common)), own]
    return {"common": [json.loads(text) for text in common], "cells": list(cells.values())}


def _cell(row: Row) -> str:
    return f"{row['experiment']}/{row['cell']}"


def _section(
    name: str,
    rows: list[Row],
    baseline: str | None,
    inline: InlineFigures,
    numbers: dict[str, int],
    beside: Sequence[Row],
) -> str:
    drawn = []
    with styled():
        for drawing in templates.drawings(rows, width="single", baseline=baseline, beside=beside):
            picture = figures.svg(drawing.figure)
            if picture:
                alt, caption = escape.html(drawing.alt), f"<figcaption>{escape.html(drawing.caption)}</figcaption>"
                drawn.append(f'<figure role="img" aria-label="{alt}">{inline.inlined(picture)}{caption}</figure>')
    heading = f'<h2 id="{_anchor(name)}">{escape.html(name)}</h2>'
    shown = f'<div class="figures">{"".join(drawn)}</div>'
    return f"<section>{heading}{shown}{_table(name, _named(name, rows), numbers)}</section>"


def _named(name: str, rows: list[Row]) -> pd.DataFrame:
    """Return rows of an experiment as a table in which graphs and contestants are named as in figures."""
    table, names = flatten(rows), Names(rows)
    pairs = zip(map(_text, table.graph), map(_text, table.parameters), strict=True)
    found = [names.of(name, graph, parameters) for graph, parameters in pairs]
    return table.assign(graph=[case for case, _ in found], contestant=[called for _, called in found])


def _table(name: str, table: pd.DataFrame, places: dict[str, int]) -> str:
    numbers = [column for column in NUMBERS if column in table and table[column].notna().any()]
    heads = [*TEXTS, *(f"{column} [{unit_of(column)}]" for column in numbers)]
    head = "".join(f'<th scope="col"><button>{escape.html(each)}</button></th>' for each in heads)
    lines = "".join(_line(line, numbers, places) for line in table.to_dict("records"))
    return (
        f'<label>Filter <input type="search" aria-label="Filter {escape.html(name)}"></label>'
        f'<div class="wide"><table data-experiment="{escape.html(name)}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _line(line: dict[Any, Any], numbers: list[str], places: dict[str, int]) -> str:
    named = {**line, "status": _status(line)}
    texts = "".join(f"<td>{escape.html(_text(named[column]))}" for column in TEXTS)
    cells = "".join(f"<td>{_number(line[column])}" for column in numbers)
    return f"<tr data-cell={places[_cell(line)]}>{texts}{cells}"


def _status(line: dict[Any, Any]) -> object:
    """Return why the time of a result must not be compared, or else its status.

    Examples
    --------
    >>> [_status({"status": "ok", "converged": each}) for each in (True, False, float("nan"))]
    ['ok', 'not converged', 'ok']
    """
    known = {name: value for name, value in line.items() if not (isinstance(value, float) and math.isnan(value))}
    return (line["status"] in MEASURED and flaw([known])) or line["status"]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> str:
    """Return a number with all its digits, so that the page has the numbers of the rows."""
    return "" if pd.isna(value) else escape.html(repr(value.item() if hasattr(value, "item") else value))
