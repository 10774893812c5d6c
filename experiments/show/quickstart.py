"""The quick start: who leads, iterations by precision, and the residual on its way down."""

import pandas as pd

from cpms.experiment.present import PALETTE, label

NEEDS = ["quickstart"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    double = rows[rows.storage == "fp64"]
    finest = (rows if double.empty else double).iloc[0]
    top = pd.DataFrame(finest.top[:10], columns=["node", "rank"])
    top.insert(0, "place", range(1, len(top) + 1))
    out.table(top, suffix="_ranking", caption=f"Highest ranks of {label(finest)}")
    out.table(_by_precision(rows), caption="Iterations by bits read, and the error certified in float64")
    if "history" in rows:
        out.figure(_on_their_way(rows))


def _on_their_way(rows):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(rows), figsize=(7, 2.3), sharey=True, squeeze=False)
    for panel, (_, row) in zip(axes[0], rows.iterrows(), strict=True):
        history = pd.DataFrame(row.history, columns=["residual", "bits", "mass", "seconds"])
        history["iteration"] = range(1, len(history) + 1)
        for bits, part in history.groupby("bits"):
            panel.semilogy(part.iteration, part.residual, ".", markersize=3, color=PALETTE[bits], label=f"{bits} bits")
        panel.set(title=row.storage, xlabel="iteration")
        panel.legend()
    axes[0, 0].set_ylabel("residual (L1)")
    return figure


def _by_precision(rows):
    bits = sorted({int(b) for counts in rows.iterations_by_bits for b in counts})
    table = pd.DataFrame({"graph": [label(row) for _, row in rows.iterrows()], "storage": rows.storage.tolist()})
    for b in bits:
        table[f"{b} bits"] = [counts.get(str(b), 0) for counts in rows.iterations_by_bits]
    table["total"] = rows.iterations.tolist()
    table["error bound"] = rows.error_bound.tolist()
    if "error_l1" in rows:
        table["true error"] = rows.error_l1.tolist()
    return table
