"""Limits of resident sweeps: the time that bytes or gathers alone take, over theirs; and what each lever bought."""

import numpy as np
import pandas as pd

from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.speedup_figures import without_and_with

NEEDS = ["gpu_sweeps"]
BESIDE = ["gpu_refine", "gpu_codes", "gpu_cached", "gpu_merged"]
COMPARED = {"codes": "16-bit sources", "cached": "made for the cache", "merge": "merged nodes"}
WITHOUT = {
    "renumbering": ["as chosen, file order"],
    "short stretches": ["a stretch a warp"],
    "choice of warps": ["16 warps", "24 warps"],
    "16-bit places in bins": ["not in bins"],
    "dealt values": ["not dealt"],
    "hot nodes": ["no hot nodes"],
}
"""What a lever of a sweep is compared with: the same without it, or the slower of two choices."""


def show(rows, out, beside):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    out.table(
        table,
        caption=f"A sweep on {rows.gpu.iloc[0]}, medians: 'bytes' at the copy bandwidth of the same run, 'gathers' "
        "alone in a kernel of their own, but none where bins gather from shared memory; 'reached' the larger of the "
        "two over the sweep, above 1 where sweeps gather in a better order than that kernel, which then is no limit; "
        "'of plain' the same with the bytes of sources of 32 bits, a row pointer and a degree, however little is read",
    )
    best = table.sort_values("sweep us").groupby(["graph", "storage"], sort=False).first().reset_index()
    out.table(best, suffix="_best", caption="The fastest arrangement of each graph and storage")
    out.figure(_figure(table))
    solved, *compared = (_of(experiment, beside) for experiment in BESIDE)
    compared_levers = [
        _bought_by(found, key, lever) for found, (key, lever) in zip(compared, COMPARED.items(), strict=True)
    ]
    bought = _bought(table)
    for more in (*compared_levers, _bought_by_solves(solved)):
        bought = bought.join(more, how="outer")
    if bought.empty:  # All of it as chosen.
        return
    out.table(
        bought.reset_index(),
        suffix="_ablation",
        caption="What each lever bought, times faster: of a 16-bit sweep against the same without the lever (or the "
        "slower choice of warps; what shared memory holds needs 16; 16-bit sources, sweeps made for the cache and "
        f"merged nodes as the tables of levers have them, on {_gpus(*compared)}); of a whole solve, fewer "
        "bits against fused fp64, extrapolation against bits alone, passes and merged nodes against sweeps over all",
    )
    out.figure(_ablation(bought), suffix="_ablation")


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
            "bytes us": moved,
            "gathers us": gathers,
            "reached": np.fmax(moved, gathers) / result["sweep_us"],
            "of plain": max(_plain_bytes(row, result["bits"]) / bandwidth, result["gather_us"]) / result["sweep_us"],
            "over the default": own[result["storage"]] / result["sweep_us"],
        }


def _plain_bytes(row, bits):
    """Return the bytes of a sweep without any lever: 4 an edge, of 16-bit values 18 a node."""
    return 4 * row.edges + (8 + (16 if bits == 64 else 8 + bits / 8)) * row.nodes


def _called(arrangement):
    steps = arrangement["stretch_steps"]
    name = {None: "as chosen", 0: "a stretch a warp"}.get(steps, f"stretches of {steps}")
    name = f"{arrangement['warps']} warps" if arrangement["warps"] else name
    name = {None: name, True: "in bins", False: "not in bins"}[arrangement["bins"]]
    name = {None: name, True: "dealt", False: "not dealt"}[arrangement["deal"]]
    name = {None: name, True: "hot nodes in shared memory", False: "no hot nodes"}[arrangement["hot"]]
    return name if arrangement["renumber"] else f"{name}, file order"


def _figure(table):
    import matplotlib.pyplot as plt

    part = table[table.storage == "fp16"]
    graphs = list(dict.fromkeys(part.graph))
    kinds = list(dict.fromkeys(part.arrangement))
    figure, axes = plt.subplots(figsize=(7, 4.4))
    for place, kind in enumerate(kinds):
        colour, marker = plt.get_cmap("tab10")(place % 10), "o" if place < 10 else "s"
        line = part[part.arrangement == kind].set_index("graph").reindex(graphs)
        heights = np.arange(len(graphs)) + 0.06 * (place - len(kinds) / 2)
        axes.plot(line.reached, heights, marker, ms=3, color=colour, label=kind)
    axes.axvline(0.7, color="#222222", linewidth=0.6, label="aimed at, over 10M edges")
    axes.set(xlabel="larger of bytes and gathers alone, over the 16-bit sweep", xlim=(0, None))
    axes.set_yticks(range(len(graphs)), graphs)
    axes.invert_yaxis()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def _bought(table):
    part = table[table.storage == "fp16"].pivot_table(index="graph", columns="arrangement", values="sweep us")
    recorded = {lever: part.columns.intersection(others) for lever, others in WITHOUT.items()}
    return pd.DataFrame(
        {lever: part[others].max(axis=1) / part["as chosen"] for lever, others in recorded.items() if len(others)},
        index=part.index,
    )


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
            "extrapolation (solve)": alone / whole,
            "passes (solve)": whole / chosen,
        }
    return pd.DataFrame.from_dict(found, orient="index").rename_axis("graph")


def _ablation(bought):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.8))
    values = bought.to_numpy(float)
    axes.imshow(np.log2(values), cmap="RdBu", vmin=-2, vmax=2, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            text = f"{value:.2f}" if value < 9.95 else f"{value:.0f}"
            axes.text(j, i, text, ha="center", va="center", fontsize=6, color="white" if value > 3 else "black")
    axes.set_xticks(range(len(bought.columns)), bought.columns, rotation=30, ha="right")
    axes.set_yticks(range(len(bought.index)), bought.index)
    axes.set_xlabel("times faster with it (blue) than without; empty where it was not measured")
    axes.spines[:].set_visible(False)
    return figure
