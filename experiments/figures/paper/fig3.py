"""Figure 3: how entries are distributed over the rows of the adjacency matrix, that is out-degrees."""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends
from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.palette import NEUTRAL
from cpms.experiment.report.stand_ins import STAND_INS, in_order

NEEDS = ["table1"]
QUANTILES = {"0.25": "", "0.5": "median", "0.75": "", "0.99": "99 % of rows", "1.0": "longest"}
BLACK = "#222222"
STYLE = {
    "middle half": {"color": "#bbbbbb", "linewidth": 4.5, "solid_capstyle": "butt"},
    "median": {"color": BLACK, "marker": "|", "markersize": 7, "markeredgewidth": 1.6, "linestyle": ""},
    "99 % of rows": {"color": BLACK, "marker": "x", "markersize": 3.5, "linestyle": ""},
    "longest": {"color": BLACK, "marker": ".", "markersize": 5, "linestyle": ""},
}


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([{"graph": label(row), **row.row_quantiles} for _, row in rows.iterrows()])
    table = table.set_index("graph").loc[in_order(table.graph)].reset_index()
    out.figure(
        _figure(table, out),
        caption="Out-degrees (rows of the adjacency matrix): a bar from the first to the third quartile, a line at the "
        f"median, a cross at 99 % and a dot at the longest row; 0 is drawn at 0.5. {STAND_INS}",
        alt=ends(table, "1.0", ["graph"], "Largest out-degrees"),
        timed=False,
    )


def _figure(table, out):
    names = out.names(map(shortened, table.graph))
    figure, (axes,) = panels.grid(out.width, 1, panels.rows_height(names, 0.16))
    for place, line in enumerate(table.to_dict("records")):
        low, median, high, most, longest = (max(line[name], 0.5) for name in QUANTILES)
        axes.plot([low, longest], [place, place], color=NEUTRAL, linewidth=0.7, zorder=1)
        axes.plot([low / 1.04, high * 1.04], [place, place], **STYLE["middle half"], zorder=2)
        for name, x in (("median", median), ("99 % of rows", most), ("longest", longest)):
            axes.plot(x, place, **STYLE[name], zorder=3)
    panels.named_rows(axes, names)
    axes.set_xlim(0.4, 2 * table["1.0"].max())
    panels.logarithmic(axes)
    axes.set_xlabel("out-degree (entries of a row)")
    panels.legend(figure, panels.key(lines=STYLE))
    return figure
