"""What an order of the nodes buys a sweep on a GPU, and what it costs to find."""

import pandas as pd

from cpms.experiment.present import label, shortened

NEEDS = ["gpu_orders", "gpu_sweeps"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    swept = rows[rows.experiment == "gpu_sweeps"]
    if len(swept):
        out.table(
            pd.DataFrame([line for _, row in swept.iterrows() for line in _renumbered(row)]),
            caption=f"The engine's own order on {swept.gpu.iloc[0]}, by out-degree where samples of the edges promise "
            "fewer memory transactions, against the file's: microseconds a 16-bit sweep, and the host's milliseconds "
            "to sample, to sort where it pays, and to decide",
        )
    ordered = rows[rows.experiment == "gpu_orders"]
    if len(ordered):
        out.table(
            pd.DataFrame([_ordered(row) for _, row in ordered.iterrows()]),
            suffix="_others",
            caption=f"Other orders on {ordered.gpu.iloc[0]}: microseconds a sweep, of gathers alone, and the seconds "
            "to load the graph and order it on the host (by bandwidth: SciPy's reverse Cuthill-McKee; by communities: "
            "igraph's Leiden)",
        )


def _renumbered(row):
    low = {result["arrangement"]["renumber"]: result for result in row.results if _plain(result)}
    if {True, False} <= low.keys() and "numbering_s" in low[True]:
        yield {
            "graph": shortened(label(row)),
            "ordered": "by out-degree" if low[True]["renumbered"] else "as in the file",
            "sweep us": low[True]["sweep_us"],
            "file order us": low[False]["sweep_us"],
            "numbering ms": 1e3 * low[True]["numbering_s"],
        }


def _plain(result):
    others = {name: choice for name, choice in result["arrangement"].items() if name != "renumber"}
    return result["storage"] == "fp16" and all(choice is None for choice in others.values())


def _ordered(row):
    first = {result["storage"]: result for result in row.results}
    return {
        "graph": shortened(label(row)),
        "16 bits us": first["fp16"]["sweep_us"],
        "gathers us": first["fp16"]["gather_us"],
        "64 bits us": first["fp64"]["sweep_us"],
        "load and order s": row.load_s,
    }
