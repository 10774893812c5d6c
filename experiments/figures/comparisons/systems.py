"""Every engine on every graph: time of a sweep and to the tolerance, bytes, edges a second, verified error."""

import numpy as np
import pandas as pd

from cpms.experiment.report.output import label, shortened

NEEDS = ["gpu_systems", "systems_cpu"]
DAMPING = 0.85
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#999999", "#222222"]
MARKERS = "os^vD<>PX"


def show(rows, out):
    rows = rows[rows.status == "ok"].drop_duplicates(["experiment", "graph"], keep="last")
    shown = []
    for experiment in NEEDS:
        here = rows[rows.experiment == experiment]
        if not here.empty:
            shown.append((_machine(here.iloc[0]), _tables(here, out)))
    out.figure(_figure(shown))


def _tables(rows, out):
    """Write the tables of a machine, and return the long one."""
    machine, suffix = _machine(rows.iloc[0]), "_gpu" if rows.experiment.iloc[0].startswith("gpu") else "_cpu"
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    systems = dict.fromkeys(_system(row, result) for _, row in rows.iterrows() for result in row.results)
    times = table.pivot_table(index="system", columns="graph", values="solve ms", aggfunc="first")
    times = times.reindex(index=[name for name in systems if name in times.index], columns=table.graph.unique())
    times["over the fastest"] = _means(table)
    out.table(
        times.reset_index(),
        suffix=f"{suffix}_times",
        caption=f"Milliseconds to {rows.tol.iloc[0]:g}, or to what a system's name says, on {machine}, medians of "
        "solves in turn; last, the time over that of the fastest to the former, geometric mean of the graphs it solves",
    )
    out.table(
        table,
        suffix=suffix,
        caption=f"Every engine on {machine}: a sweep is a solve's time over its sweeps, GTEPS its edges a second in "
        "billions; memory is of all that the engine holds besides the graph it was given, unknown of ranks; error is "
        "in L1 against a float64 solution at "
        f"{rows.reference_tol.iloc[0]:g}, bound what the residual recomputed in float64 allows, within whether it "
        "does; top 20 is the share of the solution's that is found",
    )
    refused = pd.DataFrame([line for _, row in rows.iterrows() for line in _refused(row)])
    if len(refused):
        grouped = refused.groupby(["system", "reason"], sort=False).graph.agg(", ".join).reset_index()
        out.table(grouped, suffix=f"{suffix}_refused", caption=f"Left out on {machine}, and why")
    return table


def _lines(row):
    for result in row.results:
        if result["status"] != "ok":
            continue
        sweep_s = result["solve_s"] / result["iterations"]
        error, bound = result.get("error_l1", np.nan), result.get("error_bound", np.nan)
        yield {
            "graph": shortened(label(row)),
            "system": _system(row, result),
            "ends": result["solver_status"],
            "sweeps": result["iterations"],
            "sweep ms": 1e3 * sweep_s,
            "GTEPS": row.edges / sweep_s / 1e9,
            "solve ms": 1e3 * result["solve_s"],
            "matrix MB": result["matrix_bytes"] / 1e6,
            "memory MB": result.get("held_bytes", np.nan) / 1e6,
            "error": error,
            "bound": bound,
            "within": bool(error <= bound + row.reference_tol / (1 - DAMPING)),
            "top 20": result.get("top20_overlap", np.nan),
        }


def _refused(row):
    for result in row.results:
        if result["status"] != "ok":
            yield {"system": _system(row, result), "reason": result["reason"], "graph": shortened(label(row))}


def _system(row, result):
    """Return a contestant's name: engine, layout, and what else sets it apart."""
    words = [result["engine"], result["layout"] or row.layout]
    if result.get("method") == "refine":
        words.append("refine")
    if result["storage"] != "fp64":
        words.append(result["storage"])
    if result.get("whole"):
        words.append("all nodes")
    if "ranks" in result:
        words.append(f"{result['ranks']} ranks")
    if "device" in result:
        words.append(f"on {result['device']}")
    if "tol" in result:
        words.append(f"to {result['tol']:g}")
    return " ".join(words)


def _machine(row):
    if row.experiment.startswith("gpu"):
        return row.gpu
    return f"{row.threads} threads ({row.cpu})"


def _means(table):
    """Return how many times a system takes the time of the fastest that goes to the experiment's tolerance."""
    # Tolerances of their own are in the names of those that have one.
    fastest = table[~table.system.str.contains(" to ")].groupby("graph")["solve ms"].min()
    ratios = table["solve ms"] / table.graph.map(fastest)
    return np.exp(np.log(ratios).groupby(table.system).mean())


def _style(place):
    """Return a colour and a marker that no other of the first 81 places has both of."""
    turn, colour = divmod(place, len(COLOURS))
    return {"color": COLOURS[colour], "marker": MARKERS[(colour + turn) % len(MARKERS)], "linestyle": ""}


def _figure(shown):
    import matplotlib.pyplot as plt

    most = max(table.system.nunique() for _, table in shown)
    figure, panels = plt.subplots(1, len(shown), figsize=(4.2 * len(shown), 0.17 * most + 1.4), squeeze=False)
    graphs = list(dict.fromkeys(graph for _, table in shown for graph in table.graph))
    for panel, (machine, table) in zip(panels[0], shown, strict=True):
        systems = list(_means(table).sort_values().index)
        for place, graph in enumerate(graphs):
            part = table[table.graph == graph].set_index("system").reindex(systems)["solve ms"].dropna()
            panel.plot(part, [systems.index(system) for system in part.index], ms=3, label=graph, **_style(place))
        panel.set_yticks(range(len(systems)), systems, fontsize=6)
        panel.invert_yaxis()
        panel.grid(axis="y", linewidth=0.2)
        panel.set(xscale="log", xlabel="milliseconds to the tolerance")
        panel.set_title(machine, fontsize=8)
    handles, names = max((panel.get_legend_handles_labels() for panel in panels[0]), key=lambda found: len(found[1]))
    figure.legend(handles, names, loc="outside lower center", ncols=3)
    return figure
