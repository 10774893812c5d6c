"""Residual against iteration, coloured by the bits read."""

import pandas as pd

from cpms.experiment.present import PALETTE, label

NEEDS = ["table2"]
SHOWN = ["web-Google-scc", "cnr-2000", "luxembourg_osm", "rgg_n_2_15_s0", "wiki-Vote", "pagerank-100000"]


def show(rows, out):
    import matplotlib.pyplot as plt

    rows = rows[(rows.storage == "cpms4") & (rows.status == "ok")].set_index("graph", drop=False)
    figure, axes = plt.subplots(2, 3, figsize=(7, 4), sharey=True)
    for panel, graph in zip(axes.flat, [g for g in SHOWN if g in rows.index], strict=False):
        history = pd.DataFrame(rows.loc[graph].history, columns=["residual", "bits", "mass", "seconds"])
        history["iteration"] = range(1, len(history) + 1)
        for bits, part in history.groupby("bits"):
            name = f"cpms4, {bits} bits"
            panel.semilogy(part.iteration, part.residual, ".", markersize=3, color=PALETTE[bits], label=name)
        for mantissa_bits in (4, 20, 36):
            style = {"color": "#bbbbbb", "linewidth": 0.6, "linestyle": "--", "zorder": 0}
            panel.axhline(10 * 2.0**-mantissa_bits, **style, label="10 / 2^m of m mantissa bits read")
        panel.set_title(label(rows.loc[graph]))
    for panel in axes[-1]:
        panel.set_xlabel("iteration")
    for panel in axes[:, 0]:
        panel.set_ylabel("residual (L1)")
    by_name = dict(zip(*reversed(axes.flat[0].get_legend_handles_labels()), strict=True))
    figure.legend(by_name.values(), by_name, loc="outside upper center", ncols=len(by_name), markerscale=2)
    out.figure(figure)
