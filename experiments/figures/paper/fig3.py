"""Figure 3: how entries are distributed over the rows of the adjacency matrix, that is out-degrees."""

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends
from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.palette import NEUTRAL
from cpms.experiment.report.stand_ins import in_order

NEEDS = ["table1"]
QUANTILES = {"0.25": "", "0.5": "median", "0.75": "", "0.99": "99 % of nodes", "1.0": "largest"}
BLACK = "#222222"
NOTHING = 0.5
"""Where degree 0 is drawn."""
BREAK = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0}, "clip_on": False}
STYLE = {
    "middle half": {"color": "#bbbbbb", "linewidth": 4.5, "solid_capstyle": "butt"},
    "median": {"color": BLACK, "marker": "|", "markersize": 7, "markeredgewidth": 1.6, "linestyle": ""},
    "99 % of nodes": {"color": BLACK, "marker": "x", "markersize": 3.5, "linestyle": ""},
    "largest": {"color": BLACK, "marker": "o", "markersize": 4.5, "markerfacecolor": "none", "linestyle": ""},
}


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([{"graph": label(row), **row.row_quantiles} for _, row in rows.iterrows()])
    table = table.set_index("graph").loc[in_order(table.graph)].reset_index()
    names = out.names(map(shortened, table.graph))
    out.figure(
        _figure(table, names, out),
        caption="Out-degrees of nodes, that is entries of a row of the adjacency matrix: a bar from the first to the "
        "third quartile, none where these are equal; a thick stroke at the median, a cross at 99 % and a circle at the "
        "largest, to which the thin line leads; left of the break: 0. The layouts of figure 1 have a row for the edges "
        "into a node: ELL pads to the largest in-degree, which is not drawn",
        alt=" ".join(
            ends(table.assign(graph=names), key, ["graph"], what, drawn="graphs")
            for key, what in (("1.0", "Largest out-degrees"), ("0.5", "Medians"))
        ),
        timed=False,
    )


def _figure(table, names, out):
    from matplotlib.ticker import NullFormatter

    figure, (axes,) = panels.grid(out.width, 1, panels.rows_height(names, 0.16))
    for place, line in enumerate(table.to_dict("records")):
        low, median, high, most, largest = (max(line[name], NOTHING) for name in QUANTILES)
        axes.plot([low, largest], [place, place], color=NEUTRAL, linewidth=0.7, zorder=1)
        axes.plot([low, high], [place, place], **STYLE["middle half"], zorder=2)
        for name, x in (("median", median), ("99 % of nodes", most), ("largest", largest)):
            axes.plot(x, place, **STYLE[name], zorder=3)
    panels.named_rows(axes, names)
    axes.set_xlim(0.8 * NOTHING, 2 * table["1.0"].max())
    axes.set_xscale("log")
    decades = range(int(np.log10(axes.get_xlim()[1])) + 1)
    axes.set_xticks([NOTHING, *(10**power for power in decades)], ["0", *(f"{10**power}" for power in decades)])
    axes.set_xticks([digit * 10**power for power in decades for digit in range(2, 10)], minor=True)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(0.8 * NOTHING, 2 * table["1.0"].max())
    axes.text(0.7, 0, "//", transform=axes.get_xaxis_transform(), ha="center", va="center", fontsize=7, **BREAK)
    axes.set_xlabel("out-degree of a node")
    panels.legend(figure, panels.key(lines=STYLE))
    return figure
