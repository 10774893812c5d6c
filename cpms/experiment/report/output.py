"""The output of show programs: files of tables and figures, and their common style."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from cpms.base import plugins
from cpms.base.atomic_files import replacing
from cpms.base.errors import InputError
from cpms.base.package_data import folder
from cpms.base.text import escape
from cpms.base.text.latex_table import latex_table
from cpms.base.text.tables import Best, best_in_words, markdown, shortened_caption, write_csv
from cpms.experiment.derived.repetitions import only
from cpms.experiment.report import figures
from cpms.experiment.report.captions import provenance, some, without_units
from cpms.experiment.report.captions import shortened as shortened
from cpms.experiment.report.page.described import described
from cpms.experiment.report.page.names import shorter, with_short_names
from cpms.experiment.report.palette import PALETTE as PALETTE
from cpms.experiment.report.stand_ins import STARRED
from cpms.experiment.report.style import WIDTHS, inches
from cpms.experiment.rows.rows import Row
from cpms.experiment.rows.standing import earlier, not_committed
from cpms.formats.formats import format_named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cpms.experiment.report.templates import Drawing


_STAND_IN = " (stand-in)"
_PAGE_IN, _LINE_IN, _CHARACTERS = 9.0, 0.15, 60
"""Height of a journal's page and of a line of a caption in inches, and characters of a line in one column."""


