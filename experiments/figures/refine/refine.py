"""Method refine on a GPU: sweeps by the bits they read, and whole solves against float64 and libraries."""

from collections import Counter

import numpy as np
import pandas as pd

from cpms.experiment.report.output import PALETTE, label, printed, shortened, storage_of

NEEDS = ["gpu_refine"]
BESIDE = ["gpu_speedup", "table2"]
DAMPING = 0.85
WHOLE, ALONE = ", all nodes", ", bits alone"
COLOURS = {
    "auto": "#222222",
    "fp16": "#D55E00",
    "cpms4-nearest": "#E69F00",
    "e5m2": "#CC79A7",
    "fp32": "#999999",
    "fp16" + ALONE: "#0072B2",
}


def show(rows, out, beside):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row, printed("cugraph"))])
    if table.empty:
        out.leave_out("tables and figures", "no graph was solved by refine, and in float64 by engine cuda_fused")
        return
    gpu = rows.gpu.iloc[0]
    out.table(
        table,
        caption=f"Whole solves on {gpu}, medians, contestants in turn: full sweeps read 64 bits, low ones those of the "
        "storage ('auto': of that which the engine chooses), extrapolated, or keeping what rounding loses where each "
        "sweep leaves little, over the core alone where passes over the other nodes pay; 'all nodes' takes no "
        "passes, 'bits alone' does not extrapolate either; "
        "'error' is in L1 against a float64 solution at 1e-14, 'bound' what the residual recomputed in float64 allows; "
        "cuGraph's are of another run, "
        "its fp32 to 1e-6; 'over cuSPARSE' is over CSR, 'over CSR or COO' over the faster of the two",
    )
    out.table(_means(table), suffix="_means", caption="Geometric means over the graphs, and the worst graph")
    out.figure(_speedups(table), suffix="_speedup")
    out.figure(_sweeps(table, _by_bits(beside)), suffix="_sweeps")


def _by_bits(rows):
    """Return how many sweeps of power iteration with cpms4 read how many bits, by graph, on any engine."""
    found = {}
    for _, row in rows[(rows.status == "ok") & (rows.tol == 1e-10)].iterrows() if len(rows) else []:
        if row.experiment == "table2" and row.storage == "cpms4":
            found[shortened(label(row))] = {int(bits): count for bits, count in row.iterations_by_bits.items()}
        if row.experiment == "gpu_speedup":
            solved = [
                r for r in row.results if (r["engine"], storage_of(r)) == ("cuda", "cpms4") and r["status"] == "ok"
            ]
            found |= {shortened(label(row)): Counter(result["bits"]) for result in solved}
    return found


def _lines(row, cugraph):
    known = cugraph[cugraph.graph == row.graph]
    solved = [result for result in row.results if result["status"] == "ok"]
    powers = [result for result in solved if result.get("method", "power") == "power"]
    power = {result["engine"]: result for result in powers if result["layout"] != "coo"}
    if "cuda_fused" not in power:
        return
    libraries = [result["solve_s"] for result in powers if result["engine"] == "cusparse"]
    for result in solved:
        if result.get("method") != "refine":
            continue
        bits = np.array(result["bits"])
        yield {
            "graph": shortened(label(row)),
            "nodes": row.nodes,
            "edges": row.edges,
            "storage": result["storage"] + (ALONE if result.get("plain") else WHOLE if result.get("whole") else ""),
            "power": power["cuda_fused"]["iterations"],
            "full": int((bits == 64).sum()),
            "low": int((bits != 64).sum()),
            "low bits": int(bits.min()),
            "low %": 100 * float((bits != 64).mean()),
            "error": result.get("error_l1", np.nan),
            "bound": result.get("error_bound", result["residual_l1"] / (1 - DAMPING)),
            "solve ms": 1e3 * result["solve_s"],
            "fused fp64 ms": 1e3 * power["cuda_fused"]["solve_s"],
            "over fused fp64": power["cuda_fused"]["solve_s"] / result["solve_s"],
            "over best own fp64": min(p["solve_s"] for name, p in power.items() if name != "cusparse")
            / result["solve_s"],
            "over cuSPARSE": power["cusparse"]["solve_s"] / result["solve_s"] if "cusparse" in power else np.nan,
            "over CSR or COO": min(libraries, default=np.nan) / result["solve_s"],
            "over cuGraph fp64": known["fp64_1e-10_ms"].iloc[0] / (1e3 * result["solve_s"]) if len(known) else np.nan,
            "over cuGraph fp32": known["fp32_1e-6_ms"].iloc[0] / (1e3 * result["solve_s"]) if len(known) else np.nan,
        }


