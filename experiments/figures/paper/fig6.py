"""Figure 6: whole solves, against float64 in the same kernels and against cuSPARSE with cuBLAS."""

import numpy as np
import pandas as pd

from cpms.experiment.report.output import label, printed, storage_of

NEEDS = ["gpu_speedup", "gpu_speedup_ell"]
COLOURS = {"cpms2": "#E69F00", "cpms2 to 32 bits": "#F5D08A", "cpms4": "#D55E00", "cpms4 to 32 bits": "#F2A983"}


def show(rows, out):
    import matplotlib.pyplot as plt

    rows = rows[rows.status == "ok"]
    paper = printed("v100").set_index("graph")
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row, paper)])
    out.table(table, caption=f"Whole solves on {rows.gpu.iloc[0]}, medians; the V100 columns are the authors' timings")
    out.table(_means(table), suffix="_means", caption="Geometric means over the graphs")
    graphs = list(dict.fromkeys(table.graph))
    drawn = table[(table.engine == "cuda") & table.storage.isin(COLOURS) & table["over own fp64"].notna()]
    drawn = drawn[drawn.tol == (1e-10 if (drawn.tol == 1e-10).any() else drawn.tol.min())]
    layouts = [layout for layout in ("csr", "ell") if (drawn.layout == layout).any()]
    if not layouts:
        out.leave_out("figure fig6", f"no graph was solved by engine cuda in fp64 and in one of {', '.join(COLOURS)}")
        return
    figure, axes = plt.subplots(1, len(layouts), figsize=(7, 4), sharey=True, squeeze=False)
    axes = axes[0]
    for panel, layout in zip(axes, layouts, strict=True):
        part = drawn[drawn.layout == layout]
        for place, (storage, colour) in enumerate(COLOURS.items()):
            line = part[part.storage == storage].set_index("graph").reindex(graphs)
            at = np.arange(len(graphs)) + 0.2 * (place - 1.5)
            panel.barh(at, line["over own fp64"], height=0.18, color=colour, label=storage)
        panel.axvline(1, color="#222222", linewidth=0.6)
        panel.set_title(layout)
    axes[0].set_yticks(range(len(graphs)), graphs)
    axes[0].invert_yaxis()
    figure.supxlabel("times faster than float64, same kernels", fontsize=8)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=4)
    out.figure(figure)


def _lines(row, paper):
    solved = [result for result in row.results if result["status"] == "ok"]
    own = {result["engine"]: result["solve_s"] for result in solved if result["storage"] == "fp64"}
    for result in solved:
        yield {
            "graph": label(row),
            "layout": row.layout,
            "tol": row.tol,
            "engine": result["engine"],
            "storage": storage_of(result),
            "iterations": result["iterations"],
            "solve ms": 1e3 * result["solve_s"],
            "over own fp64": own.get(result["engine"], np.nan) / result["solve_s"],
            "over cuSPARSE": own["cusparse"] / result["solve_s"] if "cusparse" in own else np.nan,
            "V100 over fp64": _on_a_v100(row, result, paper),
        }


def _on_a_v100(row, result, paper):
    """Return the authors' ratio, which they print for whole solves in CSR to 1e-10."""
    key = f"total_{result['storage']}_ms"
    printed_there = row.layout == "csr" and row.tol == 1e-10 and result.get("most_read") is None
    if not printed_there or row.stand_in_for not in paper.index or key not in paper:
        return np.nan
    known = paper.loc[row.stand_in_for]
    return known["total_fp64_ms"] / known[key]


def _means(table):
    table = table.assign(**{c: np.log(table[c]) for c in ("over own fp64", "over cuSPARSE", "V100 over fp64")})
    grouped = table.groupby(["layout", "tol", "engine", "storage"], sort=False)
    means = np.exp(grouped[["over own fp64", "over cuSPARSE", "V100 over fp64"]].mean())
    return means.assign(graphs=grouped.size()).reset_index()
