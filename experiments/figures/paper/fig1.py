"""Figure 1: a small matrix as CSR and as ELL store it, drawn from these layouts; what each takes."""

import re
from fractions import Fraction

import numpy as np
import pandas as pd

from cpms.experiment.report.output import label
from cpms.experiment.report.palette import NEUTRAL
from cpms.formats.formats import FP64
from cpms.graph.graph import Graph
from cpms.sparse import ell
from cpms.sparse.transition_values import edge_values

NEEDS = ["gpu_spmv"]
EDGES = [(1, 0), (2, 0), (0, 1), (0, 2), (1, 2), (4, 2), (2, 4), (3, 4)]
"""From a node to a node."""
PADDED, GREYS, OF_NO_ROW = "#ffffff", ("#a8a8a8", "#dedede"), "#ffffff"
"""Of padding, of rows by turns, and of numbers that belong to no row."""
APART = 1.0
"""Room above an array that is no part of the entries, for numbers of its own."""


def show(rows, out):
    table = pd.DataFrame([line for _, row in rows[rows.status == "ok"].iterrows() for line in _lines(row)])
    if len(table):
        wide = table.pivot_table(index=["graph", "nodes", "edges"], columns="layout", values="GB", sort=False)
        table = wide.reindex(columns=["csr", "ell"]).reset_index().rename(columns={"csr": "CSR, GB", "ell": "ELL, GB"})
        table["ELL / CSR"] = table["ELL, GB"] / table["CSR, GB"]
        out.table(
            table.rename_axis(columns=None),
            caption="Bytes that a float64 product reads and writes at least in each layout; of ELL where the graph did "
            "not fit, the memory that building it would need, in which values exist twice",
            timed=False,
        )
    graph = Graph.from_edges(*zip(*EDGES, strict=True), nodes=5)
    out.figure(
        _figure(graph, out),
        caption=f"A matrix of {graph.nodes} rows and {graph.edges} entries, and how CSR and ELL store it: values 1 / "
        "out-degree of the source, their columns, and in CSR where each row begins. Rows of ELL are padded to the "
        "longest, with zeros in their own column (white), and lie in memory line after line as drawn. Grey numbers are "
        f"those of rows, and above the matrix of columns; shades only tell rows apart{_empty(graph)}. Drawn from the "
        "arrays of the layouts",
        alt=f"A {graph.nodes} by {graph.nodes} matrix beside two groups of arrays: CSR with {graph.edges} values, "
        f"{graph.edges} columns and {graph.nodes + 1} row pointers; ELL with {graph.nodes} rows of "
        f"{int(graph.in_degree.max())} values and columns each, of which some are padding.",
        of=[],
    )


def _empty(graph):
    """Return which rows have no entries, as a phrase."""
    empty = np.flatnonzero(graph.in_degree == 0)
    return f"; row {' and '.join(map(str, empty))} is empty" if len(empty) else ""


def _lines(row):
    found = {c["layout"]: c["least_bytes"] / 1e9 for c in row.contestants if c["storage"] == "fp64"}
    for reason in row.refused.values():
        if needed := re.search(r"needs about ([\d,]+) bytes", reason):
            found.setdefault(row.layout, int(needed[1].replace(",", "")) / 1e9)
    for layout in {"csr", "ell"} & {row.layout} & found.keys():
        yield {
            "graph": label(row), "nodes": row.nodes, "edges": row.edges, "layout": layout, "GB": found[layout],
        }  # fmt: skip


