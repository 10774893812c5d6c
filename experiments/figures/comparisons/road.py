"""The whole road from edges or a graph to certified ranks: times, spread, and cuGraph's times as quoted."""

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import spread
from cpms.experiment.report.intervals import UNSEEN, interval_text, is_range, median_ends
from cpms.experiment.report.output import label, shortened
from cpms.experiment.rows.quoted import cugraph

NEEDS = ["gpu_road", "gpu_road_held"]
MANY_EDGES = 30_000_000
WAYS = {
    "road": "edges to ranks",
    "old_road": "built and certified on processors",
    "call": "graph to ranks",
    "prepared": "prepared, second solve",
    "update": "edges exchanged, solved again",
    "device_road": "edges to ranks on the device",
    "device_update": "edges exchanged on the device",
    "device_prepared": "prepared on the device, second solve",
}
TARGETS = {
    ("copying:nodes=6000000,degree=10,seed=5", "road"): 75,
    ("torus:side=200,seed=3", "road"): 45,
    ("copying:nodes=500000,degree=10,seed=6", "road"): 11,
    ("web-NotreDame", "road"): 7,
    ("torus:side=60,seed=2", "road"): 5,
    ("copying:nodes=6000000,degree=10,seed=5", "call"): 45,
    ("copying:nodes=500000,degree=10,seed=6", "call"): 7,
    ("web-NotreDame", "call"): 5,
    ("wiki-Vote", "call"): 3,
    ("copying:nodes=6000000,degree=10,seed=5", "built"): 700,
}
"""Milliseconds that the road was built for, by graph and way; see `_required` for the ratios."""
STAGES = ("prepare", "solve", "certify")
HOSTED, QUOTED = "refine, built and checked on processors", "cuGraph, quoted"
MARKS = {"refine": "o", "power": "s", HOSTED: "^", QUOTED: "X"}


def show(rows, out):
    rows = rows[rows.status == "ok"].drop_duplicates(["experiment", "graph"], keep="last")
    found = [(row, result) for _, row in rows.iterrows() for result in row.results if result["status"] == "ok"]
    quoted = cugraph().set_index("graph")[["road_ms", "device_road_ms", "gpu"]].dropna()
    table = pd.DataFrame([_line(row, result, quoted) for row, result in found])
    machine = " and ".join([rows.cpu.iloc[0], *rows.get("gpu", pd.Series()).dropna().unique()])
    repeated = (
        f"medians of {rows.rounds.iloc[0]} in turn, {rows.old_rounds.iloc[0]} where processors build and certify, of "
        "edges in random order (permuted); cuGraph's times are quoted from a program outside this repository, of "
        f"an {' and '.join(quoted.gpu.unique())}, of edges that are not permuted, and nothing is certified there"
    )
    out.table(
        table,
        best={f"{WAYS['road']}, ms": "least by graph"},
        caption=f"Times to certified float64 ranks on {machine}, {repeated}",
    )
    out.table(
        pd.DataFrame([line for row, result in found for line in _details(row, result)]),
        suffix="_details",
        caption="Every way: median, least and most, and the medians of its stages; the rest of a way is building the "
        "graph, copies and checks",
    )
    out.table(
        pd.DataFrame([_agreement(row, result) for row, result in found]),
        suffix="_agreement",
        caption="Answers of the road beside the processors': residuals of the same ranks as each recomputes them, and "
        "the L1 distance from ranks that processors computed beside the sum of both error bounds",
        timed=False,
    )
    out.table(
        pd.DataFrame([line for row, result in found for line in _required(row, result, quoted)]),
        suffix="_targets",
        caption="Figures of method refine beside what was asked of them before they were measured; cuGraph's times are "
        "quoted from a program outside this repository",
    )
    drawn = pd.DataFrame([line for row, result in found for line in _drawn(row, result, quoted)])
    samples = [f"{way}_samples_s" for way in WAYS]
    out.figure(
        _figure(drawn, out),
        caption=f"Time from edges in random order to certified float64 ranks, both in main memory, on {machine}, "
        f"medians; lines: {interval_text(rows, *samples, capped=True)}{UNSEEN}; colour: fewest bits that sweeps read. "
        "Refine and power build, solve and check on the GPU; triangles: refine whose graph processors build and whose "
        "ranks they check. Below the line: graphs chosen before anything was measured on them. cuGraph's times, in "
        "float64 to 1e-10, are quoted from a program outside this repository, of an "
        f"{' and '.join(quoted.gpu.unique())}, of edges in order and without a certificate; graphs without a cross "
        "have none",
    )


def _line(row, result, quoted):
    ms = {way: 1e3 * result.get(f"{way}_s", np.nan) for way in WAYS}
    theirs = quoted.reindex([row.graph]).iloc[0]
    alone = 1e3 * result.get("device_prepared_solve_s", result["prepared_solve_s"])
    return {
        "graph": shortened(label(row)),
        "nodes": row.nodes,
        "edges": row.edges,
        "method": result["method"],
        "engine": result["engine"],
        **{f"{name}, ms": ms[way] for way, name in WAYS.items()},
        "solve alone, ms": alone,
        "device road over solve alone": ms["device_road"] / alone,
        "cuGraph, edges to ranks, ms": theirs.road_ms,
        "cuGraph over ours": theirs.road_ms / ms["road"],
        "cuGraph on the device, ms": theirs.device_road_ms,
        "cuGraph on the device over ours": theirs.device_road_ms / ms["device_road"],
        "processors over ours": ms["old_road"] / ms["road"],
    }


