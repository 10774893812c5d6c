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
APART = {"ours, processors": 0.7, "ours, GPUs, float64": 1.12, "ours, GPUs, 16 bits": 1.22}
"""Factors by which marks of 2 ranks of ours are moved, so that they lie beside each other."""
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
        f"Processors: {most} ranks, as many as the machine has cores; marks on the grey band are of 2 ranks, drawn "
        "beside each other",
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
    figure, (axes,) = panels.grid(out.width, 1, 2.5)
    beside = []
    for what, style in STYLE.items():
        part = table[table.what == what]
        groups = sorted((group for _, group in part.groupby("graph", sort=False)), key=lambda group: group.e.iloc[0])
        for k, group in enumerate(groups):
            abreast = 1.055 ** (k - (len(groups) - 1) / 2) if what == "ours, processors" else 1.0
            # Marks of 2 ranks are many, and lie beside each other.
            at = group.ranks * np.where(group.ranks == 2, APART.get(what, 1.0) * abreast, 1.0)
            known = group.least.notna().all()
            error = [np.maximum(group.e - group.least, 0), np.maximum(group.most - group.e, 0)] if known else None
            if what == "ours, processors":
                beside.append(at.iloc[0])
            axes.errorbar(at, group.e, yerr=error, elinewidth=0.8, linewidth=0.8, **style)
    if beside:
        axes.axvspan(min(beside) / 1.06, 2 * APART["ours, GPUs, 16 bits"] * 1.06, color="#eeeeee", zorder=-1)
    axes.axhline(1.0, color=NEUTRAL, linewidth=0.7, zorder=0)
    axes.axhline(0.0, color=NEUTRAL, linewidth=0.7, zorder=0)
    axes.set_ylim(min(-0.2, float(table.least.min()) - 0.05), 3.0)
    axes.set_xscale("log", base=2)
    axes.set_xticks([2, 4, 8, 16], ["2", "4", "8", "16"])
    axes.minorticks_off()
    axes.set_xlabel("ranks")
    axes.set_ylabel("Karp-Flatt metric")
    counts = table.groupby("what").ranks.max()
    named = {
        f"{what}, {counts[what]} ranks" if what == "ours, processors" else what: style
        for what, style in STYLE.items()
        if what in counts
    }
    panels.legend(figure, panels.key(lines=named))
    return figure
