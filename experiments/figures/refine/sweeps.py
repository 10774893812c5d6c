"""Limits of resident sweeps: the time that bytes or gathers alone take, over theirs; and what each lever bought."""

import numpy as np
import pandas as pd

from cpms.experiment.derived.sweep_times import UPDATES, sweep_times
from cpms.experiment.report import panels
from cpms.experiment.report.intervals import PREPARED, UNSEEN, geometric
from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.palette import NEUTRAL, colour
from cpms.experiment.report.speedup_figures import DOT, MEAN, OF_MEANS, mean_rows, without_and_with

NEEDS = ["gpu_sweeps"]
BESIDE = ["gpu_refine", "gpu_cached", "gpu_merged"]
OF_SOLVE = " (solve)"
ENTRIES = {"geometric mean": MEAN, "a graph": DOT}
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
LEAST = 10**7
"""Edges of graphs that the cache of the GPU does not hold."""
DRAWN = (64, 16)
"""Numbers of bits of the figure; the table has all."""
GATHERS = {"color": NEUTRAL, "marker": "|", "linestyle": "", "markersize": 7, "markeredgewidth": 1.2}


def show(rows, out, beside):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    ends_of_sweeps = ["low", "high", "bits", "edges", "staged"]
    out.table(
        table.drop(columns=ends_of_sweeps),
        best={"sweep us": "least by graph,storage"},
        caption=f"A sweep on {rows.gpu.iloc[0]}, the mean over a run and the median of single sweeps, what an update "
        "of x adds to one, and the range of the means of runs ('apart'). 'Bytes': the time of its bytes "
        "at the copy bandwidth of the same run; 'gathers': that of its gathers in a kernel of their own, but none "
        "where bins gather from shared memory; 'reached': the larger of the two over the sweep, above 1 where sweeps "
        "gather in a better order than that kernel; 'of plain': the same with the bytes of sources of 32 bits, a row "
        f"pointer and a degree, however little is read. {UPDATES}",
        of=NEEDS,
    )
    best = table.sort_values("sweep us").drop_duplicates(["graph", "storage"])
    out.table(
        best.drop(columns=ends_of_sweeps),
        suffix="_best",
        caption="The fastest arrangement of each graph and storage",
        of=NEEDS,
    )
    chosen = table[table.arrangement == "as chosen"]
    out.figure(
        _figure(chosen, out),
        caption="Share of the copy bandwidth of the same run that the bytes of a sweep, the mean over a run, reach "
        f"on {rows.gpu.iloc[0]}; in each row 64 bits above 16; lines: range of runs{UNSEEN}. "
        "Strokes: the same bytes in the time of a kernel that only gathers; sweeps that gather "
        "in a better order pass theirs, and strokes beyond 1 are not drawn. Diamonds: values staged in shared memory, "
        "without random gathers; the bytes staged count, too. Graphs in the cache: latency limits the sweeps, too",
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
    choice = f"The choice of warps is against {fixed} for all graphs, the better fixed number. " if fixed else ""
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
        caption="Whole solves and sweeps in 16 bits with each optimisation, times faster than without it, and solves "
        "in 16 bits than in 64, on as many graphs as brackets say: those where it applies and both are recorded. "
        f"{choice}Dots are graphs, of which many lie at 1 on each other, diamonds their geometric means; {OF_MEANS}. "
        f"Axes differ{PREPARED}",
        results=lambda result: result["kind"] == "sweeps" or result["engine"] == "cuda_fused",
        alt="Geometric means of times faster. "
        + "; ".join(f"{lever}: {geometric(bought[lever])['mean']:.2f}" for lever in bought)
        + ".",
    )


