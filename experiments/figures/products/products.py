"""Products with values: times faster than a baseline, bytes and error, by matrix and contestant."""

import itertools

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import some
from cpms.experiment.report.intervals import UNSEEN
from cpms.experiment.report.output import shortened

NEEDS = ["gpu_product"]
LIBRARIES = {"cusparse": "cuSPARSE", "scipy": "SciPy"}
KEYS = ["engine", "layout", "indices", "asked", "read", "vectors"]
"""What sets contestants apart; of those that differ in the format of sums alone the faster is drawn."""


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    out.table(
        table.drop(columns=["asked", "read", "least", "most"]),
        best={"ms": "least by matrix"},
        caption=f"Products: times faster than {_named(table.iloc[0])} by medians, and the bytes that they must move",
    )
    out.figure(
        _figure(table, out),
        caption=f"Time of a product over that of {_named(table.iloc[0])}, medians; lines: least to most of the "
        f"samples{UNSEEN}; colour: bits, marker: matrix, in a row from the top as in the legend. "
        "Compressed: column indices of 16 bits, which lossless and bfp16 take where they can. Lossless: the shortest "
        "format that holds all values of a matrix, in the colour of its bits. Planes: one array, read to the bits "
        f"stated{_sums(table)}",
    )


def _sums(table):
    """Return of which contestants the faster format of sums is drawn, as a sentence behind others; empty if of none."""
    several = table.groupby(KEYS, sort=False, dropna=False).compute.transform("nunique") > 1
    names = dict.fromkeys(map(_named, table[several].itertuples()))
    formats = " or ".join(sorted(set(table[several].compute)))
    return f". {some(names)}: sums in {formats}, whichever is faster on a matrix" if names else ""


def _groups(table):
    """Return the matrices of each panel: on grids rows have one length, and times are alike; elsewhere they are not."""
    found = {"grids": [], "irregular": []}
    for name in dict.fromkeys(table.matrix):
        found["grids" if name.startswith("stencil:") else "irregular"].append(name)
    return {title: names for title, names in found.items() if names}


def _figure(table, out):
    lines = table.sort_values("ms").drop_duplicates(["matrix", *KEYS])
    baseline, groups = _named(table.iloc[0]), _groups(table)
    lines = lines[[_named(line) != baseline for line in lines.itertuples()]]
    rows = [name for name in dict.fromkeys(map(_named, table.itertuples())) if name != baseline]
    height = panels.rows_height(rows, 0.05 + 0.04 * max(map(len, groups.values())), 0.7)
    marks = dict(zip(itertools.chain.from_iterable(groups.values()), itertools.cycle(panels.ALL_MARKERS), strict=False))
    figure, axes = panels.grid(out.width, len(groups), height, columns=(1, 2), sharey=out.double)
    for panel, (title, names) in zip(axes, groups.items(), strict=True):
        for place, name in enumerate(names):
            first = table[table.matrix == name].ms.iloc[0]
            for line in lines[lines.matrix == name].itertuples():
                at = rows.index(_named(line)) + panels.beside(place, len(names), 0.85)
                interval = (line.least / first, line.most / first)
                panels.point(panel, line.ms / first, at, line.bits, marks[name], ends=interval, light=True, size=3)
        panels.named_rows(panel, rows)
        panels.unity(panel)
        panels.bands(panel, len(rows))
        panels.logarithmic(panel)
        panel.set(title=title, xlabel=f"time over {baseline}")
    panels.legend(figure, panels.key(table.bits, {shortened(name): mark for name, mark in marks.items()}))
    return figure


def _named(line):
    """Return a contestant's name in words."""
    library = LIBRARIES.get(line.engine, "")
    planes = line.asked.endswith("-planes")
    storage = f"planes, {line.bits:g} bits" if planes else line.asked
    more = ["compressed"] * (line.indices == "compressed") + [f"{line.vectors} vectors"] * (line.vectors != "fp64")
    return ", ".join([" ".join(filter(None, [library, line.layout.upper(), storage])), *more])


def _lines(row):
    first = row.contestants[0]["median_ms"]
    for c in row.contestants:
        yield {
            "matrix": row.graph,
            "engine": c["engine"],
            "layout": c["layout"],
            "indices": c["indices"],
            "asked": c["storage"],
            "storage": c["stored_as"],
            "read": c["read"],
            "bits": c["bits"],
            "compute": c["compute"],
            "vectors": c["vectors"],
            "ms": c["median_ms"],
            "least": c["least_ms"],
            "most": c["most_ms"],
            "spread, %": 100 * (c["most_ms"] - c["least_ms"]) / c["median_ms"],
            "times faster": first / c["median_ms"],
            "bytes an entry": c["least_bytes"] / row.entries,
            "GB/s": c["least_bytes"] / c["median_ms"] / 1e6,
            "error": c["error"],
        }
