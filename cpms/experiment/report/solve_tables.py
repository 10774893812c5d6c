"""Tables and figures of solves by several methods: times with their spread, ratios to references, and wrong answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cpms.base.text.counted import counted
from cpms.experiment.report import panels
from cpms.experiment.report.captions import shortened, some
from cpms.experiment.report.intervals import share_ends
from cpms.experiment.report.output import Output
from cpms.experiment.report.page.described import described
from cpms.experiment.report.speedup_figures import looks_of_means, mean_rows

HELD_OUT = {
    "gpu_cg_time": ("stencil:points=9", "diffusion:side=1000", "elements:"),
    "gpu_cg_kernels": ("stencil:points=9",),
    "gpu_cg_preconditioned": ("diffusion:side=1000", "diffusion:side=200"),
    "gpu_gmres_time": ("diffusion:side=128", "convection:side=140"),
    "gpu_gmres_kernels": ("diffusion:side=128",),
}
"""Beginnings of the names of matrices on which no code and no choice was tuned, by experiment."""


def times(rows: pd.DataFrame, references: dict[str, int]) -> pd.DataFrame:
    """Return one line for each matrix, right-hand side and way, which is a solver with its settings.

    Parameters
    ----------
    rows : DataFrame
        Rows of kind ``linear``.
    references : dict of str to int
        Names of the ways with which all are compared, and their places in a row.
    """
    return pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row, references)])


def means(table: pd.DataFrame, held_out: tuple[str, ...]) -> pd.DataFrame:
    """Return geometric means of ratios over matrices: those whose names begin with one of ``held_out``, and others."""
    held = table.matrix.str.startswith(held_out)
    ratios = [column for column in table if str(column).startswith("times faster than ")]
    lines = []
    for (rhs, way), part in table.groupby(["right-hand side", "way"], sort=False):
        for kind, chosen in (("tuned", ~held), ("held out", held)):
            here = part[chosen[part.index]].dropna(subset=ratios, how="all")
            if len(here):
                line = {"right-hand side": rhs, "way": way, "matrices": f"{len(here)} {kind}"}
                lines.append(line | {column: float(np.exp(np.log(here[column]).mean())) for column in ratios})
    return pd.DataFrame(lines)


def unsolved(table: pd.DataFrame, held_out: tuple[str, ...]) -> str:
    """Return which matrices no way solves, ours included, as a sentence behind others; empty if there are none.

    Examples
    --------
    >>> lines = {"matrix": ["a", "a", "b", "b"], "status": ["CONVERGED", "STAGNATED", "STAGNATED", "MAX_ITERATIONS"]}
    >>> unsolved(pd.DataFrame(lines), ("b",))
    '. No contestant solves b (held out)'
    """
    solved = set(table.matrix[table.status == "CONVERGED"])
    names = [
        f"{shortened(name)}{' (held out)' if str(name).startswith(held_out) else ''}"
        for name in dict.fromkeys(table.matrix)
        if name not in solved
    ]
    return f". No contestant solves {some(names)}" if names else ""


def show_solves(
    rows: pd.DataFrame, out: Output, references: dict[str, int], *, title: str, called: str, names: dict[str, str],
    caption: str, more: str = "",
) -> None:  # fmt: skip
    """Write the tables of an experiment of `HELD_OUT`, and draw how many times faster each way is than the reference.

    Parameters
    ----------
    rows : DataFrame
        Rows of kind ``linear``.
    out : Output
    references : dict of str to int
        Names of the ways with which others are compared, and their places in a row; figures use the first.
    title : str
        The method, for the caption of the table.
    called : str
        The first reference, for the label of the axis.
    names : dict of str to str
        Names in the figure of the ways that are drawn, in this order.
    caption : str
        The beginning of the figure's caption.
    more : str
        The end of it.
    """
    rows = rows[rows.status == "ok"]
    table, held_out = times(rows, references), HELD_OUT[rows.experiment.iloc[0]]
    reached = f"to the same certified residual, {' or '.join(f'{tol:g}' for tol in sorted(set(rows.tol)))}"
    in_turn = "medians; ratios of medians, with the least and the most of pairs of solves in turn"
    rest = "rest: preparing the matrix, copies and certificate, which neither ms nor ratios count"
    out.table(table, caption=f"{title}: time of the solver alone {reached}, {in_turn}; {rest}")
    of_means = f"{title}: ratios of median times of the solver alone, geometric means over the matrices"
    of_means += unsolved(table, held_out)
    out.table(means(table, held_out), suffix="_means", caption=of_means)
    _show_ways(
        table, out, held_out=held_out, over=next(iter(references)), called=called, names=names,
        caption=f"{caption}, {reached}", not_timed=_not_timed(table, names, called), more=more,
    )  # fmt: skip


def _show_ways(
    table: pd.DataFrame, out: Output, *, held_out: tuple[str, ...], over: str, called: str, names: dict[str, str],
    caption: str, not_timed: str, more: str,
) -> None:  # fmt: skip
    """Draw the ways on named rows, a panel for each right-hand side."""
    column, held = f"times faster than {over}", table.matrix.str.startswith(held_out)
    drawn = table.assign(name=table.way.map(names), **{"held out": held}).dropna(subset=["name", column])
    if drawn.empty:
        out.leave_out("figure", f"no way is comparable with {over}")
        return
    sides, rows = list(dict.fromkeys(drawn["right-hand side"])), list(names.values())
    height = panels.rows_height(rows, 0.27 if len(sides) > 1 else 0.32, 1.0)
    figure, axes = panels.grid(out.width, len(sides), height, columns=(1, 2), sharex=True, sharey=True)
    for panel, side in zip(axes, sides, strict=True):
        here = drawn[drawn["right-hand side"] == side]
        mean_rows(panel, here, rows, column, ends=(f"least over {over}", f"most over {over}"))
        panel.tick_params(labelbottom=True)
        if len(sides) > 1:
            panel.set_title(_sides(side))
        for name, part in here.groupby("name"):
            if held.any() and not part["held out"].any():
                panels.note(panel, rows.index(str(name)), "held out: unsolved")
    figure.supxlabel(f"times faster than {called},{' ' if out.double else chr(10)}solver alone")
    found = drawn.groupby(["right-hand side", "name", "held out"]).bits.agg(["size", "nunique"]).reset_index()
    looks = looks_of_means("tuned", "held out", mean="geometric mean")
    looks |= {"one matrix, tuned": panels.FILLED, "one matrix, held out": panels.HOLLOW}
    held_of, alone_of = found["held out"], found["size"] == 1
    entries = {
        name: style
        for name, style in looks.items()
        if ((held_of == name.endswith("held out")) & (alone_of == name.startswith("one"))).any()
    }
    panels.legend(figure, panels.key(drawn.bits, lines=entries))
    grey = ", grey where these differ by matrix" if (found["nunique"] > 1).any() else ""
    counts = drawn.groupby("held out").matrix.nunique().to_dict()
    kinds = {False: "that kernels were tuned on", True: "held out"}
    of = " and ".join(f"{counts[kind]} {word}" for kind, word in kinds.items() if kind in counts)
    alone = "" if len(sides) > 1 else f", {_sides(sides[0])}"
    out.figure(
        figure,
        caption=f"{caption}{alone}: ratios of median times of the solver alone, above 1 faster{not_timed}. Matrices: "
        f"{of}{_dots(found)}{unsolved(table, held_out)}{_missed(table, drawn, names, column)}. Colour: the fewest "
        f"bits of a vector's value that iterations read{grey}. Lines: least to most of pairs of solves in turn{more}",
        alt=f"{described(figure)}{not_timed.removeprefix('.')}{'.' * bool(not_timed)}",
    )


def _not_timed(table: pd.DataFrame, names: dict[str, str], called: str) -> str:
    """Return how many solves the parts of a call take that are not timed, by contestant, as a sentence behind others.

    Examples
    --------
    >>> lines = {"way": ["a", "b"], "status": ["CONVERGED", "CONVERGED"], "ms": [2.0, 1.0], "rest ms": [1.0, 3.0]}
    >>> _not_timed(pd.DataFrame(lines), {"b": "ours, 64 bits"}, "theirs")
    '. Not timed: preparing the matrix, copies and certificate, which cost 0.5 solves (theirs), 3 (ours)'
    """
    solved = table[table.status == "CONVERGED"]
    shares = solved["rest ms"] / solved.ms
    texts = list[str]()
    for kind, part in shares.groupby(solved.way.map(lambda way: _kind(names.get(way, called))), sort=False):
        ends = dict.fromkeys(f"{end:.2g}" for end in (part.min(), part.max()))
        texts.append(f"{' to '.join(ends)}{'' if texts else ' solves'} ({kind})")
    of = "matrix and preconditioner" if table.way.str.contains("jacobi").any() else "the matrix"
    return f". Not timed: preparing {of}, copies and certificate, which cost {', '.join(texts)}" if texts else ""


def _kind(name: str) -> str:
    """Return the beginning of a contestant's name, and its preconditioner where it has one of its own."""
    return "block Jacobi" if "block Jacobi" in name else name.partition(",")[0]


