"""Figure 3: how entries are distributed over the rows of the stored matrix."""

import numpy as np

from cpms.experiment.report.output import label

NEEDS = ["table1"]
QUANTILES = ["0.25", "0.5", "0.75", "0.99", "1.0"]


def show(rows, out):
    import matplotlib.pyplot as plt

    rows = rows[rows.status == "ok"]
    figure, axes = plt.subplots(figsize=(7, 0.8 + 0.2 * len(rows)))
    places = np.arange(len(rows))[::-1]
    for place, (_, row) in zip(places, rows.iterrows(), strict=True):
        low, median, high, most, longest = (row.row_quantiles[q] for q in QUANTILES)
        low, median, high = (max(quantile, 0.5) for quantile in (low, median, high))
        axes.plot([low, longest], [place, place], color="#999999", linewidth=0.7, zorder=1)
        axes.barh(place, max(high - low, 0.08), left=low, height=0.55, color="#56B4E9", zorder=2)
        axes.plot([median] * 2, [place - 0.3, place + 0.3], color="#0072B2", linewidth=1.6, zorder=3)
        axes.plot(most, place, "|", color="#D55E00", markersize=7, zorder=3)
        axes.plot(longest, place, ".", color="#222222", markersize=4, zorder=3)
    axes.set_xscale("log")
    axes.set_xlim(left=0.4)
    axes.set_yticks(places, [label(row) for _, row in rows.iterrows()])
    axes.set_xlabel("entries a row (box: middle half, line: median, tick: 99 %, dot: longest; 0 drawn at 0.5)")
    out.figure(figure)
