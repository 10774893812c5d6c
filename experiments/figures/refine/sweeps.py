"""Limits of resident sweeps: the time that bytes or gathers alone take, over theirs; and what each lever bought."""

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends
from cpms.experiment.report.intervals import geometric
from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.palette import NEUTRAL, colour
from cpms.experiment.report.speedup_figures import without_and_with

NEEDS = ["gpu_sweeps"]
BESIDE = ["gpu_refine", "gpu_cached", "gpu_merged"]
COMPARED = {"cached": "in-cache sweeps", "merge": "lumping"}
WITHOUT = {
    "reordering": ["as chosen, file order"],
    "short warp ranges": ["one range a warp"],
    "choice of warps": ["16 warps", "24 warps"],
    "tiled gather": ["no tiled gather"],
    "propagation blocking": ["no propagation blocking"],
    "hub cache": ["no hub cache"],
}
"""What a lever of a sweep is compared with: the same without it, or the better of choices that are fixed."""
IN_BINS = "of the bytes alone"


def show(rows, out, beside):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    ends_of_sweeps = ["low", "high", "bits", "in bins"]
    out.table(
        table.drop(columns=ends_of_sweeps),
        best={"sweep us": "least by graph,storage"},
        caption=f"A sweep on {rows.gpu.iloc[0]}, medians, and how far apart the least and the most are: 'bytes' "
        "at the copy bandwidth of the same run, 'gathers' "
        "alone in a kernel of their own, but none where bins gather from shared memory; 'reached' the larger of the "
        "two over the sweep, above 1 where sweeps gather in a better order than that kernel, which then is no limit; "
        "'of plain' the same with the bytes of sources of 32 bits, a row pointer and a degree, however little is read",
    )
    best = table.sort_values("sweep us").groupby(["graph", "storage"], sort=False).first().reset_index()
    out.table(
        best.drop(columns=ends_of_sweeps), suffix="_best", caption="The fastest arrangement of each graph and storage"
    )
    chosen = table[table.arrangement == "as chosen"]
    out.figure(
        _figure(table, out),
        caption=f"Share of the limit that a sweep on {rows.gpu.iloc[0]} reaches: the time that its bytes, at the copy "
        "bandwidth of the same run, or its gathers alone take, whichever is longer, over its own. Marks: the engine's "
        "choice of arrangement by bits, from the top from few to many, with the least and the most of its samples; "
        "grey: the other arrangements at 16 bits. Above 1 where sweeps gather in a better order than the kernel of "
        "gathers alone; diamonds gather from shared memory, which that kernel does not, so that their share is of the "
        "bytes alone",
        alt=ends(chosen, "reached", ["graph", "storage"], "Share of the limit reached"),
        of=NEEDS,
    )
    solved, *compared = (_of(experiment, beside) for experiment in BESIDE)
    compared_levers = [
        _bought_by(found, key, lever) for found, (key, lever) in zip(compared, COMPARED.items(), strict=True)
    ]
    bought = _bought(table)
    for more in (*compared_levers, _bought_by_solves(solved)):
        bought = bought.join(more, how="outer")
    if bought.empty:  # All of it as chosen.
        return
    fixed = _fixed(_by_arrangement(table), WITHOUT["choice of warps"])
    over = f", of the choice of warps than with {fixed} for all graphs, the better fixed number" if fixed else ""
    out.table(
        bought.reset_index(),
        suffix="_ablation",
        caption="What each lever bought, times faster: of a 16-bit sweep against the same without the lever"
        f"{over} (in-cache sweeps and lumping as the tables of levers have them, on {_gpus(*compared)}); of a whole "
        "solve, fewer bits against fused fp64, Anderson acceleration against bits alone, level solve and lumping "
        "against sweeps over all nodes",
    )
    out.figure(
        _ablation(bought, out),
        suffix="_ablation",
        caption=f"Times faster with each lever than without{over}: grey dots are graphs, diamonds geometric means with "
        "95 % bootstrap intervals over them; numbers of graphs in brackets; of a 16-bit sweep, or (‡) of a whole solve",
        alt="; ".join(f"{lever}: {geometric(bought[lever])['mean']:.2f} times" for lever in bought),
    )


def _lines(row):
    bandwidth = row.ceilings["copy_gbps"] * 1e3  # bytes a microsecond
    own = {(r["storage"]): r["sweep_us"] for r in row.results if r["arrangement"] == row.results[0]["arrangement"]}
    for result in row.results:
        moved = result["bytes"] / bandwidth
        gathers = np.nan if result["in_bins"] else result["gather_us"]
        yield {
            "graph": shortened(label(row)),
            "storage": result["storage"],
            "arrangement": _called(result["arrangement"]),
            "renumbered": result["renumbered"],
            "sweep us": result["sweep_us"],
            "apart us": result["most_us"] - result["least_us"],
            "bytes us": moved,
            "gathers us": gathers,
            "reached": np.fmax(moved, gathers) / result["sweep_us"],
            "of plain": max(_plain_bytes(row, result["bits"]) / bandwidth, result["gather_us"]) / result["sweep_us"],
            "over the default": own[result["storage"]] / result["sweep_us"],
            "bits": result["bits"],
            "in bins": result["in_bins"],
            "low": np.fmax(moved, gathers) / result["most_us"],
            "high": np.fmax(moved, gathers) / result["least_us"],
        }


def _plain_bytes(row, bits):
    """Return the bytes of a sweep without any lever: 4 an edge, of 16-bit values 18 a node."""
    return 4 * row.edges + (8 + (16 if bits == 64 else 8 + bits / 8)) * row.nodes