def _missed(table: pd.DataFrame, drawn: pd.DataFrame, names: dict[str, str], column: str) -> str:
    """Return how many ratios each way lacks on systems that others solve, as a sentence behind others."""
    solved = set(zip(drawn.matrix, drawn["right-hand side"], strict=True))
    is_solved = pd.Series([case in solved for case in zip(table.matrix, table["right-hand side"], strict=True)])
    lacking = table[table.way.isin(names) & table[column].isna() & is_solved.set_axis(table.index)]
    counts = lacking.way.map(names).value_counts(sort=False)
    texts = [f"{' '.join(str(name).split())} on {counted(count, 'system')}" for name, count in counts.items()]
    return f". No ratio, as one of both did not converge: {some(texts)}" if texts else ""


def _sides(name: str) -> str:
    """Return the name of right-hand sides, ``ones`` or ``random``, as words."""
    return "right-hand sides of ones" if name == "ones" else f"{name} right-hand sides"


def _dots(found: pd.DataFrame) -> str:
    """Return a text about the dots beside means: where they lie, for the kinds of matrices of which some are drawn."""
    held = set(found["held out"][found["size"] > 1])
    if not held:
        return ""
    if len(set(found["held out"])) == 1:
        return "; dots above a mean are its matrices"
    places = {False: "those tuned on above a mean", True: "those held out below, hollow"}
    return f"; dots: single matrices, {', '.join(places[kind] for kind in sorted(held))}"


