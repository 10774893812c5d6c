"""Whole solves on two threads: ours against other programs at the same verified error."""

import numpy as np
import pandas as pd

from cpms.experiment.report.output import label, shortened

NEEDS = ["cpu_peers"]
LOOP = "Gauss-Seidel"
"""The peer that is a loop of our own."""
AGAINST = {"": f"peers, our {LOOP} loop among them", " alone": "other programs alone"}


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([_line(row) for _, row in rows.iterrows()])
    threads, cpu = rows.threads.iloc[0], rows.cpu.iloc[0]
    out.table(
        table,
        caption=f"Whole solves on {threads} threads ({cpu}), milliseconds, medians of solves in turn, each at the "
        f"loosest tolerance that keeps an error of {rows.error.iloc[0]:g} in L1",
    )
    out.table(_means(table), suffix="_means", caption="Fastest peer over ours")
    out.table(
        pd.DataFrame([line for _, row in rows.iterrows() for line in _details(row)]),
        suffix="_details",
        caption="Every contestant: times, verified errors, settings",
    )
    out.figure(_figure(table))


def _line(row):
    solved = {result["name"]: 1e3 * result["solve_s"] for result in row.results if result["status"] == "ok"}
    ours = {name: taken for name, taken in solved.items() if name.startswith("cpms")}
    peers = {name: taken for name, taken in solved.items() if name not in ours}
    programs = {name: taken for name, taken in peers.items() if name != LOOP}
    line = {"graph": label(row), "nodes": row.nodes, "edges": row.edges}
    line |= {name.removeprefix("cpms "): taken for name, taken in ours.items()} | peers
    for suffix, against in zip(AGAINST, (peers, programs), strict=True):
        fastest = min(against, key=against.get, default=None)
        taken = against.get(fastest, np.nan)
        line[f"fastest peer{suffix}"] = fastest
        line[f"over refine auto{suffix}"] = taken / ours.get("cpms refine auto", np.nan)
        line[f"over the best of ours{suffix}"] = taken / min(ours.values(), default=np.nan)
    return line


def _means(table):
    chosen = [(ours, against) for against in AGAINST for ours in ("refine auto", "the best of ours")]
    ratios = table[[f"over {ours}{against}" for ours, against in chosen]]
    return pd.DataFrame(
        {
            "ours": [ours for ours, _ in chosen],
            "against the fastest of": [AGAINST[against] for _, against in chosen],
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
        samples = result["solve_samples_s"]
        setting = {**result.get("variant", {}), **result.get("iterations_by_bits", {})}
        yield line | {
            "solve ms": 1e3 * result["solve_s"],
            "least ms": 1e3 * min(samples),
            "most ms": 1e3 * max(samples),
            "error": result["error_l1"],
            "tol": result["tol"],
            "build s": result["build_s"],
            "setting": ", ".join(f"{key}: {value}" for key, value in setting.items()),
        }


def _figure(table):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 0.25 * len(table) + 1))
    places = np.arange(len(table))
    axes.plot(table["over the best of ours"], places, "o", color="#D55E00", markersize=4)
    axes.axvline(1, color="#222222", linewidth=0.6)
    for place, name, ratio in zip(places, table["fastest peer"], table["over the best of ours"], strict=True):
        axes.text(ratio, place, f"   {name}", va="center", fontsize=6)
    axes.set_yticks(places, [shortened(graph) for graph in table.graph])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("time of the fastest peer over ours")
    return figure