def _means(table):
    columns = [column for column in table if column.startswith("over ")]
    grouped = table.groupby("storage", sort=False)[columns]
    means = grouped.agg(lambda ratios: float(np.exp(np.log(ratios.dropna()).mean())))
    worst = grouped.min().rename(columns={column: f"least {column}" for column in columns})
    return means.join(worst).assign(graphs=table.groupby("storage", sort=False).size()).reset_index()


def _speedups(table):
    import matplotlib.pyplot as plt

    graphs = list(dict.fromkeys(table.graph))
    figure, panels = plt.subplots(1, 2, figsize=(7, 4.2), sharey=True)
    for panel, column in zip(panels, ("over fused fp64", "over cuSPARSE"), strict=True):
        for place, (storage, colour) in enumerate(COLOURS.items()):
            part = table[table.storage == storage].set_index("graph").reindex(graphs)
            panel.plot(
                part[column], np.arange(len(graphs)) + 0.13 * (place - 2.5), "o", ms=3, color=colour, label=storage
            )
        panel.axvline(1, color="#222222", linewidth=0.6)
        panel.set(xscale="log", xlabel=f"times faster {column}")
        panel.set_xticks([0.7, 1, 2, 5, 10] if "fused" in column else [1, 2, 5, 10, 30])
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_formatter("")
    panels[0].set_yticks(range(len(graphs)), graphs)
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=6)
    return figure


def _sweeps(table, paper):
    """Draw sweeps by bits; `paper` holds those of power iteration with cpms4, by the CPMS paper's rule."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    graphs = list(dict.fromkeys(table.graph))
    figure, panels = plt.subplots(1, 5, figsize=(7.5, 3.6), sharey=True, sharex=True)
    places = np.arange(len(graphs))
    power = table[table.storage == "fp16" + ALONE].set_index("graph").reindex(graphs)
    panels[0].barh(places, power.power, color=PALETTE[64])
    panels[0].set_title("power, fp64", fontsize=8)
    begin = np.zeros(len(graphs))
    for bits in (16, 32, 48, 64):
        sweeps = np.array([paper.get(graph, {}).get(bits, 0) for graph in graphs])
        panels[1].barh(places, sweeps, left=begin, color=PALETTE[bits])
        begin += sweeps
    panels[1].set_title("power, cpms4", fontsize=8)
    for panel, storage in zip(panels[2:], ("fp16", "cpms4-nearest", "e5m2"), strict=True):
        part = table[table.storage == storage + ALONE].set_index("graph").reindex(graphs)
        panel.barh(places, part.low, color=PALETTE[8 if storage == "e5m2" else 16])
        panel.barh(places, part.full, left=part.low, color=PALETTE[64])
        panel.set_title(f"refine, {storage}", fontsize=8)
    panels[0].set_yticks(places, graphs)
    panels[0].invert_yaxis()
    legend = [Patch(color=PALETTE[bits], label=f"{bits} bits") for bits in (8, 16, 32, 48, 64)]
    figure.legend(handles=legend, loc="outside upper center", ncols=5)
    figure.supxlabel(
        "sweeps over all nodes without extrapolation; those of cpms4 are rows of table2 and gpu_speedup", fontsize=8
    )
    return figure