def show_answers(rows: pd.DataFrame, out: Output) -> None:
    """Write the table of `answers`, and draw the share of wrong ones by solver with its interval.

    Parameters
    ----------
    rows : DataFrame
        Rows of kind ``honesty``.
    out : Output
    """
    rows = rows[rows.status == "ok"]
    table, systems = answers(rows), _fuzzed(rows)
    some_cupy = table.solver.str.startswith("cupy").any()
    where = "; cpms runs on processors, and CuPy on the GPU" if some_cupy else ""
    out.table(
        table,
        caption=f"Random systems {systems}. Converged: those that a solver calls so; wrong: those whose residual, "
        "recomputed in long double, is above the tolerance; ties: above it by a thousandth at most, which counts as "
        f"right; worst: the largest residual over the tolerance{where}",
        timed=False,
    )
    called = table[table.converged > 0]
    found = list(zip(called.solver, called.wrong, called.converged, strict=True))
    names = [f"{solver}:\n{wrong:,} of {converged:,}" for solver, wrong, converged in found]
    figure, (panel,) = panels.grid(out.width, 1, panels.rows_height(names, 0.35, 0.5))
    for place, (solver, wrong, converged) in enumerate(found):
        low, high = share_ends(wrong, converged)
        share, filled = 100 * wrong / converged, solver.startswith("cpms")
        panels.point(panel, share, place, None, ends=(100 * low, 100 * high), filled=filled)
    panels.named_rows(panel, names)
    panel.set_xlabel("wrong, % of the answers called converged")
    out.figure(
        figure,
        caption=f"Share of wrong answers among those that a solver calls converged, of {int(table.systems.max()):,} "
        f"random systems {systems}. Wrong: the residual, recomputed in long double, is above the tolerance by more "
        f"than a thousandth. Bars: 95 % intervals (Wilson), within the mark where none shows. Filled: cpms{where}",
        timed=False,
    )


