"""What an order of the nodes buys a sweep on a GPU, and what it costs to find."""

import pandas as pd

from cpms.experiment.report.output import label, shortened

NEEDS = ["gpu_orders"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    given = [row for _, row in rows.iterrows() if "reordered:" not in row.graph and len(_by_numbering(row)) == 2]
    out.table(
        pd.DataFrame([_renumbered(row) for row in given]),
        best=dict.fromkeys(("sweep us", "as given us"), "row least"),
        caption=f"The engine's own order on {rows.gpu.iloc[0]}, by out-degree where samples of the edges promise fewer "
        "memory transactions, against the graph's: microseconds a 16-bit sweep, medians, with how far apart the least "
        "and the most are; and milliseconds of the host to look, and to sort where that may pay",
    )
    out.table(
        pd.DataFrame([_ordered(row) for _, row in rows.iterrows()]),
        suffix="_others",
        caption=f"Other orders on {rows.gpu.iloc[0]}: microseconds a sweep, medians, with how far apart the least and "
        "the most are, of gathers alone, and the seconds to load or generate the graph and to order it on the host (by "
        "bandwidth: SciPy's reverse Cuthill-McKee; by communities: igraph's Leiden); the first line's include what a "
        "program does once",
    )


def _renumbered(row):
    low = _by_numbering(row)
    return {
        "graph": shortened(label(row)),
        "ordered": "by out-degree" if low[True]["renumbered"] else "as given",
        "sweep us": low[True]["sweep_us"],
        "apart, %": _apart(low[True]),
        "as given us": low[False]["sweep_us"],
        "as given apart, %": _apart(low[False]),
        "numbering ms": 1e3 * low[True]["numbering_s"],
    }


def _by_numbering(row):
    return {result["arrangement"]["renumber"]: result for result in row.results if result["storage"] == "fp16"}


def _ordered(row):
    first = {result["storage"]: result for result in reversed(row.results)}
    low, double = first.get("fp16", {}), first.get("fp64", {})
    return {
        "graph": shortened(label(row)),
        "16 bits us": low.get("sweep_us"),
        "apart, %": _apart(low) if low else None,
        "gathers us": low.get("gather_us"),
        "64 bits us": double.get("sweep_us"),
        "load and order s": row.load_s,
    }


def _apart(result):
    return 100 * (result["most_us"] - result["least_us"]) / result["sweep_us"]
