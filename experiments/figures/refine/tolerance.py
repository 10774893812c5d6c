"""Speed-up against the tolerance."""

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.intervals import PREPARED, UNSEEN, interval_text, ratio_ends
from cpms.experiment.report.output import label, storage_of
from cpms.experiment.report.palette import colour

NEEDS = ["gpu_tolerance"]
STORAGES = ["cpms2", "cpms4", "cpms2 to 32 bits"]
DRAWN = {"cpms2": ("2 segments of 32 bits", "s", 32), "cpms4": ("4 segments of 16 bits", "o", 16)}
"""Names, markers and the fewest bits that are read; of 2 segments, reads that end at 32 bits are in the table alone."""


def show(rows, out):
    rows = rows[rows.status == "ok"]
    drawn = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    columns = ["graph", "tol", "storage", "over own fp64", "low", "high", "over cuSPARSE"]
    out.table(
        drawn[columns],
        caption=f"Whole solves on {rows.gpu.iloc[0]} against the tolerance: times faster; low and high: "
        f"{interval_text(rows)}, over own fp64",
        best={"over own fp64": "most by graph,tol"},
    )
    out.figure(
        _figure(drawn, out),
        caption=f"Speed-up of whole solves by power iteration with segmented mantissas on {rows.gpu.iloc[0]}, over "
        f"float64 in the same kernels, by the tolerance; lines: {interval_text(rows)}{UNSEEN}; at 1 both take as long. "
        "Sweeps begin with the first segment and read more as the residual falls. Marks of one tolerance lie beside "
        f"each other. Axes of speed-ups differ{_cut(drawn)}{PREPARED}",
        results=lambda result: result["engine"] == "cuda",
    )


def _lines(row):
    solved = {(r["engine"], storage_of(r)): r for r in row.results if r["status"] == "ok"}
    own, library = solved.get(("cuda", "fp64"), {}), solved.get(("cusparse", "fp64"), {})
    for storage in STORAGES:
        result = solved.get(("cuda", storage), {})
        low, high = ratio_ends(own.get("solve_samples_s"), result.get("solve_samples_s"))
        yield {
            "graph": label(row),
            "tol": row.tol,
            "storage": storage,
            "over own fp64": own.get("solve_s", np.nan) / result.get("solve_s", np.nan),
            "over cuSPARSE": library.get("solve_s", np.nan) / result.get("solve_s", np.nan),
            "low": low,
            "high": high,
        }


def _top(part):
    """Return the end of the axis of a panel, beyond which some intervals may go on: else they would squeeze values."""
    values = part[part.storage.isin(DRAWN)]
    above = values["over own fp64"].max() + 0.25
    return min(above, values.high.max() + 0.03) if values.high.notna().any() else above


def _cut(drawn):
    """Return what an arrow is, as a text for a caption, where intervals go beyond their panel."""
    tops = drawn.graph.map({graph: _top(part) for graph, part in drawn.groupby("graph")})
    is_cut = (drawn.high > tops) & drawn.storage.isin(DRAWN)
    return "; an arrow has the end of an interval beyond its panel" if is_cut.any() else ""


def _figure(drawn, out):
    graphs = list(dict.fromkeys(drawn.graph))
    figure, axes = panels.grid(out.width, len(graphs), 2.0 if out.double else 1.5, columns=(1, 3), sharex=True)
    for panel, graph, name in zip(axes, graphs, out.names(graphs), strict=True):
        for place, storage in enumerate(DRAWN):
            part = drawn[(drawn.graph == graph) & (drawn.storage == storage)].sort_values("tol")
            value = part["over own fp64"]
            marks = panel.errorbar(
                panels.abreast(part.tol, place, len(DRAWN), 2.5), value,
                yerr=[(value - part.low).clip(lower=0), (part.high - value).clip(lower=0)],
                **_style(storage),
            )  # fmt: skip
            panels.name_places(marks[0], part.tol)
            top = _top(drawn[drawn.graph == graph])
            for at, high in zip(marks[0].get_xdata(), part.high, strict=True):
                if high > top:
                    side = {"ha": "left" if place == 0 else "right", "va": "top", "fontsize": 7}
                    panel.annotate(
                        f"\u2191{high:.2f}", (at, top), (2 - 4 * place, 0), textcoords="offset points", **side
                    )
        panels.unity(panel, across=True)
        panel.set_ylim(top=top)
        panel.locator_params(axis="y", nbins=4, min_n_ticks=3)
        panel.set_title(name)
    panels.logarithmic(axes[0])
    for panel in axes:
        panel.set_xticks([1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12])
        panel.minorticks_off()
    axes[0].invert_xaxis()
    figure.supxlabel("tolerance")
    figure.supylabel("times faster than float64")
    panels.legend(figure, panels.key(lines={DRAWN[storage][0]: _style(storage) for storage in DRAWN}))
    return figure


def _style(storage):
    _, mark, bits = DRAWN[storage]
    return {"color": colour(bits), "marker": mark, "markersize": 4, "linewidth": 0.8}
