"""What sweeps on a GPU gain of graphs that fit in its cache where they are made for these."""

import pandas as pd

from cpms.experiment.present import faster_figure, faster_lines

NEEDS = ["gpu_cached"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in faster_lines(row, "cached", "made for these")])
    out.table(
        table,
        caption=f"Sweeps on {rows.gpu.iloc[0]} of graphs that fit in its cache, medians and how far apart the fastest "
        "and the slowest are: as those of other graphs, and made for these; gathers alone, in a kernel of their own",
    )
    out.figure(faster_figure(table, "made for graphs in the cache"))
