"""Limits of resident sweeps: the time that bytes or gathers alone take, over theirs; and the ablation of choices."""

import numpy as np
import pandas as pd

from cpms.experiment.present import PALETTE, label

NEEDS = ["gpu_sweeps"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    out.table(
        table,
        caption=f"A sweep on {rows.gpu.iloc[0]}, medians: 'bytes' at the copy bandwidth of the same run, 'gathers' "
        "alone in a kernel of their own, but none where bins gather from shared memory; 'reached' the larger of the "
        "two over the sweep",
    )
    best = table.sort_values("sweep us").groupby(["graph", "storage"], sort=False).first().reset_index()
    out.table(best, suffix="_best", caption="The fastest arrangement of each graph and storage")
    out.figure(_figure(table))


def _lines(row):
    bandwidth = row.ceilings["copy_gbps"] * 1e3  # bytes a microsecond
    own = {(r["storage"]): r["sweep_us"] for r in row.results if r["arrangement"] == row.results[0]["arrangement"]}
    for result in row.results:
        moved = result["bytes"] / bandwidth
        gathers = np.nan if result["in_bins"] else result["gather_us"]
        yield {
            "graph": label(row),
            "storage": result["storage"],
            "arrangement": _called(result["arrangement"]),
            "renumbered": result["renumbered"],
            "sweep us": result["sweep_us"],
            "bytes us": moved,
            "gathers us": gathers,
            "reached": np.fmax(moved, gathers) / result["sweep_us"],
            "over the default": own[result["storage"]] / result["sweep_us"],
        }


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
    figure, axes = plt.subplots(figsize=(7, 3.6))
    for place, (kind, colour) in enumerate(zip(kinds, PALETTE.values(), strict=False)):
        line = part[part.arrangement == kind].set_index("graph").reindex(graphs)
        heights = np.arange(len(graphs)) + 0.12 * (place - len(kinds) / 2)
        axes.plot(line.reached, heights, "o", ms=3, color=colour, label=kind)
    axes.axvline(0.7, color="#222222", linewidth=0.6)
    axes.set(xlabel="larger of bytes and gathers alone, over the 16-bit sweep", xlim=(0, 1.05))
    axes.set_yticks(range(len(graphs)), graphs)
    axes.invert_yaxis()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure
