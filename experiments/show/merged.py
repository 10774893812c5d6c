"""What sweeps on a GPU gain where nodes whose edges lead to the same nodes are one."""

import pandas as pd

from cpms.experiment.present import faster_figure, faster_lines

NEEDS = ["gpu_merged"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in faster_lines(row, "merge", "merged")])
    out.table(
        table,
        caption=f"Sweeps on {rows.gpu.iloc[0]} over all nodes, and over one for those whose edges lead to the same, "
        "medians and how far apart the fastest and the slowest are; bytes are those of the one over the other; the "
        "engine merges where it pays for a solve",
    )
    out.figure(faster_figure(table, "where nodes are merged"))