class Output:
    """The files of a show program; the same rows always give the same bytes.

    Parameters
    ----------
    target : Path
        The folder.
    name : str
        The beginning of the files' names.
    echo : callable
        Receives lines for the user.
    note : str
        A caveat on the rows; it becomes part of captions and stands below figures.
    rows : sequence of dict
        The rows that are drawn.
    apart : sequence of dict
        The rows among them that no commit explains; the names of their graphs get a dagger.
    width : str
        Width of figures: ``single`` or ``double`` column.
    endings : sequence of str
        Endings of the files of a figure.
    """

    def __init__(
        self,
        target: Path,
        name: str,
        echo: Callable[[str], None],
        note: str = "",
        *,
        rows: Sequence[Row] = (),
        apart: Sequence[Row] = (),
        width: str = "single",
        endings: Sequence[str] = figures.ENDINGS,
    ) -> None:
        self._target, self._name, self._echo, self._note = target, name, echo, note
        self._endings = endings
        self._rows, self._apart, self._marks = rows, apart, set[str]()
        self.width = inches(width)
        self.written: list[Path] = []
        self.left_out: list[str] = []

    @property
    def double(self) -> bool:
        """Whether figures are as wide as two columns."""
        return self.width > WIDTHS["single"]

    def names(self, graphs: Iterable[str], most: int | None = None, *, of: Sequence[str] = ()) -> list[str]:
        """Return names of graphs for a figure: short, with a star for a stand-in.

        Graphs of rows that no commit explains get a dagger if such rows are fewer than the others. Only rows of the
        experiments ``of`` are considered, by default all.
        """
        most, graphs = most or (30 if self.double else 24), list(graphs)
        shorter = without_units([name.removesuffix(_STAND_IN) for name in graphs], most)
        rows, some_apart = self._of(of)
        apart = {name for row in some_apart for name in _names_of(row)} if 2 * len(some_apart) < len(rows) else set()
        found = []
        for name, short in zip(graphs, shorter, strict=True):
            marks = ["*" if name.endswith(_STAND_IN) else "", " †" if name in apart else ""]
            text = escape.abbreviate(short, most)
            while len(text) > 1 and len(escape.drawn(text)) > most:
                text = text[:-2] + "…"
            found.append(text + "".join(marks))
            self._marks.update(filter(None, map(str.strip, marks)))
        return found

    def say(self, text: str) -> None:
        """Pass a line on to the user."""
        self._echo(text)

    def _of(self, experiments: Sequence[str]) -> tuple[list[Row], list[Row]]:
        """Return the rows of some experiments, and those among them that no commit explains."""
        of = set(experiments)
        rows, apart = ([row for row in held if not of or row["experiment"] in of] for held in (self._rows, self._apart))
        return rows, apart

    def _of_some(self, experiments: Sequence[str] | None) -> tuple[list[Row], list[Row]]:
        """Return the same of a table or figure, where no experiment at all means no row."""
        return ([], []) if experiments is not None and not experiments else self._of(experiments or ())

    def table(
        self, table: pd.DataFrame, *, suffix: str = "", caption: str = "", best: Best | None = None,
        among: tuple[str, Sequence[bool]] | None = None, of: Sequence[str] | None = None, timed: bool | str = True,
    ) -> None:  # fmt: skip
        """Write a table as ``.csv``, ``.md`` and ``.tex``, and show it; the best numbers are bold.

        Texts and caption are plain text, in which markup is escaped. Names are as short as in figures, except in
        ``.csv``. The caption gets machine, commit, repetitions and spread, as that of a figure does, and what bold
        numbers are, unless it has that.

        Parameters
        ----------
        table : DataFrame
        suffix : str
            Of the files' names.
        caption : str
            What the table has.
        best : dict, optional
            Rules for the best numbers, see `cpms.base.text.tables.is_best`.
        among : tuple, optional
            The lines that may have the best: a name for them, such as ``right answers``, and whether each line is one.
        of : sequence of str
            Experiments whose rows it is made of; by default all; none for values of others.
        timed : bool or str
            Whether it has times, whose repetitions and spread the caption has; counts have none. If rows have samples
            of several, the name of its time, such as ``whole``.
        """
        stem = self._target / f"{self._name}{suffix}"
        if table.empty:
            self.leave_out(f"table {stem.name}", "the rows hold nothing of it")
            return
        rows, apart = self._of_some(of)
        in_words = shorter(table)
        short, best = with_short_names(table, in_words), {in_words(name): rule for name, rule in (best or {}).items()}
        lines, worthy = (among[0], [*among[1]]) if among else ("", None)
        bold = "" if "bold" in caption.casefold() else best_in_words(short, best, worthy, lines)
        caption = _sentences(caption, bold, said=self._provenance(rows, apart, self._note_on(rows, apart), timed))
        self._write(stem.with_name(stem.name + ".csv"), str(write_csv(table)))
        text = markdown(short, best, worthy)
        title = f"{escape.markdown_paragraph(shortened_caption(caption))}\n\n" if caption else ""
        self._write(stem.with_name(stem.name + ".md"), f"{title}{text}\n")
        latex = latex_table(short, caption=caption, label=f"tab:{stem.name}", best=best, among=worthy)
        self._write(stem.with_name(stem.name + ".tex"), latex)
        for line in f"{title}{text}\n".split("\n"):
            self._echo(line)

    def figure(
        self, figure: Figure, *, suffix: str = "", caption: str = "", alt: str = "", of: Sequence[str] | None = None,
        results: Callable[[dict[str, Any]], bool] | None = None, timed: bool | str = True,
    ) -> None:  # fmt: skip
        """Write a figure as ``.pdf``, ``.svg`` and ``.png``; its texts are plain, and long names abbreviated.

        A file ``.json`` beside it has the caption with machine, commit, repetitions and spread, the alternative text
        and the cells of the rows. A figure with an empty panel is not written; the user gets a line about it.

        Parameters
        ----------
        figure : matplotlib.figure.Figure
        suffix : str
            Of the files' names.
        caption : str
            What is shown.
        alt : str
            Alternative text: the figure in words; by default what `page.described.described` reads from it.
        of : sequence of str
            Experiments whose rows are drawn; by default all; none for a picture of formats or layouts.
        results : callable, optional
            Returns whether a result, with the columns of its row, is drawn; by default all are. The machines, commits,
            samples and spread in the caption are of these.
        timed : bool or str
            Whether times are drawn, whose repetitions and spread the caption has; counts have none. If rows have
            samples of several, the name of the time that is drawn, such as ``whole``.
        """
        rows, apart = self._of_some(of)
        alt = alt or described(figure)
        note = self._note_on(rows, apart)
        below = ["*: stand-in" if "*" in self._marks else "", ("†: " if "†" in self._marks else "") + note]
        starred = STARRED if "*" in self._marks else ""
        text = figure.get_supxlabel()
        lines = list(filter(None, [text, *map(escape.terminal, below if note else below[:1])]))
        if lines != [text]:
            figure.supxlabel("\n".join(lines), fontsize=8 if text else 7)
        self._marks.clear()
        figure.set_label(alt)
        drawn = rows if results is None else only(rows, results)
        said = self._provenance(drawn, apart, note, timed)
        whole = _sentences(caption, starred, said=said)
        if not self.double and _is_higher_than_a_page(figure.get_figheight(), whole):
            whole = _sentences(caption, "Drawn for two columns", starred, said=said)
        texts = {
            "caption": whole,
            "alt": alt,
            "experiments": list(dict.fromkeys(str(row["experiment"]) for row in rows)),
            "cells": [row["cell"] for row in rows],
            "cells_without_commit": [row["cell"] for row in apart],
        }
        self._save(figure, f"{self._name}{suffix}", texts)

    def _note_on(self, rows: Sequence[Row], apart: Sequence[Row]) -> str:
        """Return the caveat on some rows alone."""
        note = self._note.replace(not_committed(self._apart, self._rows), not_committed(apart, rows))
        for other in {str(row["experiment"]) for row in self._rows} - {str(row["experiment"]) for row in rows}:
            note = note.replace(earlier(other), "")
        return "; ".join(filter(None, note.split("; ")))

    def drawing(self, drawing: Drawing) -> None:
        """Write a figure with a file ``.json`` beside it: caption, alternative text, and the rows that it is of."""
        caption = " ".join(filter(None, [drawing.caption, f"({self._note})" if self._note else ""]))
        texts = {"caption": caption, "alt": drawing.alt, "experiment": drawing.experiment, "cells": drawing.cells}
        drawing.figure.set_label(drawing.alt)
        self._save(drawing.figure, f"{self._name}_{drawing.name}", texts)

    def _save(self, figure: Figure, name: str, texts: dict[str, Any]) -> None:
        written = figures.save(figure, self._target / name, self._endings)
        self.written += written
        if written:
            self._write(self._target / f"{name}.json", json.dumps(texts, indent=1) + "\n")
        else:
            self.leave_out(f"figure {name}", "the rows hold nothing to draw in one of its panels")

    def _provenance(self, rows: Sequence[Row], apart: Sequence[Row], note: str, timed: bool | str) -> str:
        """Return machine, commit, repetitions and spread, and the graphs of rows that no commit explains."""
        few = 2 * len(apart) < len(rows)
        named = apart if few else [row for row in rows if row not in apart]
        graphs = some(dict.fromkeys(shortened(label(row)) for row in named if row.get("graph_name"))) if apart else ""
        note = (": " if few else ", all but ").join(filter(None, [note, graphs]))
        return " ".join(filter(None, [provenance(rows, timed=timed) if rows else "", f"({note})" if note else ""]))

    def origin(self, origins: list[dict[str, str | None]], experiments: list[str]) -> None:
        """Add to the ``.json`` of a plug-in's figure, which may have a caption already, which plug-in drew it."""
        if origins and self.written:
            path = self._target / f"{self._name}.json"
            held = json.loads(path.read_text(encoding="utf-8")) if path in self.written else {}
            self.written = [each for each in self.written if each != path]
            self._write(path, json.dumps({**held, "plugins": origins, "experiments": experiments}, indent=1) + "\n")

    def leave_out(self, what: str, reason: str) -> None:
        """Report that a table or figure cannot be made of the rows, and the reason."""
        self.left_out.append(f"{what}: {reason}")
        self._echo(f"left out: {self.left_out[-1]}")

    def _write(self, path: Path, text: str) -> None:
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        self.written.append(path)


