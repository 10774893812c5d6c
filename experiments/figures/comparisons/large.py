"""Large random graphs on one GPU beside the times that Agrawal, Shendre and Goka print for graphs of that size."""

import pandas as pd

from cpms.experiment.report.captions import spread
from cpms.experiment.report.output import printed

NEEDS = ["gpu_large", "gpu_large_refine"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    paper = printed("agrawal_table1")
    lines = []
    for (graph, method), cells in rows.groupby(["graph_name", "method"], sort=False):
        theirs = paper[paper.nodes == cells.nodes.iloc[0]].reindex(range(len(paper))).bfill().iloc[0]
        whole_s = cells.prepare_s + cells.solve_s
        lines.append(
            {
                "graph": graph,
                "method": method,
                "storage": cells.storage.iloc[0],
                "iterations": int(cells.iterations.iloc[0]),
                "residual": cells.residual_l1.max(),
                "prepare, s": cells.prepare_s.median(),
                "sweeps, s": cells.seconds_by_bits_s.map(lambda by_bits: sum(by_bits.values())).median(),
                "solve, s": cells.solve_s.median(),
                "prepare and solve, s": whole_s.median(),
                "spread, %": 100 * spread(whole_s),
                "theirs, CUDA, s": theirs.cuda_ms / 1e3,
                "theirs, serial, s": theirs.serial_ms / 1e3,
                "times their CUDA": theirs.cuda_ms / 1e3 / whole_s.median(),
            }
        )
    out.table(
        pd.DataFrame(lines).sort_values(["graph", "method"]),
        best={"prepare and solve, s": "least by graph"},
        caption=f"Large random graphs on {rows.gpu.iloc[0]} to 1e-10, medians; a solve brings ranks to main memory",
    )
