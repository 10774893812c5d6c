"""From edges in memory to ranks on two threads: ours with its certificate, against other programs' build and solve."""

import numpy as np
import pandas as pd

from cpms.experiment.report.intervals import interval_text, means_line, ratio_ends
from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.speedup_figures import alone, peers_details, peers_figure, threads_of

NEEDS = ["cpu_peers_road"]
OURS = {"refine auto": "o", "power fp64": "D"}
"""Our methods and their markers."""
ORDER = "Edges are int32 in random order; ours certifies its answer, and the others do not"


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([_line(row) for _, row in rows.iterrows()])
    timed = [name for name in table if table[name].dtype == float and not name.startswith("over ")]
    out.table(
        table.rename(columns={name: f"{name}, ms" for name in timed}),
        best={f"{name}, ms": "row least" for name in timed},
        caption=f"From edges to ranks on {rows.threads.iloc[0]} threads ({rows.cpu.iloc[0]}), milliseconds, medians of "
        f"{rows.rounds.iloc[0]} in turn, each at the loosest tolerance that keeps an error of {rows.error.iloc[0]:g} "
        f"in L1. {ORDER}. {threads_of(rows)}",
    )
    of_means = "Median time of the fastest other program over ours, over the graphs; low and high: 95 % bootstrap"
    out.table(_means(table), suffix="_means", caption=f"{of_means} intervals. {threads_of(rows)}")
    out.table(
        peers_details(rows, "road", "ms", {}, ["variant"]),
        suffix="_details",
        caption=f"Every contestant: median, least and most, verified error, tolerance. {threads_of(rows)}",
        best={"ms": "least by graph"},
    )
    drawn = pd.DataFrame([line for _, row in rows.iterrows() for line in _drawn(row)])
    figure = peers_figure(drawn, OURS, out)
    out.figure(
        figure,
        caption=f"From edges to ranks on {rows.threads.iloc[0]} threads ({rows.cpu.iloc[0]}): time of the fastest "
        f"other program, named at the right, over ours, each at the loosest tolerance that keeps an error of "
        f"{rows.error.iloc[0]:g} in L1, medians; above 1 ours is faster. Lines: "
        f"{interval_text(rows, 'road_samples_s')}, of a sample of the other over one of ours. {ORDER}. "
        f"{threads_of(rows)}. Colour: fewest bits that ours reads{alone(drawn)}, marker: method",
    )


def _line(row):
    taken = {result["name"]: 1e3 * result["road_s"] for result in row.results if result["status"] == "ok"}
    ours = {name.removeprefix("cpms "): ms for name, ms in taken.items() if name.startswith("cpms")}
    peers = {name: ms for name, ms in taken.items() if not name.startswith("cpms")}
    fastest = min(peers, key=peers.get, default=None)
    line = {"graph": label(row), "nodes": row.nodes, "edges": row.edges, **ours, **peers, "fastest peer": fastest}
    for name in ("refine auto", "power fp64"):
        line[f"over {name}"] = peers.get(fastest, np.nan) / ours.get(name, np.nan)
    return line


def _means(table):
    return pd.DataFrame([{"ours": name, **means_line(table[f"over {name}"])} for name in OURS])


def _drawn(row):
    """Yield the ratio of the fastest other program to each of ours."""
    solved = {result["name"]: result for result in row.results if result["status"] == "ok"}
    peers = [result for name, result in solved.items() if not name.startswith("cpms")]
    for name in OURS:
        own = solved.get(f"cpms {name}")
        if own is not None and peers:
            fastest = min(peers, key=lambda result: result["road_s"])
            low, high = ratio_ends(fastest["road_samples_s"], own["road_samples_s"])
            yield {
                "graph": shortened(label(row)),
                "ours": name,
                "peer": fastest["name"],
                "bits": min(map(int, own.get("iterations_by_bits", {})), default=64),
                "ratio": fastest["road_s"] / own["road_s"],
                "low": low,
                "high": high,
            }
