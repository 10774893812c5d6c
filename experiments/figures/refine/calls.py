"""Whole calls of cpms.pagerank on a GPU and on processors: what they take besides the solve."""

import pandas as pd

from cpms.experiment.report.captions import spread
from cpms.experiment.report.output import label, shortened

NEEDS = ["gpu_calls"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    lines = []
    for _, cells in rows.groupby("graph", sort=False):
        line = {"graph": shortened(label(cells.iloc[0])), "nodes": cells.nodes.iloc[0], "edges": cells.edges.iloc[0]}
        for engine, solves in cells.groupby("engine", sort=False):
            parts = 1e3 * solves[["prepare_s", "solve_s", "certify_s"]]
            line |= {f"{engine} {part[:-2]} ms": parts[part].median() for part in parts}
            whole = parts.sum(axis=1)
            line |= {f"{engine} ms": whole.median(), f"{engine} spread, %": 100 * spread(whole)}
        lines.append(line | {"cpu over cuda": line.get("cpu ms", float("nan")) / line.get("cuda ms", float("nan"))})
    gpu = rows.gpu.iloc[0] if "gpu" in rows else "no GPU"
    out.table(
        pd.DataFrame(lines),
        best=dict.fromkeys(("cuda ms", "cpu ms"), "row least"),
        caption=f"Whole calls to 1e-10 on {gpu} and on {rows.threads.iloc[0]} threads of its machine, "
        f"medians of {len(rows[rows.graph == rows.graph.iloc[0]]) // rows.engine.nunique()} with their interquartile "
        "range: to arrange a graph that is in main memory, to solve and bring the ranks back, and to recompute the "
        "residual in float64 on processors",
    )