def _fuzzed(rows: pd.DataFrame) -> str:
    """Return what `cpms.sources.fuzzed_systems` generates, in words that go on after ``random systems``."""
    return (
        "that are made to provoke false convergence: of twelve kinds, among them singular and unsymmetric ones, for "
        f"which conjugate gradients are not meant; up to {rows.largest.max():,} unknowns, conditions to 1e14, many "
        "right-hand sides times up to 1e200 or down to 1e-200, tolerances from 1e-13 to 1e-3, at most "
        f"{rows.max_iterations.max():,} iterations"
    )


def answers(rows: pd.DataFrame) -> pd.DataFrame:
    """Return answers that solvers called converged, and how many of them are wrong, from rows of kind ``honesty``."""
    total: dict[str, dict[str, Any]] = {}
    for counts in rows.counts:
        for name, found in counts.items():
            line = total.setdefault(name, {"converged": 0, "wrong": 0, "ties": 0, "worst": 0.0})
            for key in ("converged", "wrong", "ties"):
                line[key] += found[key]
            line["worst"] = max(line["worst"], found["worst"])
    return pd.DataFrame([{"solver": name, "systems": rows.systems.sum(), **line} for name, line in total.items()])


def _lines(row: Any, references: dict[str, int]) -> list[dict[str, Any]]:
    lines = []
    for way in row.ways_found:
        seconds = _seconds(way)
        line = {
            "matrix": row.graph,
            "right-hand side": row.rhs,
            "way": _name(way),
            "matrix in": way["stored_as"],
            "bits": min(map(int, way["iterations_by_bits"]), default=64),
            "status": way["status"],
            "residual": way["residual"],
            "iterations": way["iterations"],
            "ms": 1e3 * way["solve_s"],
            "least ms": 1e3 * min(seconds),
            "most ms": 1e3 * max(seconds),
            "rest ms": 1e3 * float(np.median([a - b for a, b in zip(_seconds(way, "whole"), seconds, strict=True)])),
            "TB/s": way["bytes_read"] / way["solve_s"] / 1e12 if way["bytes_read"] else float("nan"),
        }
        for name, place in references.items():
            other = row.ways_found[place]
            solved = way["status"] == other["status"] == "CONVERGED"
            ratios = [a / b for a, b in zip(_seconds(other), seconds, strict=True)] if solved else [float("nan")]
            line |= {
                f"times faster than {name}": other["solve_s"] / way["solve_s"] if solved else float("nan"),
                f"least over {name}": min(ratios),
                f"most over {name}": max(ratios),
            }
        lines.append(line)
    return lines


def _seconds(way: dict[str, Any], what: str = "solve") -> list[float]:
    return way.get(f"{what}_samples_s") or [way[f"{what}_s"]]


def _name(way: dict[str, Any]) -> str:
    if way["method"] == "auto":
        return f"{way['engine']} auto"
    preconditioner = f", {way['preconditioner']}" if way.get("preconditioner") else ""
    if way["engine"] not in ("cuda", "cpu", "reference"):
        return f"{way['engine']} {way['method']}{preconditioner}"
    stored = "" if way["storage"] == "auto" else f", matrix {way['storage']}"
    return f"{way['engine']} {way['method']} {' '.join(way['vectors'])}{stored}{preconditioner}"
