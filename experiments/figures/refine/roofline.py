"""Bytes a second of each product, and of fused sweeps, beside the copy and gather rates measured in their runs."""

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends
from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.page import labels, room
from cpms.experiment.report.palette import NEUTRAL, colour

NEEDS = ["gpu_spmv"]
BESIDE = ["gpu_sweeps"]
_NAMED = 3
"""Graphs of a panel whose points are named."""
_OF_GRAPH = {"color": "#c8c8c8", "linewidth": 0.6, "zorder": 1}
"""The line through the points of a graph."""


def show(rows, out, beside):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _products(row)])
    table = table.drop_duplicates(["graph", "engine", "layout", "storage", "bits"])
    first = rows.iloc[0]
    gathers = ", ".join(f"{first[f'gather_{size}_byte_giga_per_s']:.0f} G/s of {size} bytes" for size in (2, 4, 8))
    rates = f"copy {first.copy_gbps:.0f} GB/s, random gathers {gathers}"
    out.table(table, caption=f"Products; rates measured beside: {rates}")
    swept = pd.DataFrame([line for _, row in beside.iterrows() if row.status == "ok" for line in _swept(row)])
    if len(swept):
        out.table(swept, suffix="_fused", caption=_CAPTION.format(beside.gpu.iloc[0]))
    out.figure(
        _figure(table, swept, first, out),
        caption=f"Bytes that products and fused sweeps on {first.gpu} must move, a second, against gathers a second; "
        f"rates measured in the products' run: {rates}; dashed: random gathers of 8 bytes. A point is a graph, in the "
        "colour of the bits that are read: the median of the fastest storage of these bits. Lines join the points of a "
        "graph. Points lie above the copy where caches hold what is read again, and beyond random gathers where "
        f"neighbours are near each other. Of each panel at most {_NAMED} graphs, evenly chosen by their gathers a "
        "second, are named where there is room",
        alt=ends(table, "of copy", ["graph", "storage"], "Share of the copy bandwidth by products")
        + (" " + ends(swept, "of copy", ["graph", "storage"], "By fused sweeps") if len(swept) else ""),
    )


def _products(row):
    for c in row.contestants:
        if c["engine"] != "cuda_thread_rows":
            yield {
                "graph": label(row),
                "engine": c["engine"],
                "layout": c["layout"],
                "storage": c["storage"],
                "bits": c["bits"],
                "ms": c["median_ms"],
                "spread, %": 100 * (c["most_ms"] - c["least_ms"]) / c["median_ms"],
                "GB/s": c["least_bytes"] / c["median_ms"] / 1e6,
                "of copy": c["least_bytes"] / c["median_ms"] / 1e6 / row.copy_gbps,
                "G gathers/s": row.edges / c["median_ms"] / 1e6,
            }


def _figure(table, swept, first, out):
    parts = {
        f"{'cuSPARSE' if engine == 'cusparse' else engine}, {layout}": part
        for engine in ("cuda", "cusparse")
        for layout, part in _fastest(table[table.engine == engine]).groupby("layout", sort=False)
    }
    parts |= {"fused sweeps, pattern": swept} if len(swept) else {}
    figure, axes = panels.grid(
        out.width, len(parts), 2.3 if out.double else 1.4, columns=(1, 3), sharex=True, sharey=True
    )
    for panel, (title, part) in zip(axes, parts.items(), strict=True):
        for bits, same in sorted(part.groupby("bits"), reverse=True):
            panel.plot(
                same["G gathers/s"], same["GB/s"], "o", color=colour(bits), ms=3.2, mew=0.3, mec="white", clip_on=False
            )
        for _, same in part.groupby("graph"):
            panel.plot(*same.sort_values("bits")[["G gathers/s", "GB/s"]].to_numpy().T, **_OF_GRAPH)
        panel.axhline(first.copy_gbps, color=NEUTRAL, linewidth=0.7)
        panel.axvline(first.gather_8_byte_giga_per_s, color=NEUTRAL, linewidth=0.7, linestyle="--")
        panel.set_title(title)
    panels.logarithmic(axes[0])
    panels.logarithmic(axes[0], "y")
    for panel in axes if out.double else axes[-1:]:
        panel.tick_params(axis="x", labelbottom=True)
    figure.supxlabel("10⁹ gathers a second")
    figure.supylabel("least bytes, GB/s")
    lines = {
        "a graph": _OF_GRAPH,
        "copy": {"color": NEUTRAL, "linewidth": 0.7},
        "random gathers": {"color": NEUTRAL, "linewidth": 0.7, "linestyle": "--"},
    }
    panels.legend(figure, panels.key(pd.concat([table, swept]).bits, lines=lines))
    for panel, part in zip(axes, parts.values(), strict=True):
        _name(panel, part, first, out)
    return figure


def _name(panel, part, first, out):
    """Write the names of some graphs beside their points, and not on the lines of rates."""
    points = {graph: same[["G gathers/s", "GB/s"]].to_numpy(float) for graph, same in part.groupby("graph")}
    named = room.evenly(sorted(points, key=lambda graph: points[graph][:, 0].max()), _NAMED)
    others = [point for graph, same in points.items() if graph not in named for point in same]
    low, high = np.geomspace(*panel.get_xlim(), 80), np.geomspace(*panel.get_ylim(), 80)
    others += [(across, first.copy_gbps) for across in low] + [(first.gather_8_byte_giga_per_s, up) for up in high]
    names = out.names(map(shortened, named), 20)
    labels.place(panel, names, [points[graph] for graph in named], others=others, all_or_none=False)


def _fastest(products):
    """Return the fastest product of each graph, layout and number of bits."""
    ordered = products.sort_values("ms", kind="stable")
    return ordered.drop_duplicates(["graph", "layout", "bits"]).sort_values(["layout", "graph"], kind="stable")


_CAPTION = (
    "Fused sweeps on {}, the engine's own choice of arrangement: bytes that a sweep must move, values gathered not "
    "counted, at the copy bandwidth of the same run, and gathers alone, in a kernel of their own, over its time; "
    "gathers are none where values are staged in shared memory; 'reached' is the larger of both, above 1 where sweeps "
    "gather in a better order than that kernel"
)


def _swept(row):
    own = row.results[0]["arrangement"]
    for result in row.results:
        if result["arrangement"] == own:
            seconds = 1e-6 * result["sweep_us"]
            yield {
                "graph": shortened(label(row)),
                "storage": result["storage"],
                "bits": result["bits"],
                "us": result["sweep_us"],
                "apart us": result["most_us"] - result["least_us"],
                "MB": result["bytes"] / 1e6,
                "million gathers": row.edges / 1e6,
                "GB/s": result["bytes"] / seconds / 1e9,
                "of copy": result["bytes"] / seconds / 1e9 / row.ceilings["copy_gbps"],
                "G gathers/s": row.edges / seconds / 1e9,
                "of gathers": None if result["in_bins"] else result["gather_us"] / result["sweep_us"],
                "reached": max(
                    result["bytes"] / row.ceilings["copy_gbps"] / 1e3, 0 if result["in_bins"] else result["gather_us"]
                )
                / result["sweep_us"],
            }