def _lines(row):
    bandwidth = row.ceilings["copy_gbps"] * 1e3  # bytes a microsecond
    first = row.results[0]["arrangement"]
    own = {(r["storage"]): sweep_times(row, r).us for r in row.results if r["arrangement"] == first}
    for result in row.results:
        times = sweep_times(row, result)
        moved = times.bytes / bandwidth
        gathers = np.nan if result["in_bins"] else result["gather_us"]
        yield {
            "graph": shortened(label(row)),
            "storage": result["storage"],
            "arrangement": _called(result["arrangement"]),
            "renumbered": result["renumbered"],
            "sweep us": times.us,
            "median us": times.plain_us,
            "update us": times.update_us or np.nan,
            "apart us": times.range_us,
            "bytes us": moved,
            "gathers us": gathers,
            "reached": np.fmax(moved, gathers) / times.us,
            "edges": row.edges,
            "staged": bool(result["in_bins"]),
            "of plain": max(_plain_bytes(row, result["bits"]) / bandwidth, result["gather_us"]) / times.us,
            "over the default": own[result["storage"]] / times.us,
            "bits": result["bits"],
            "low": np.fmax(moved, gathers) / times.most_us,
            "high": np.fmax(moved, gathers) / times.least_us,
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


def _figure(chosen, out):
    from matplotlib.figure import Figure

    drawn = chosen[chosen.bits.isin(DRAWN)].assign(share=chosen["bytes us"] / chosen["sweep us"])
    own = drawn[drawn.bits == DRAWN[-1]].set_index("graph").share
    parts = {
        f"over {LEAST / 1e6:g}M edges, beyond the cache": drawn[drawn.edges > LEAST],
        "fewer edges, in the cache": drawn[drawn.edges <= LEAST],
    }
    parts = {title: part for title, part in parts.items() if len(part)}
    graphs = [sorted(dict.fromkeys(part.graph), key=own.get, reverse=True) for part in parts.values()]
    names = [out.names(each, of=NEEDS) for each in graphs]
    counts = [len(each) + 1.0 for each in names]
    figure = Figure(figsize=(out.width, 0.6 + 0.25 * sum(counts)))
    axes = figure.subplots(len(parts), squeeze=False, sharex=True, height_ratios=counts).flat
    for panel, (title, part), shown, named in zip(axes, parts.items(), graphs, names, strict=True):
        for _, line in part.iterrows():
            place = shown.index(line.graph) + panels.beside(DRAWN.index(line.bits), len(DRAWN), 0.8)
            of_gathers, scale = line["bytes us"] / line["gathers us"], line.share / line.reached
            if of_gathers <= 1:
                panel.plot(of_gathers, place, **{**GATHERS, "color": colour(line.bits)})
            style = {"ends": (scale * line.low, scale * line.high), "light": True, "filled": line.bits == DRAWN[0]}
            panels.point(panel, line.share, place, line.bits, "D" if line.staged else "o", size=3.3, **style)
        panels.named_rows(panel, named)
        panel.set_title(title)
        panel.set_xlim(0, 1)
        panel.set_xticks(np.arange(0.1, 1, 0.2), minor=True)
    panel.set_xlabel("share of the copy bandwidth")
    marks = {f"{bits} bits": panels.entry_of(bits) for bits in DRAWN}
    marks |= {"values staged": {**panels.HOLLOW, "marker": "D"}} if drawn.staged.any() else {}
    panels.legend(figure, panels.key(lines={**marks, "gathers alone": GATHERS}))
    return figure


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
        times = {old["storage"]: sweep_times(row, old).us / sweep_times(row, new).us for old, new in pairs}
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
    from matplotlib.figure import Figure

    long = bought.melt(var_name="lever", value_name="times faster").dropna()
    counts = long.groupby("lever").size()
    long["name"] = [f"{lever.removesuffix(OF_SOLVE)} ({counts[lever]})" for lever in long.lever]
    long = long.assign(bits=16, **{"held out": False})
    is_solve = long.lever.str.endswith(OF_SOLVE)
    parts = {"a whole solve": long[is_solve], "a 16-bit sweep": long[~is_solve]}
    parts = {title: part for title, part in parts.items() if len(part)}
    names = [_by_mean(part) for part in parts.values()]
    counted = [len(each) + 3.5 for each in names]
    figure = Figure(figsize=(out.width, 0.23 * (max(counted) if out.double else sum(counted))))
    shape = {"ncols": len(parts)} if out.double else {"nrows": len(parts), "height_ratios": counted}
    for panel, (title, part), each in zip(
        figure.subplots(squeeze=False, **shape).flat, parts.items(), names, strict=True
    ):
        mean_rows(panel, part, each)
        panel.set(title=title, xlabel="times faster")
    panels.legend(figure, panels.key([16], lines=ENTRIES))
    return figure


def _by_mean(part):
    """Return the names of rows, the largest mean first."""
    means = part.groupby("name")["times faster"].agg(lambda ratios: geometric(ratios)["mean"])
    return list(means.sort_values(ascending=False).index)
