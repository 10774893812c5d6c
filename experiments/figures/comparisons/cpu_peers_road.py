"""From edges in memory to ranks on two threads: ours with its certificate, against other programs' build and solve."""

import numpy as np
import pandas as pd

from cpms.experiment.report.output import label, shortened

NEEDS = ["cpu_peers_road"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([_line(row) for _, row in rows.iterrows()])
    out.table(
        table,
        caption=f"From edges to ranks on {rows.threads.iloc[0]} threads ({rows.cpu.iloc[0]}), milliseconds, medians of "
        f"{rows.rounds.iloc[0]} in turn, each at the loosest tolerance that keeps an error of {rows.error.iloc[0]:g} "
        "in L1; edges are int32 in random order, and ours certifies its answer",
    )
    out.table(_means(table), suffix="_means", caption="Fastest other program over ours")
    out.table(
        pd.DataFrame([line for _, row in rows.iterrows() for line in _details(row)]),
        suffix="_details",
        caption="Every contestant: median, least and most, verified error, tolerance",
    )
    out.figure(_figure(table))


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
    names = [name for name in table if name.startswith("over ")]
    ratios = table[names]
    return pd.DataFrame(
        {
            "ours": [name.removeprefix("over ") for name in names],
            "geometric mean": np.exp(np.log(ratios).mean()).to_numpy(),
            "least": ratios.min().to_numpy(),
            "graphs where ours is faster": (ratios > 1).sum().to_numpy(),
            "graphs": ratios.notna().sum().to_numpy(),
        }
    )


def _details(row):
    for result in row.results:
        line = {"graph": label(row), "name": result["name"], "status": result["status"]}
        if result["status"] != "ok":
            yield line | {"setting": result["reason"]}
            continue
        samples = result["road_samples_s"]
        yield line | {
            "ms": 1e3 * result["road_s"],
            "least ms": 1e3 * min(samples),
            "most ms": 1e3 * max(samples),
            "error": result["error_l1"],
            "tol": result["tol"],
            "setting": ", ".join(f"{key}: {value}" for key, value in result.get("variant", {}).items()),
        }


def _figure(table):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 0.25 * len(table) + 1))
    places = np.arange(len(table))
    axes.plot(table["over refine auto"], places, "o", color="#D55E00", markersize=4, label="refine")
    axes.plot(table["over power fp64"], places, "s", color="#0072B2", markersize=4, label="power")
    axes.axvline(1, color="#222222", linewidth=0.6)
    axes.set_yticks(places, [shortened(graph) for graph in table.graph])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("time of the fastest other program over ours, from edges to ranks")
    axes.legend()
    return figure