def _figure(graph, out):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(out.width, 1.9 if out.double else 3.5))
    if out.double:
        panels = figure.subplots(1, 3, gridspec_kw={"width_ratios": [5.6, 9, 6.5]})
    else:
        cells = figure.add_gridspec(2, 2, width_ratios=[5.9, 8.2], height_ratios=[6.8, 6.5])
        panels = [figure.add_subplot(cells[place]) for place in ((0, 0), (1, slice(None)), (0, 1))]
    values = [_text(value) for value in edge_values(graph)]
    stored = ell.build(graph, FP64)
    width, nodes = stored.width, stored.rows
    shades = _shades(graph)
    _matrix(panels[0], graph, values, shades)
    rows = np.repeat(np.arange(graph.nodes), np.diff(graph.indptr))
    of_row = [shades[row] for row in rows]
    _arrays(
        panels[1],
        "CSR",
        {graph.indptr[row : row + 2].mean(): row for row in range(graph.nodes)},
        [("values", values, of_row), ("columns", graph.sources, of_row), ("rows begin", graph.indptr, None)],
    )
    decoded = stored.values.decode().reshape(width, nodes)  # noqa: PD011
    parts = [
        (f"{name} {k + 1}", held, [shades[row] if decoded[k, row] > 0 else PADDED for row in range(nodes)])
        for name, arrays in (("values", decoded), ("columns", stored.sources.reshape(width, nodes)))
        for k, held in enumerate([[_text(value) for value in line] if name == "values" else line for line in arrays])
    ]
    _arrays(panels[2], "ELL", {row + 0.5: row for row in range(nodes)}, parts)
    return figure


def _text(value):
    return str(Fraction(value).limit_denominator(99))


def _shades(graph):
    """Return the grey of each row, by turns among those with entries, so that neighbours in CSR differ."""
    turns = np.cumsum(np.diff(graph.indptr) > 0) - 1
    return [GREYS[turn % len(GREYS)] for turn in turns]


def _matrix(panel, graph, values, shades):
    for k in range(graph.nodes + 1):
        panel.plot([0, graph.nodes], [k, k], color="#dddddd", linewidth=0.5)
        panel.plot([k, k], [0, graph.nodes], color="#dddddd", linewidth=0.5)
    for row in range(graph.nodes):
        _number(panel, row + 0.5, -0.35, row)
        _number(panel, -0.35, row + 0.5, row)
        for place in range(graph.indptr[row], graph.indptr[row + 1]):
            _box(panel, graph.sources[place], row, values[place], shades[row])
    _frame(panel, "matrix", graph.nodes, graph.nodes, left=-0.7)


def _arrays(panel, title, rows, parts):
    """Draw arrays one below the other, with the numbers of ``rows`` above them, by their places."""
    longest = max(len(held) for _, held, _ in parts)
    for place, row in rows.items():
        _number(panel, place, -0.35, row)
    panel.text(-0.3, -0.35, "row", ha="right", va="center", fontsize=7, color=NEUTRAL)
    line = 0.0
    for name, held, shades in parts:
        if shades is None:
            line += APART
            for place in range(len(held)):
                _number(panel, place + 0.5, line - 0.35, place if place < len(held) - 1 else "end")
        panel.text(-0.3, line + 0.5, name, ha="right", va="center", fontsize=7)
        for place, value in enumerate(held):
            _box(panel, place, line, value, OF_NO_ROW if shades is None else shades[place])
        line += 1
    _frame(panel, title, longest, line, left=-3.0)


def _number(panel, x, y, number):
    panel.text(x, y, str(number), ha="center", va="center", fontsize=7, color=NEUTRAL)


def _box(panel, x, y, text, shade):
    panel.fill([x, x + 1, x + 1, x], [y, y, y + 1, y + 1], facecolor=shade, edgecolor=NEUTRAL, linewidth=0.5)
    panel.text(x + 0.5, y + 0.5, str(text), ha="center", va="center", fontsize=7)


def _frame(panel, title, width, height, left):
    panel.set_xlim(left, width + 0.2)
    panel.set_ylim(height + 0.1, -0.7)
    panel.set_aspect("equal")
    panel.set_title(title, fontsize=8, pad=3)
    panel.set_xticks([])
    panel.set_yticks([])
    for spine in panel.spines.values():
        spine.set_visible(False)