def printed(name: str, *, as_text: bool = False) -> pd.DataFrame:
    """Return values that a paper prints, from ``experiments/paper/NAME.csv``; as texts they have the paper's digits."""
    path = folder("experiments") / "paper" / f"{name}.csv"
    return pd.read_csv(path, comment="#", dtype=str if as_text else None)


def agrawal_table1() -> pd.DataFrame:
    """Return Table 1 of Agrawal, Shendre and Goka: vertices, edges, and the printed milliseconds as texts."""
    table = printed("agrawal_table1", as_text=True).astype({"nodes": int, "edges": int})
    names = {"serial_ms": "serial", "cuda_ms": "CUDA", "mpj_ms": "MPJ"}
    return table.rename(
        columns={"nodes": "vertices", **{key: f"{name}, Agrawal et al." for key, name in names.items()}}
    )


def label(row: Any) -> str:
    """Return the name of a graph, marked where it is a stand-in."""
    stand_in = row.get("stand_in_for")
    return str(row["graph_name"]) if pd.isna(stand_in) else f"{stand_in}{_STAND_IN}"


def _is_higher_than_a_page(height: float, caption: str) -> bool:
    """Return whether a figure of one column has no room on a page with its caption.

    Examples
    --------
    >>> _is_higher_than_a_page(7.0, "a" * 600), _is_higher_than_a_page(7.0, "a" * 900)
    (False, True)
    """
    return height + _LINE_IN * -(-len(caption) // _CHARACTERS) > _PAGE_IN


def _sentences(*texts: str, said: str) -> str:
    """Return texts as sentences, with what is said of their rows behind them, where there is something."""
    return " ".join([*(f"{each.rstrip('. ')}." for each in texts if each), *filter(None, [said])])


def _names_of(row: Row) -> tuple[str, ...]:
    """Return the names that figures have for the graph of a row."""
    return (label(row), shortened(label(row))) if row.get("graph_name") else ()


def storage_of(result: Any) -> str:
    """Return the storage of a contestant, with the most bits that its sweeps read before float64 if these are limited.

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
