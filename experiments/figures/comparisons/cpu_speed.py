"""Float64 power iteration on two threads against a SciPy loop, repetition by repetition."""

import numpy as np
import pandas as pd

from cpms.experiment.report.captions import spread, threads_of_all

NEEDS = ["cpu_speed"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    lines = []
    for graph, cells in rows.groupby("graph", sort=False):
        seconds = cells.pivot_table(index="repetition", columns=["engine", "layout"], values="solve_s")
        baseline = seconds.get(("scipy", "csr"), np.nan)
        for engine, layout in seconds.columns:
            taken = seconds[engine, layout]
            ratio = baseline / taken
            lines.append(
                {
                    "graph": graph,
                    "engine": engine,
                    "layout": layout,
                    "iterations": int(cells[(cells.engine == engine) & (cells.layout == layout)].iterations.iloc[0]),
                    "median, s": taken.median(),
                    "least, s": taken.min(),
                    "most, s": taken.max(),
                    "spread, %": 100 * spread(taken.dropna()),
                    "times SciPy (median of pairs)": ratio.dropna().median(),
                    "least pair": ratio.min(),
                    "most pair": ratio.max(),
                }
            )
    out.table(
        pd.DataFrame(lines),
        caption="Whole float64 solves to 1e-10, and how many times faster than a SciPy loop "
        f"beside them, repetition by repetition. SciPy runs on one thread, engine cpu on {threads_of_all(rows)}",
        best={"median, s": "least by graph"},
    )
