"""What an order of the nodes buys a sweep on a GPU, and what it costs to find."""

import pandas as pd

from cpms.experiment.derived.sweep_times import sweep_times
from cpms.experiment.report.output import label, shortened

NEEDS = ["gpu_orders"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    given = [row for _, row in rows.iterrows() if "reordered:" not in row.graph and len(_by_numbering(row)) == 2]
    out.table(
        pd.DataFrame([_renumbered(row) for row in given]),
        caption=f"The engine's own order on {rows.gpu.iloc[0]}, by out-degree where samples of the edges promise "
        "fewer memory transactions, against the graph's: microseconds of a 16-bit sweep, the mean over a run, with "
        "how far apart the least and the most mean of the runs are; and "
        "milliseconds of the host to look, and to sort where that may pay",
    )
    out.table(
        pd.DataFrame([_ordered(row) for _, row in rows.iterrows()]),
        suffix="_others",
        caption=f"Other orders on {rows.gpu.iloc[0]}: microseconds of a sweep, the mean over a run, with how far "
        "apart the least and the most mean of the runs are, of gathers alone, and "
        "the seconds to load or generate the graph and to order it on the host (by bandwidth: SciPy's reverse "
        "Cuthill-McKee; by communities: igraph's Leiden); the first line's include what a program does once",
    )


def _renumbered(row):
    low = _by_numbering(row)
    own, given = (sweep_times(row, low[renumber]) for renumber in (True, False))
    return {
        "graph": shortened(label(row)),
        "ordered": "by out-degree" if low[True]["renumbered"] else "as given",
        "sweep us": own.us,
        "apart, %": _apart(own),
        "as given us": given.us,
        "as given apart, %": _apart(given),
        "numbering ms": 1e3 * low[True]["numbering_s"],
    }


def _by_numbering(row):
    return {result["arrangement"]["renumber"]: result for result in row.results if result["storage"] == "fp16"}


def _ordered(row):
    first = {result["storage"]: result for result in reversed(row.results)}
    low, double = (sweep_times(row, first[name]) if name in first else None for name in ("fp16", "fp64"))
    return {
        "graph": shortened(label(row)),
        "16 bits us": low and low.us,
        "apart, %": low and _apart(low),
        "gathers us": first.get("fp16", {}).get("gather_us"),
        "64 bits us": double and double.us,
        "load and order s": row.load_s,
    }


def _apart(times):
    return 100 * times.range_us / times.us