def _details(row, result):
    for way, name in WAYS.items():
        if f"{way}_s" in result:
            samples = result[f"{way}_samples_s"]
            yield {
                "graph": shortened(label(row)),
                "method": result["method"],
                "way": name,
                "ms": 1e3 * result[f"{way}_s"],
                "least ms": 1e3 * min(samples),
                "most ms": 1e3 * max(samples),
                **{f"{stage} ms": 1e3 * result[f"{way}_{stage}_s"] for stage in STAGES},
                "spread, %": 100 * spread(samples),
                "samples": len(samples),
            }


def _required(row, result, quoted):
    """Yield the figures of ``refine`` for which there is a target: times in ms, and ratios of medians."""
    if result["method"] != "refine":
        return
    given = {name: 1e3 * value for name, value in result.items() if name.endswith("_s") and isinstance(value, float)}
    given["built_s"] = 1e3 * row.get("built_s", np.nan)
    ms = {name.removesuffix("_s"): value for name, value in given.items()}
    lines = [(way, "ms", ms[way], TARGETS[row.graph, way]) for way in (*WAYS, "built") if (row.graph, way) in TARGETS]
    if "device_road" in ms:
        alone = ms["device_prepared_solve"]
        if row.edges >= MANY_EDGES / 6:
            most = 2.2 if row.edges >= MANY_EDGES else 3.5
            lines.append(("device_road", "over the solve alone", ms["device_road"] / alone, most))
        if row.graph in quoted.index:
            theirs = quoted.device_road_ms[row.graph]
            lines.append(("device_road", "over cuGraph's", ms["device_road"] / theirs, 0.5))
        for way in ("prepared", "device_prepared"):
            lines.append((way, "ms over its solve", ms[way] - ms[f"{way}_solve"], 2.0))
    if "update" in ms:
        for way, most in (("road", 1 / 4), ("call", 1 / 2.5)):
            lines.append(("update", f"over {WAYS[way]}", ms["update"] / ms[way], most))
    others = [other for other in row.results if other["method"] == "power" and other["status"] == "ok"]
    for way in ("road", "call"):
        for other in others:
            most = 1.0 if row.edges >= 1e6 else 1.05
            lines.append((way, "over our float64", ms[way] / (1e3 * other[f"{way}_s"]), most))
    for way, unit, value, most in lines:
        name = {"built": "Graph.from_edges", **WAYS}[way]
        met = "" if np.isnan(value) else "yes" if value <= most else "no"
        yield {
            "graph": shortened(label(row)),
            "figure": f"{name}, {unit}",
            "measured": value,
            "at most": most,
            "met": met,
        }


def _agreement(row, result):
    return {
        "graph": shortened(label(row)),
        "method": result["method"],
        "storage": result["storage"],
        "ends": result["solver_status"],
        "sweeps by bits": ", ".join(f"{bits}: {count}" for bits, count in result["iterations_by_bits"].items()),
        "residual": result["residual_l1"],
        "residual by processors": result["residual_on_processors_l1"],
        "distance": result["difference_from_processors_l1"],
        "bound": result["difference_bound"],
        "within": bool(result["difference_from_processors_l1"] <= result["difference_bound"]),
    }


def _drawn(row, result, quoted):
    """Yield the marks of a method on a graph; of refine with those of processors and of cuGraph."""
    shared = {"graph": shortened(label(row)), "held out": row.experiment.endswith("_held")}
    bits = min(map(int, result["iterations_by_bits"]), default=64)
    ways = {"road": result["method"]} | ({"old_road": HOSTED} if result["method"] == "refine" else {})
    for way, name in ways.items():
        if f"{way}_s" in result:
            samples = result[f"{way}_samples_s"]
            low, high = median_ends(samples)
            times = {"ms": 1e3 * result[f"{way}_s"], "low": 1e3 * low, "high": 1e3 * high}
            yield {**shared, "way": name, "bits": bits, "range": is_range(samples), **times}
    if result["method"] == "refine" and row.graph in quoted.index:
        yield {**shared, "way": QUOTED, "bits": 64, "ms": quoted.road_ms[row.graph], "range": False}


def _figure(drawn, out):
    first = drawn.sort_values(["held out", "ms"], ascending=[True, False]).drop_duplicates(["graph"])
    graphs, seen = first.graph.tolist(), len(first) - first["held out"].sum()
    ways = [way for way in MARKS if way in set(drawn.way)]
    names = out.names(graphs)
    figure, (axes,) = panels.grid(out.width, 1, panels.rows_height(names, 0.35))
    for line in drawn.itertuples():
        place = graphs.index(line.graph) + panels.beside(ways.index(line.way), len(ways))
        panels.point(axes, line.ms, place, line.bits, MARKS[line.way], ends=(line.low, line.high), capped=line.range)
    panels.named_rows(axes, names)
    if 0 < seen < len(graphs):
        axes.axhline(seen - 0.5, color=panels.NEUTRAL, linewidth=0.6)
    panels.logarithmic(axes)
    axes.set_xlabel("ms from edges to ranks")
    panels.legend(figure, panels.key(drawn.bits, {way: MARKS[way] for way in ways}))
    return figure
