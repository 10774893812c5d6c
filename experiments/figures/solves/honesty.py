"""Honesty: answers called converged, and those of them whose residual is above the tolerance, by solver."""

import pandas as pd

NEEDS = ["honesty"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    total = {}
    for counts in rows.counts:
        for name, found in counts.items():
            line = total.setdefault(name, {"converged": 0, "wrong": 0, "ties": 0, "worst": 0.0})
            for key in ("converged", "wrong", "ties"):
                line[key] += found[key]
            line["worst"] = max(line["worst"], found["worst"])
    table = pd.DataFrame([{"solver": name, "systems": rows.systems.sum(), **line} for name, line in total.items()])
    out.table(table, caption="Answers called converged, and how many of them are not; worst residual over tolerance")
