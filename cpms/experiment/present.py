"""Tables and figures from recorded rows, and from nothing else."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pandas as pd

from cpms import caches, escape
from cpms.errors import CpmsError, InputError
from cpms.experiment import figures, outcome, rows
from cpms.experiment.outcome import measured, why_not
from cpms.experiment.standing import Recorded
from cpms.format import format_named
from cpms.latex_table import latex_table
from cpms.near import nearest
from cpms.shipped import folder, show_programs
from cpms.table_text import LONGEST_WORD, markdown, write_csv
from cpms.writing import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PALETTE = {
    8: "#CC79A7",
    16: "#D55E00",
    24: "#8C564B",
    32: "#E69F00",
    40: "#999999",
    48: "#009E73",
    56: "#56B4E9",
    64: "#0072B2",
}
"""Colours by bits read, told apart by the colour-blind (after Okabe and Ito)."""
_WRONG_ROWS = (LookupError, AttributeError, TypeError, ValueError, ArithmeticError)
"""Errors of a program to which rows lack a column, or hold something else in it."""
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


def without_and_with(row: pd.Series[Any], way: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield what a row of kind ``sweeps`` found without a way and with it, storage by storage."""
    found = {(result["arrangement"][way], result["storage"]): result for result in row.results}
    for (taken, storage), result in found.items():
        if not taken and (True, storage) in found:
            yield result, found[True, storage]


def show_faster(
    rows: pd.DataFrame, out: Output, lines: Callable[[pd.Series[Any]], Iterable[dict[str, Any]]], by: str, caption: str
) -> None:
    """Put out a table of what is made of each row of kind ``sweeps``, and `faster_figure`.

    Parameters
    ----------
    rows : DataFrame
    out : Output
    lines : callable
        Returns the lines of a row, with the columns of that figure.
    by : str
        What makes sweeps faster.
    caption : str
        Names the device by ``{gpu}``.
    """
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in lines(row)])
    if table.empty:
        out.leave_out("table and figure", f"no graph has sweeps both {by} and not")
        return
    out.table(table, caption=caption.format(gpu=rows.gpu.iloc[0]))
    out.figure(faster_figure(table, by))


def faster_lines(row: pd.Series[Any], way: str, called: str) -> Iterator[dict[str, Any]]:
    """Yield a line a storage: microseconds of a row's sweeps without a way, and with it in columns named after it."""
    for result, made in without_and_with(row, way):
        yield {
            "graph": shortened(label(row)),
            "edges": row.edges,
            "storage": result["storage"],
            "bits": result["bits"],
            "us": result["sweep_us"],
            f"{called} us": made["sweep_us"],
            "apart us": made["most_us"] - made["least_us"],
            "times faster": result["sweep_us"] / made["sweep_us"],
            "bytes": made["bytes"] / result["bytes"],
            "gathers us": made["gather_us"],
        }


def faster_figure(table: pd.DataFrame, by: str) -> Figure:
    """Draw how many times faster each graph's sweeps are, by the bits of a value: columns graph, bits and times faster.

    Parameters
    ----------
    table : DataFrame
    by : str
        What makes them faster.
    """
    import matplotlib.pyplot as plt

    graphs = list(dict.fromkeys(table.graph))
    figure, axes = plt.subplots(figsize=(7, 0.8 + 0.2 * len(graphs)))
    for place, bits in enumerate(sorted(set(table.bits.tolist()))):
        part = table[table.bits == bits]
        faster = part.set_index("graph").reindex(graphs)["times faster"]
        heights = [i + 0.12 * (place - 1.5) for i in range(len(graphs))]
        axes.plot(faster, heights, "o", ms=3.5, color=PALETTE[bits], label=f"{bits} bits a value")
    axes.axvline(1.0, color="#222222", linewidth=0.6)
    axes.set(xlabel=f"times faster {by}")
    axes.set_yticks(range(len(graphs)), graphs)
    axes.invert_yaxis()
    axes.legend()
    return figure


class Output:
    """Where a show program puts its tables and figures; the same rows always give the same bytes.

    What a reader has to know of the rows, ``note``, stands in captions and below figures.
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

        All texts, also the caption, are plain: what would be markup is escaped. Names are whole in ``.csv`` alone.
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

        A figure with an empty panel is left out, which is said.
        """
        if self._note:
            label = figure.get_supxlabel()
            figure.supxlabel("\n".join(filter(None, [label, self._note])), fontsize=8 if label else 6)
        written = figures.save(figure, self._target / f"{self._name}{suffix}")
        self.written += written
        if not written:
            self.leave_out(f"figure {self._name}{suffix}", "the rows hold nothing to draw in one of its panels")

    def leave_out(self, what: str, reason: str) -> None:
        """Say that a table or figure cannot be made of the rows, and why."""
        self.left_out.append(f"{what}: {reason}")
        self._echo(f"left out: {self.left_out[-1]}")

    def _write(self, path: Path, text: str) -> None:
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        self.written.append(path)


