"""Regret of auto: bytes that its choice reads over those of the best fixed choice, by matrix."""

import pandas as pd

NEEDS = ["regret"]
ALLOWED = 1.15


def show(rows, out):
    import matplotlib.pyplot as plt

    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([_line(row) for _, row in rows.iterrows()]).sort_values("regret")
    out.table(table, caption="What auto chooses beside the best fixed choice, by bytes read")
    within = int((table.regret <= ALLOWED).sum())
    summary = [{"matrices": len(table), "within 15 %": within, "worst": table.regret.max()}]
    out.table(pd.DataFrame(summary), suffix="_summary", caption="Regret of auto by bytes read")
    figure, axis = plt.subplots(figsize=(4.2, 2.6))
    axis.step(range(1, len(table) + 1), table.regret, where="mid")
    axis.axhline(ALLOWED, color="grey", linewidth=0.8)
    axis.set_xlabel("matrices, by regret")
    axis.set_ylabel("bytes over the best choice's")
    out.figure(figure)


def _line(row):
    auto, fixed = row.ways_found[0], [way for way in row.ways_found[1:] if way["status"] == "CONVERGED"]
    best = min(fixed, key=lambda way: way["bytes_read"], default=auto)
    solved = auto["status"] == "CONVERGED"
    return {
        "matrix": row.graph,
        "auto": f"{auto['used']} {' '.join(map(str, auto['iterations_by_bits']))}",
        "best": f"{best['method']} {' '.join(best['vectors'])}",
        "auto status": auto["status"],
        "auto MB": auto["bytes_read"] / 1e6,
        "best MB": best["bytes_read"] / 1e6,
        "regret": auto["bytes_read"] / best["bytes_read"] if solved or not fixed else float("inf"),
    }
