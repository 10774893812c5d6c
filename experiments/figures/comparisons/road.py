"""The whole road from edges or a graph to certified ranks: times, spread, and cuGraph's times as quoted."""

import numpy as np
import pandas as pd

from cpms.experiment.report.output import label, printed, shortened

NEEDS = ["gpu_road", "gpu_road_held"]
WAYS = {
    "road": "edges to ranks",
    "old_road": "built and certified on processors",
    "call": "graph to ranks",
    "prepared": "prepared, second solve",
    "device_road": "edges to ranks on the device",
    "device_prepared": "prepared on the device, second solve",
}
STAGES = ("prepare", "solve", "certify")
STYLE = {
    "refine": {"color": "#D55E00", "marker": "o"},
    "power": {"color": "#0072B2", "marker": "s"},
    "refine, built and certified on processors": {"color": "#999999", "marker": "^"},
    "cuGraph, quoted": {"color": "#222222", "marker": "x"},
}


def show(rows, out):
    rows = rows[rows.status == "ok"].drop_duplicates(["experiment", "graph"], keep="last")
    found = [(row, result) for _, row in rows.iterrows() for result in row.results if result["status"] == "ok"]
    quoted = printed("cugraph").set_index("graph")[["road_ms", "device_road_ms"]].dropna()
    table = pd.DataFrame([_line(row, result, quoted) for row, result in found])
    machine = " and ".join([rows.cpu.iloc[0], *rows.get("gpu", pd.Series()).dropna().unique()])
    out.table(
        table,
        caption=f"Milliseconds to certified float64 ranks on {machine}, medians of {rows.rounds.iloc[0]} in turn "
        f"({rows.old_rounds.iloc[0]} where processors build and certify), edges permuted; cuGraph's times are quoted, "
        "of an NVIDIA H100, edges not permuted, nothing certified",
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
    )
    out.figure(_figure(table))


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
        **{name: ms[way] for way, name in WAYS.items()},
        "solve alone": alone,
        "device road over solve alone": ms["device_road"] / alone,
        "cuGraph, edges to ranks": theirs.road_ms,
        "cuGraph over ours": theirs.road_ms / ms["road"],
        "cuGraph on the device": theirs.device_road_ms,
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
                "samples": len(samples),
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


def _figure(table):
    import matplotlib.pyplot as plt

    graphs = list(table.graph.unique())
    figure, axes = plt.subplots(figsize=(6.5, 0.3 * len(graphs) + 1.4))
    refine = table[table.method == "refine"]
    series = {
        **{method: part.set_index("graph")["edges to ranks"] for method, part in table.groupby("method")},
        "refine, built and certified on processors": refine.set_index("graph")[WAYS["old_road"]],
        "cuGraph, quoted": table.drop_duplicates("graph").set_index("graph")["cuGraph, edges to ranks"],
    }
    for name, times in series.items():
        known = times.dropna()
        if len(known):
            axes.plot(known, [graphs.index(graph) for graph in known.index], ls="", ms=4, label=name, **STYLE[name])
    axes.set_yticks(range(len(graphs)), graphs)
    axes.invert_yaxis()
    axes.grid(axis="y", linewidth=0.2)
    axes.set(xscale="log", xlabel="milliseconds from edges to ranks, both in main memory")
    axes.xaxis.set_minor_formatter("")
    figure.legend(loc="outside lower center", ncols=2)
    return figure
