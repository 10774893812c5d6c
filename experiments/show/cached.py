"""What sweeps on a GPU gain of graphs that fit in its cache where they are made for these."""

import pandas as pd

from cpms.experiment.present import faster_figure, label, shortened, without_and_with

NEEDS = ["gpu_cached"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    out.table(
        table,
        caption=f"Sweeps on {rows.gpu.iloc[0]} of graphs that fit in its cache, medians and how far apart the fastest "
        "and the slowest are: as those of other graphs, and made for these; gathers alone, in a kernel of their own",
    )
    out.figure(faster_figure(table, "made for graphs in the cache"))


def _lines(row):
    for result, made in without_and_with(row, "cached"):
        yield {
            "graph": shortened(label(row)),
            "edges": row.edges,
            "storage": result["storage"],
            "bits": result["bits"],
            "us": result["sweep_us"],
            "made for these us": made["sweep_us"],
            "apart us": made["most_us"] - made["least_us"],
            "times faster": result["sweep_us"] / made["sweep_us"],
            "gathers us": made["gather_us"],
        }
