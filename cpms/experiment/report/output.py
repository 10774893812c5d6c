"""The output of show programs: files of tables and figures, and their common style."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from cpms.base import plugins
from cpms.base.atomic_files import replacing
from cpms.base.errors import InputError
from cpms.base.package_data import folder
from cpms.base.text import escape
from cpms.base.text.latex_table import latex_table
from cpms.base.text.table_text import LONGEST_WORD, markdown, write_csv
from cpms.experiment.report import figures
from cpms.experiment.report.palette import PALETTE as PALETTE
from cpms.formats.formats import format_named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cpms.experiment.report.templates import Drawing

_STYLE = {
    "font.family": "sans-serif",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.0,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 200,
    "svg.hashsalt": "cpms",
    "pdf.fonttype": 42,
}


class Output:
    """The files of a show program; the same rows always give the same bytes.

    ``note`` is a caveat on the rows; it becomes part of captions and stands below figures.
    """

    def __init__(self, target: Path, name: str, echo: Callable[[str], None], note: str = "") -> None:
        self._target, self._name, self._echo, self._note = target, name, echo, note
        self.written: list[Path] = []
        self.left_out: list[str] = []

    def say(self, text: str) -> None:
        """Pass a line on to the user."""
        self._echo(text)

    def table(self, table: pd.DataFrame, *, suffix: str = "", caption: str = "") -> None:
        """Write a table as ``.csv``, ``.md`` and ``.tex``, and show it.

        All texts and the caption are plain text: markup is escaped. Long names are abbreviated but in ``.csv``.
        """
        caption = " ".join(filter(None, [caption, f"({self._note})" if self._note else ""]))
        stem = self._target / f"{self._name}{suffix}"
        if table.empty:
            self.leave_out(f"table {stem.name}", "the rows hold nothing of it")
            return
        text = markdown(table)
        title = f"{escape.markdown_paragraph(escape.abbreviate_words(caption, LONGEST_WORD))}\n\n" if caption else ""
        self._write(stem.with_name(stem.name + ".csv"), str(write_csv(table)))
        self._write(stem.with_name(stem.name + ".md"), f"{title}{text}\n")
        latex = latex_table(table, caption=caption, label=f"tab:{stem.name}")
        self._write(stem.with_name(stem.name + ".tex"), latex)
        for line in f"{title}{text}\n".split("\n"):
            self._echo(line)

    def figure(self, figure: Figure, *, suffix: str = "") -> None:
        """Write a figure as ``.pdf``, ``.svg`` and ``.png``; its texts are plain, and long names abbreviated.

        A figure with an empty panel is not written; the user gets a line about it.
        """
        if self._note:
            label = figure.get_supxlabel()
            figure.supxlabel("\n".join(filter(None, [label, self._note])), fontsize=8 if label else 6)
        written = figures.save(figure, self._target / f"{self._name}{suffix}")
        self.written += written
        if not written:
            self.leave_out(f"figure {self._name}{suffix}", "the rows hold nothing to draw in one of its panels")

    def drawing(self, drawing: Drawing) -> None:
        """Write a figure with a file ``.json`` beside it: caption, alternative text, and the rows that it is of."""
        written = figures.save(drawing.figure, self._target / f"{self._name}_{drawing.name}")
        self.written += written
        if not written:
            self.leave_out(f"figure {self._name}_{drawing.name}", "the rows hold nothing to draw in one of its panels")
            return
        caption = " ".join(filter(None, [drawing.caption, f"({self._note})" if self._note else ""]))
        described = {"caption": caption, "alt": drawing.alt, "experiment": drawing.experiment, "cells": drawing.cells}
        self._write(written[0].with_suffix(".json"), json.dumps(described, indent=1) + "\n")

    def origin(self, origins: list[dict[str, str | None]], experiments: list[str]) -> None:
        """Write beside the figures of a plug-in which one it is, by a file ``.json``; nothing for other programs."""
        if origins:
            text = json.dumps({"plugins": origins, "experiments": experiments}, indent=1)
            self._write(self._target / f"{self._name}.json", f"{text}\n")

    def leave_out(self, what: str, reason: str) -> None:
        """Report that a table or figure cannot be made of the rows, and the reason."""
        self.left_out.append(f"{what}: {reason}")
        self._echo(f"left out: {self.left_out[-1]}")

    def _write(self, path: Path, text: str) -> None:
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        self.written.append(path)


def printed(name: str) -> pd.DataFrame:
    """Return values that a paper prints, from ``experiments/paper/NAME.csv``."""
    return pd.read_csv(folder("experiments") / "paper" / f"{name}.csv", comment="#")


def label(row: Any) -> str:
    """Return the name of a graph, marked where it is a stand-in."""
    stand_in = row["stand_in_for"]
    return str(row["graph_name"]) if pd.isna(stand_in) else f"{stand_in} (stand-in)"


def storage_of(result: Any) -> str:
    """Return the storage of a contestant, with the most bits its sweeps read before float64, if it has such a limit.

    Examples
    --------
    >>> storage_of({"storage": "cpms4"}), storage_of({"storage": "cpms4", "most_read": 2})
    ('cpms4', 'cpms4 to 32 bits')
    """
    name, most_read = result["storage"], result.get("most_read")
    if most_read is None:
        return str(name)
    try:
        with plugins.allowed(False):  # A row is data: it runs no code.
            return f"{name} to {format_named(name).bits(most_read)} bits"
    except InputError:
        return f"{name} to level {most_read}"


def shortened(name: str) -> str:
    """Return a generator's name with its first parameters, short enough for figures.

    Examples
    --------
    >>> shortened("weblike:nodes=10000000,edges=52000000,seed=1"), shortened("wiki-Vote")
    ('weblike, 52M edges', 'wiki-Vote')
    >>> shortened("reordered:of=(copies:of=wiki-Vote,count=3),by=chance")
    '3 x wiki-Vote by chance'
    >>> shortened("copies:of=(standin:adaptive,size=3),count=2")
    '2 x standin:adaptive,size=3'
    """
    kind, _, parameters = name.partition(":")
    # Generators write the parameters of these names in one order.
    if found := re.fullmatch(r"of=(.*),(count|by)=(\w+)(,seed=\d+)?", parameters):
        inner = shortened(found[1][1:-1] if found[1].startswith("(") else found[1])
        return f"{found[3]} x {inner}" if found[2] == "count" else f"{inner} by {found[3]}"
    given = dict(part.partition("=")[::2] for part in parameters.split(","))
    if "edges" in given:
        return f"{kind}, {int(given['edges']) / 1e6:.0f}M edges"
    return f"{kind} {given['scale']}" if "scale" in given else name
