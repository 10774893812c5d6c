"""The Karp-Flatt metric over ranks: as Agrawal, Shendre and Goka print it, as it is defined, and of ours."""

import numpy as np
import pandas as pd

from cpms.experiment.karp_flatt import karp_flatt
from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends
from cpms.experiment.report.output import printed, shortened
from cpms.experiment.report.palette import NEUTRAL

NEEDS = ["scaling_cpu", "scaling_large_cpu", "scaling_gpu"]
STYLE = {
    "as printed": {"color": NEUTRAL, "marker": "x", "linestyle": "--", "markersize": 3.5},
    "defined, over one process": {
        "color": NEUTRAL,
        "marker": "o",
        "linestyle": "-",
        "markersize": 3,
        "markerfacecolor": "white",
    },
    "ours, processors": {"color": panels.colour(64), "marker": "s", "linestyle": "", "markersize": 3, "mfc": "white"},
    "ours, GPUs, float64": {"color": panels.colour(64), "marker": "D", "linestyle": "-", "markersize": 3.5},
    "ours, GPUs, 16 bits": {"color": panels.colour(16), "marker": "D", "linestyle": "-", "markersize": 3.5},
}
_ABREAST = 0.16
"""The distance of marks of 2 ranks of one kind, where that of kinds is 1."""
_BESIDE = {"ours, GPUs, float64": 0.96, "ours, GPUs, 16 bits": 1.04}
"""Factors by which marks of more ranks are moved, so that none hides another."""
LEAST_S = 0.1
"""Solves of one rank that take less are left out: there the start of a sweep is what is measured."""


def show(rows, out):
    rows = rows[rows.status == "ok"]
    lines = [line for _, row in rows.iterrows() for line in _lines(row)]
    table = pd.DataFrame([*_theirs(), *lines], columns=["what", "graph", "ranks", "speed-up", "least", "most", "e"])
    most = max((line["ranks"] for line in lines if line["what"] == "ours, processors"), default=0)
    out.table(
        table.sort_values(["what", "graph", "ranks"]),
        caption="Speed-up over one rank and Karp-Flatt metric e, 0 for a linear speed-up and above 1 for a slowdown; "
        "least and most: of the samples. Theirs: 500,000 vertices, message passing, against one process",
    )
    out.figure(
        _figure(table, out),
        caption="Karp-Flatt metric of Agrawal, Shendre and Goka's Table 2 as printed, which multiplies where it should "
        "divide; as it is defined, of their speed-ups over one process of theirs (figure scaling has those over their "
        "serial program, too); and of ours over one rank. Bars: from least to most of the samples. Ours are uniformly "
        f"random graphs of their sizes, and a web of 52M edges; a rank alone took {1e3 * LEAST_S:g} ms or more. "
        f"Processors: {most} ranks, as many as the machine has cores; marks of 2 ranks lie beside each other in "
        "a panel of their own",
        alt=ends(table[table.what != "as printed"], "e", ["what", "graph", "ranks"], "Karp-Flatt metric"),
    )


def _theirs():
    table = printed("agrawal_table2")
    alone = table.t_p_ms[table.p == 1].iloc[0]
    for line in table[table.p > 1].itertuples():
        shared = {"graph": "theirs", "ranks": line.p}
        yield {"what": "as printed", "e": line.e, "speed-up": line.psi, **shared}
        yield {
            "what": "defined, over one process",
            "e": karp_flatt(alone / line.t_p_ms, line.p),
            "speed-up": alone / line.t_p_ms,
            **shared,
        }


def _lines(row):
    """Yield the metric of each number of ranks above one, against one rank of the same kind."""
    gpu = row.experiment == "scaling_gpu"
    if gpu and row.scaling != "strong":
        return
    alone = {}
    for result in row.results:
        if result["ranks"] == 1 and result["engine"] != "serial":
            key = result["method"] if gpu else result["local"]
            known = alone.setdefault(key, result)
            alone[key] = min(known, result, key=lambda found: found["solve_s"])
    for result in row.results:
        one = alone.get(result.get("method") if gpu else result.get("local"))
        if one is None or result["ranks"] == 1 or (not gpu and one["solve_s"] < LEAST_S):
            continue
        what = "ours, processors"
        if gpu:
            what = "ours, GPUs, 16 bits" if result["method"] == "refine" else "ours, GPUs, float64"
        speedup, ranks = one["solve_s"] / result["solve_s"], result["ranks"]
        ends_of = [karp_flatt(one["solve_s"] / sample, ranks) for sample in result["solve_samples_s"]]
        yield {
            "what": what,
            "graph": shortened(result.get("graph_name") or row.graph_name),
            "ranks": ranks,
            "speed-up": speedup,
            "least": min(ends_of),
            "most": max(ends_of),
            "e": karp_flatt(speedup, ranks),
        }


def _figure(table, out):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(out.width, 2.7))
    two, more = figure.subplots(1, 2, sharey=True, width_ratios=[2, 3])
    for what, style in STYLE.items():
        part = table[table.what == what]
        groups = sorted((group for _, group in part.groupby("graph", sort=False)), key=lambda group: group.e.iloc[0])
        for place, group in enumerate(groups):
            apart = list(STYLE).index(what) + (place - (len(groups) - 1) / 2) * _ABREAST
            for axes, line in ((two, group[group.ranks == 2]), (more, group[group.ranks > 2])):
                known = line.least.notna().all()
                error = [np.maximum(line.e - line.least, 0), np.maximum(line.most - line.e, 0)] if known else None
                at = line.ranks * 0 + apart if axes is two else line.ranks * _BESIDE.get(what, 1.0)
                axes.errorbar(at, line.e, yerr=error, elinewidth=0.8, linewidth=0.8, **style)
    for axes in (two, more):
        axes.axhline(1.0, color=NEUTRAL, linewidth=0.7, zorder=0)
        axes.axhline(0.0, color=NEUTRAL, linewidth=0.7, zorder=0)
    two.set_ylim(min(-0.2, float(table.least.min()) - 0.05), 3.0)
    two.set_xlim(-0.7, len(STYLE) - 0.3)
    two.set_xticks([])
    two.set_xlabel("2 ranks")
    more.set_xscale("log", base=2)
    more.set_xticks([4, 8, 16], ["4", "8", "16"])
    more.minorticks_off()
    more.set_xlabel("ranks")
    two.set_ylabel("Karp-Flatt metric")
    counts = table.groupby("what").ranks.max()
    named = {
        f"{what}, {counts[what]} ranks" if what == "ours, processors" else what: style
        for what, style in STYLE.items()
        if what in counts
    }
    panels.legend(figure, panels.key(lines=named))
    return figure