def show(
    name: str,
    *,
    results: Path | None = None,
    output: Path = Path("out"),
    echo: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Run the show program ``name``, or ``all`` that have rows, and return the files written.

    A program is a Python file. It names the experiments whose rows it cannot do without in ``NEEDS``, a list, and has a
    function ``show(rows, out)`` of these rows, a pandas.DataFrame, and an `Output`. Experiments that it draws beside
    them, if there are rows, are in ``BESIDE``; ``show`` then takes their rows, too.

    Parameters
    ----------
    name : str
        A program in ``experiments/show``, or the path of one elsewhere, which ends in ``.py``.
    results : Path, optional
        Folder of the rows; those recorded with the package by default.
    output : Path
        Folder to draw into; made if need be.
    echo : callable
        Receives tables as text.

    Raises
    ------
    InputError
        If there is no such program, its rows are missing or hold no measurements, or the output cannot be written.
    """
    caches.redirect("matplotlib")
    os.environ["MPLBACKEND"] = "Agg"  # A backend that this installation lacks would keep Matplotlib from loading.
    import matplotlib

    matplotlib.use("Agg")
    source = results or folder("experiments") / "results"
    if not source.is_dir():
        raise InputError(f"{source}: there is no such folder; give --results the folder of the rows")
    chosen = {program: _program(path) for program, path in _chosen(name).items()}
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{output}: cannot be made ({error.strerror}); give another --output") from None
    written: list[Path] = []
    drawn: list[str] = []
    of_folder = Recorded(source)
    for program, module in chosen.items():
        recorded = _table(of_folder.chosen(module.NEEDS).rows)
        lacks = _lacks(recorded, source, module.NEEDS)
        if lacks and name != "all":
            raise InputError(lacks)
        if lacks:
            if not recorded.empty:
                echo(f"left out: {program}: {lacks}")
            continue
        beside = [_table(of_folder.chosen(module.BESIDE).rows)] if hasattr(module, "BESIDE") else []
        found = of_folder.chosen([*dict.fromkeys([*module.NEEDS, *getattr(module, "BESIDE", [])])])
        target = Output(output, program, echo, found.note)
        try:
            with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]
                module.show(recorded, target, *beside)
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
        drawn += [*module.NEEDS, *getattr(module, "BESIDE", [])]
    if drawn:
        echo(of_folder.counts(None if name == "all" else drawn))
    else:
        raise InputError(f"{source} holds no rows that anything draws; 'cpms run NAME --output {source}' first")
    return written


def has_rows(name: str, source: Path) -> bool:
    """Say whether a folder has rows of a show program, or of any where the name is ``all``.

    Raises
    ------
    InputError
        If there is no such program.
    """
    return any(not recorded_rows(source, _program(path).NEEDS).empty for path in _chosen(name).values())


def recorded_rows(source: Path, experiments: Sequence[str]) -> pd.DataFrame:
    """Return the rows of the named experiments in a folder, the last one of each cell.

    A row none of whose contestants could take part has their ``status`` and ``reason``.
    """
    return _table(Recorded(source).of(experiments))


def _table(found: list[rows.Row]) -> pd.DataFrame:
    return pd.DataFrame([row if measured(row) else {**row, **why_not(row)} for row in found])


def _chosen(name: str) -> dict[str, Path]:
    """Return the files of the programs that a name stands for, by their own names."""
    shipped, path = show_programs(), Path(name)
    if path.suffix == ".py" and path.is_file():
        return {path.stem: path}
    if name != "all" and name not in shipped:
        near = nearest(name, shipped)
        it = f"did you mean {near}? It" if near else "it"
        raise InputError(
            f"{name!r} cannot be shown; {it} can be all, one of {', '.join(shipped)}, or the path of a program of your "
            "own that ends in .py; pandas.read_json(path, lines=True) reads rows, too"
        )
    return shipped if name == "all" else {name: shipped[name]}


def _lacks(recorded: pd.DataFrame, source: Path, needs: Sequence[str]) -> str | None:
    """Return why nothing can be drawn, None if something can."""
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


def printed(name: str) -> pd.DataFrame:
    """Return values that a paper prints, from ``experiments/paper/NAME.csv``."""
    return pd.read_csv(folder("experiments") / "paper" / f"{name}.csv", comment="#")


def label(row: Any) -> str:
    """Return the name of a graph, marked where it is a stand-in."""
    stand_in = row["stand_in_for"]
    return str(row["graph_name"]) if pd.isna(stand_in) else f"{stand_in} (stand-in)"


def storage_of(result: Any) -> str:
    """Return a contestant's storage, and how many bits its sweeps read at most before float64 where that is said.

    Examples
    --------
    >>> storage_of({"storage": "cpms4"}), storage_of({"storage": "cpms4", "most_read": 2})
    ('cpms4', 'cpms4 to 32 bits')
    """
    name, most_read = result["storage"], result.get("most_read")
    return name if most_read is None else f"{name} to {format_named(name).bits(most_read)} bits"


def shortened(name: str) -> str:
    """Return a generator's name with its first parameters only: figures have little room.

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
    # What generators name their graphs, whose parameters are in one order.
    if found := re.fullmatch(r"of=(.*),(count|by)=(\w+)(,seed=\d+)?", parameters):
        inner = shortened(found[1][1:-1] if found[1].startswith("(") else found[1])
        return f"{found[3]} x {inner}" if found[2] == "count" else f"{inner} by {found[3]}"
    given = dict(part.partition("=")[::2] for part in parameters.split(","))
    if "edges" in given:
        return f"{kind}, {int(given['edges']) / 1e6:.0f}M edges"
    return f"{kind} {given['scale']}" if "scale" in given else name


def _program(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"cpms_show_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "NEEDS") or not hasattr(module, "show"):
        raise InputError(f"{path}: has no list NEEDS of experiments, or no function show(rows, out); it needs both")
    return module