def _called(arrangement):
    steps = arrangement["stretch_steps"]
    name = {None: "as chosen", 0: "one range a warp"}.get(steps, f"ranges of {steps} tiles")
    name = f"{arrangement['warps']} warps" if arrangement["warps"] else name
    for key, strategy in (("bins", "tiled gather"), ("deal", "propagation blocking"), ("hot", "hub cache")):
        name = {None: name, True: strategy, False: f"no {strategy}"}[arrangement[key]]
    return name if arrangement["renumber"] else f"{name}, file order"


def _figure(table, out):
    graphs, widths = list(dict.fromkeys(table.graph)), sorted(set(table.bits))
    half = -(-len(graphs) // (2 if out.double else 1))
    parts = [graphs[first : first + half] for first in range(0, len(graphs), half)]
    figure, axes = panels.grid(out.width, len(parts), panels.rows_height(parts[0], 0.34), columns=(1, 2), sharex=True)
    for panel, part in zip(axes, parts, strict=True):
        _shares(panel, table[table.graph.isin(part)], part, widths)
        panels.named_rows(panel, out.names(part, of=NEEDS))
    axes[0].set_xlim(left=0)
    figure.supxlabel("share of the limit by bytes or gathers")
    other = {"other arrangements, 16 bits": {"color": "#999999", "marker": "|", "linestyle": ""}}
    marks = {IN_BINS: "D"} if (table["in bins"] & (table.arrangement == "as chosen")).any() else {}
    panels.legend(figure, panels.key(widths, lines=other, marks=marks))
    return figure


def _shares(panel, table, graphs, widths):
    others = table[(table.storage == "fp16") & (table.arrangement != "as chosen")]
    places = [graphs.index(graph) + panels.beside(widths.index(16), len(widths)) for graph in others.graph]
    panel.plot(others.reached, places, "|", color="#999999", markersize=4, markeredgewidth=0.6, zorder=0)
    chosen = table[table.arrangement == "as chosen"]
    for line, in_bins in zip(chosen.itertuples(), chosen["in bins"], strict=True):
        place = graphs.index(line.graph) + panels.beside(widths.index(line.bits), len(widths))
        ends_of = (line.low, line.high)
        panels.point(panel, line.reached, place, line.bits, "D" if in_bins else "o", ends=ends_of, size=3.5, light=True)
    panels.unity(panel)


def _bought(table):
    part = _by_arrangement(table)
    others = {lever: _fixed(part, fixed) for lever, fixed in WITHOUT.items()}
    return pd.DataFrame(
        {lever: part[other] / part["as chosen"] for lever, other in others.items() if other}, index=part.index
    )


def _by_arrangement(table):
    return table[table.storage == "fp16"].pivot_table(index="graph", columns="arrangement", values="sweep us")


def _fixed(part, others):
    """Return the recorded one of the arrangements that is the fastest if fixed for all graphs; None without any."""
    recorded = [other for other in others if other in part]
    return min(recorded, key=lambda other: geometric(part[other])["mean"], default=None)


def _of(experiment, rows):
    """Return the rows of one of the experiments that went well."""
    return rows[(rows.experiment == experiment) & (rows.status == "ok")] if len(rows) else rows


def _gpus(*recorded):
    return " and ".join(dict.fromkeys(gpu for rows in recorded if len(rows) for gpu in rows.gpu)) or "no GPU"


def _bought_by(rows, key, lever):
    found = {}
    for _, row in rows.iterrows():
        pairs = without_and_with(row, key)
        times = {old["storage"]: old["sweep_us"] / new["sweep_us"] for old, new in pairs}
        found[shortened(label(row))] = {lever: times["fp16"]}
    return pd.DataFrame.from_dict(found, orient="index").rename_axis("graph")


def _bought_by_solves(rows):
    found = {}
    for _, row in rows.iterrows():
        solved = [result for result in row.results if result["status"] == "ok" and result["engine"] == "cuda_fused"]
        fused = next(result["solve_s"] for result in solved if result.get("method", "power") == "power")
        by_use = {
            (bool(result.get("whole")), bool(result.get("plain"))): result["solve_s"]
            for result in solved
            if result["storage"] == "fp16"
        }
        alone, whole, chosen = by_use[True, True], by_use[True, False], by_use[False, False]
        found[shortened(label(row))] = {
            "16 bits (solve)": fused / alone,
            "Anderson (solve)": alone / whole,
            "level solve (solve)": whole / chosen,
        }
    return pd.DataFrame.from_dict(found, orient="index").rename_axis("graph")


def _ablation(bought, out):
    levers = sorted(bought, key=lambda lever: -geometric(bought[lever])["mean"])
    names = [f"{lever.replace(' (solve)', '‡')} ({bought[lever].notna().sum()})" for lever in levers]
    figure, (axes,) = panels.grid(out.width, 1, panels.rows_height(names, 0.2))
    for place, lever in enumerate(levers):
        known, found = bought[lever].dropna(), geometric(bought[lever])
        axes.plot(known, [place] * len(known), "o", color="#999999", markersize=3, alpha=0.6, markeredgewidth=0)
        panels.point(axes, found["mean"], place, 16, "D", ends=(found["low"], found["high"]), size=4.5)
    panels.unity(axes)
    panels.named_rows(axes, names)
    panels.logarithmic(axes)
    axes.set_xlabel("times faster with the lever")
    mean = {"geometric mean": {"color": colour(16), "marker": "D", "linestyle": "", "markersize": 5}}
    graph = {"a graph": {"color": NEUTRAL, "marker": "o", "linestyle": "", "markersize": 3}}
    panels.legend(figure, panels.key(lines={**mean, **graph}))
    return figure
