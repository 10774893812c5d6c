"""Bytes a second of each product, and of fused sweeps, beside the copy and gather rates measured in their runs."""

import pandas as pd

from cpms.base.text.counted import counted
from cpms.experiment.derived.sweep_times import UPDATES, sweep_times
from cpms.experiment.report import panels
from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.palette import NEUTRAL, colour

NEEDS = ["gpu_spmv"]
BESIDE = ["gpu_sweeps"]
LEAST = 10**7
"""Edges of graphs that are drawn: smaller ones lie in the cache, which these rates do not bound."""
GATHERS = {64: "gather_8_byte_giga_per_s", 16: "gather_2_byte_giga_per_s"}
"""Numbers of bits that are drawn, with the rate of random gathers that bounds them."""
COPY = {"color": NEUTRAL, "linewidth": 0.7}
STROKE = {"marker": "|", "linestyle": "", "markersize": 7.5, "markeredgewidth": 1.2}
ENDS = ["low", "high"]


def show(rows, out, beside):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _products(row)])
    table = table.drop_duplicates(["graph", "engine", "layout", "storage", "bits"])
    first = rows.iloc[0]
    gathers = ", ".join(f"{first[f'gather_{size}_byte_giga_per_s']:.0f} G/s of {size} bytes" for size in (2, 4, 8))
    rates = f"copy {first.copy_gbps:.0f} GB/s, random gathers {gathers}"
    out.table(table.drop(columns=ENDS), caption=f"Products; rates measured beside: {rates}", of=NEEDS)
    swept = pd.DataFrame([line for _, row in beside.iterrows() if row.status == "ok" for line in _swept(row)])
    if len(swept):
        caption = _CAPTION.format(beside.gpu.iloc[0])
        out.table(swept.drop(columns=[*ENDS, "staged"]), suffix="_fused", caption=caption, of=BESIDE)
    drawn = {"products in CSR": table[(table.engine == "cuda") & (table.layout == "csr")], "fused sweeps": swept}
    drawn = {title: _large(part) for title, part in drawn.items() if len(part)}
    count, both = len(_in_all(drawn)), ", of which both are recorded" if len(drawn) > 1 else ""
    out.figure(
        _figure(drawn, first, out),
        caption=f"Least bytes that a product or fused sweep moves, over its time on {first.gpu}, "
        f"{counted(count, 'graph')} beyond its cache (over {LEAST / 1e6:g}M edges){both}. In a row 64 bits above 16, "
        f"hollow (cpms4 in products, fp16 in sweeps). Grey line: copy bandwidth, {first.copy_gbps:.0f} GB/s, which "
        "reading may pass; pale lines: range of samples. Strokes: one random gather an edge, of 8 "
        f"bytes ({first.gather_8_byte_giga_per_s:.0f} G/s) or 2 ({first.gather_2_byte_giga_per_s:.0f} G/s); graphs "
        f"with near neighbours or hubs in shared memory pass theirs{_staged(swept)}",
        results=lambda result: result["kind"] == "sweeps" or (result["engine"], result["layout"]) == ("cuda", "csr"),
    )


def _staged(swept):
    """Return which sweeps stage values and move more bytes than the same graph's in 64 bits, for a caption."""
    if not len(swept) or not swept.staged.any():
        return ""
    own = swept[swept.staged & swept.bits.isin(GATHERS)]
    double = swept[swept.bits == 64].set_index("graph").MB
    over = {shortened(line.graph): line.MB / double[line.graph] for line in own.itertuples()}
    more = " and ".join(f"{ratio:.1f} times 64 bits on {graph}" for graph, ratio in over.items() if ratio > 1)
    return (
        ". Diamonds: values staged in shared memory, without random gathers, whose bytes count, too"
        f"{', ' * bool(more)}{more}"
    )


def _large(part):
    """Return the fastest lines of the graphs that the cache does not hold, at the bits that are drawn."""
    part = part[(part.edges > LEAST) & part.bits.isin(GATHERS)].assign(graph=part.graph.map(shortened))
    return part.sort_values("GB/s").drop_duplicates(["graph", "bits"], keep="last")


def _products(row):
    for c in row.contestants:
        if c["engine"] != "cuda_thread_rows":
            yield {
                "graph": label(row),
                "edges": row.edges,
                "engine": c["engine"],
                "layout": c["layout"],
                "storage": c["storage"],
                "bits": c["bits"],
                "ms": c["median_ms"],
                "low": c["least_bytes"] / c["most_ms"] / 1e6,
                "high": c["least_bytes"] / c["least_ms"] / 1e6,
                "spread, %": 100 * (c["most_ms"] - c["least_ms"]) / c["median_ms"],
                "GB/s": c["least_bytes"] / c["median_ms"] / 1e6,
                "of copy": c["least_bytes"] / c["median_ms"] / 1e6 / row.copy_gbps,
                "G gathers/s": row.edges / c["median_ms"] / 1e6,
            }


def _in_all(drawn):
    """Return the graphs that all panels have, from the most bytes a second of a product to the least."""
    first, *others = drawn.values()
    return [graph for graph in dict.fromkeys(first.graph[::-1]) if all(graph in set(part.graph) for part in others)]


def _figure(drawn, first, out):
    graphs = _in_all(drawn)
    names = out.names(graphs, None if out.double else 19)
    figure, axes = panels.grid(
        out.width, len(drawn), panels.rows_height(names, 0.27, 0.9), columns=(2, 2), sharex=True, sharey=True
    )
    for panel, (title, part) in zip(axes, drawn.items(), strict=True):
        for _, line in part[part.graph.isin(graphs)].iterrows():
            place = graphs.index(line.graph) + panels.beside(list(GATHERS).index(line.bits), len(GATHERS), 0.8)
            staged = line.get("staged", False)
            if not staged:
                of_gathers = line["GB/s"] * first[GATHERS[line.bits]] / line["G gathers/s"]
                panel.plot(of_gathers, place, color=colour(line.bits), **STROKE)
            style = {"ends": (line.low, line.high), "light": True, "filled": line.bits == 64, "size": 3.3}
            panels.point(panel, line["GB/s"], place, line.bits, "D" if staged else "o", **style)
        panel.axvline(first.copy_gbps, **COPY)
        panels.named_rows(panel, names)
        panel.set_title(title)
        panel.set_xticks([0, 2000, 4000])
        panel.set_xticks([1000, 3000], minor=True)
    axes[0].set_xlim(left=0)
    figure.supxlabel("GB/s")
    staged = "staged" in drawn.get("fused sweeps", {}) and drawn["fused sweeps"].staged.any()
    marks = {f"{bits} bits": panels.entry_of(bits) for bits in GATHERS}
    marks |= {"values staged": {**panels.HOLLOW, "marker": "D"}} if staged else {}
    panels.legend(figure, panels.key(lines={**marks, "random gathers": {**STROKE, "color": NEUTRAL}}))
    return figure


_CAPTION = (
    "Fused sweeps on {}, means over a run, in the engine's own choice of arrangement: bytes that a sweep must move, "
    "values gathered not counted, at the copy bandwidth of the same run, and gathers alone, in a kernel of their "
    "own, over its time; gathers are none where values are staged in shared memory; 'reached' is the larger of both, "
    "above 1 where sweeps gather in a better order than that kernel; 'apart' is the range of runs. "
    f"{UPDATES}"
)


def _swept(row):
    own = row.results[0]["arrangement"]
    for result in row.results:
        if result["arrangement"] == own:
            times = sweep_times(row, result)
            gathers_us = 0.0 if result["in_bins"] else result["gather_us"]
            yield {
                "graph": shortened(label(row)),
                "edges": row.edges,
                "storage": result["storage"],
                "bits": result["bits"],
                "us": times.us,
                "median us": times.plain_us,
                "low": 1e-3 * times.bytes / times.most_us,
                "high": 1e-3 * times.bytes / times.least_us,
                "staged": bool(result["in_bins"]),
                "apart us": times.range_us,
                "MB": times.bytes / 1e6,
                "million gathers": row.edges / 1e6,
                "GB/s": 1e-3 * times.bytes / times.us,
                "of copy": 1e-3 * times.bytes / times.us / row.ceilings["copy_gbps"],
                "G gathers/s": 1e-3 * row.edges / times.us,
                "of gathers": None if result["in_bins"] else gathers_us / times.us,
                "reached": max(1e-3 * times.bytes / row.ceilings["copy_gbps"], gathers_us) / times.us,
            }
