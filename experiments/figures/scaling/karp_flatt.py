"""The Karp-Flatt metric: as Agrawal, Shendre and Goka print it, as it is defined, and of ours."""

import pandas as pd

from cpms.experiment.derived.karp_flatt import karp_flatt
from cpms.experiment.report import panels
from cpms.experiment.report.intervals import FEWEST, UNSEEN, interval_text, ratio_ends
from cpms.experiment.report.output import printed, shortened
from cpms.experiment.report.palette import NEUTRAL

NEEDS = ["scaling_cpu", "scaling_large_cpu", "scaling_gpu"]
LEAST_S = 0.1
"""Solves of one rank that take less are left out: there the start of a sweep is what is measured."""
PROCESSES = (2, 4, 8, 16, 20)
"""Numbers of processes of the report that are drawn; figure scaling has all."""
OWN = ["order", "group", "row", "samples"]
"""Columns that are of the figure alone."""
PRINTED, DEFINED = "as printed", "as defined"
MARKS = {
    PRINTED: {"color": NEUTRAL, "marker": "x", "linestyle": ""},
    DEFINED: panels.HOLLOW,
    "ours, plain loops": {**panels.HOLLOW, "marker": "s", "color": panels.colour(64)},
    "ours, compiled engine": {**panels.FILLED, "marker": "s", "color": panels.colour(64)},
    "ours, GPUs, power": {**panels.FILLED, "marker": "D", "color": panels.colour(64)},
    "ours, GPUs, refine": {**panels.FILLED, "marker": "D", "color": panels.colour(16)},
}
PROGRAMS = {
    "serial": "ours, plain loops",
    "cpu": "ours, compiled engine",
    "power": "ours, GPUs, power",
    "refine": "ours, GPUs, refine",
}
"""Of a result's products on processors, or of its method on GPUs."""


def show(rows, out):
    rows = rows[rows.status == "ok"]
    lines = sorted((line for _, row in rows.iterrows() for line in _lines(row)), key=lambda line: line["order"])
    table = pd.DataFrame([*_theirs(), *lines])
    out.table(
        table.drop(columns=["order", "group", "row", "samples"], errors="ignore")
        .replace({"graph": {"theirs": "Agrawal, Shendre and Goka's"}})
        .sort_values(["what", "graph", "ranks"]),
        caption="Speed-up over one rank and Karp-Flatt metric e, 0 for a linear speed-up and above 1 for a slowdown; "
        f"least and most: {interval_text(rows)}. As printed and as defined: Table 2 of Agrawal, Shendre and Goka, "
        "500,000 vertices, message passing, over their serial program and over their one process",
    )
    drawn = table[(table.graph != "theirs") | table.ranks.isin(PROCESSES)]
    few = [row for row in dict.fromkeys(drawn.row) if (drawn[drawn.row == row].samples < FEWEST).any()]
    ranges = f", in row {' and '.join(map(repr, few))} the range of fewer than {FEWEST} samples" if few else ""
    figure = _figure(drawn, out)
    out.figure(
        figure,
        caption="Karp-Flatt metric; lines at 0, a linear speed-up, and 1, above which more ranks are slower. "
        f"Theirs: {len(PROCESSES)} of the {len(printed('agrawal_table2')) - 1} rows of Agrawal, Shendre and Goka's "
        "Table 2 (500,000 vertices; all: figure scaling); as printed: over a program that takes half the time of their "
        "one process, and multiplied by 1 - 1/p where the definition divides; as defined: over one process. Ours, over "
        "one rank: uniformly random graphs on processors, by plain loops or engine cpu, none where one rank takes less "
        f"than {1e3 * LEAST_S:g} ms or was not run; a uniform and a weblike graph on GPUs, by power iteration in "
        f"float64 and refine in 16 bits. Lines: 95 % bootstrap intervals{ranges}{UNSEEN}",
    )


def _theirs():
    table = printed("agrawal_table2")
    alone = table.t_p_ms[table.p == 1].iloc[0]
    for line in table[table.p > 1].itertuples():
        shared = {"graph": "theirs", "ranks": line.p, "group": "theirs", "row": f"{line.p} processes"}
        yield {"what": PRINTED, "e": line.e, "speed-up": line.psi, **shared}
        speedup = alone / line.t_p_ms
        yield {"what": DEFINED, "e": karp_flatt(speedup, line.p), "speed-up": speedup, **shared}


def _lines(row):
    """Yield the metric of each number of ranks above one, against one rank of the same kind."""
    gpu = row.experiment == "scaling_gpu"
    if gpu and row.scaling != "strong":
        return
    key, alone = "method" if gpu else "local", {}
    for result in row.results:
        if result["ranks"] == 1 and result["engine"] != "serial":
            known = alone.setdefault(result[key], result)
            alone[result[key]] = min(known, result, key=lambda found: found["solve_s"])
    for result in row.results:
        one, ranks = alone.get(result.get(key)), result["ranks"]
        if one is None or ranks == 1 or (not gpu and one["solve_s"] < LEAST_S):
            continue
        name = shortened(result.get("graph_name") or row.graph_name)
        kind = name.split(",")[0]
        slowest, fastest = ratio_ends(one["solve_samples_s"], result["solve_samples_s"])
        yield {
            "what": PROGRAMS[result[key]],
            "graph": name,
            "ranks": ranks,
            "group": f"ours, {row.gpu}" if gpu else f"ours, {row.cpu}",
            "row": f"{ranks} GPUs, {kind}" if gpu else f"{ranks} ranks, {row.edges / 1e6:.2g}M edges",
            "order": (gpu, name if gpu else "", ranks if gpu else row.edges),
            "speed-up": one["solve_s"] / result["solve_s"],
            "samples": min(len(one["solve_samples_s"]), len(result["solve_samples_s"])),
            "least": karp_flatt(fastest, ranks),
            "most": karp_flatt(slowest, ranks),
            "e": karp_flatt(one["solve_s"] / result["solve_s"], ranks),
        }


def _figure(table, out):
    rows = list(dict.fromkeys(zip(table.group, table.row, strict=True)))
    names = []
    for place, (head, row) in enumerate(rows):
        names += [row] if place and rows[place - 1][0] == head else [f"{head}:", row]
    figure, (axes,) = panels.grid(out.width, 1, panels.rows_height(names, 0.18))
    for (head, name), group in table.groupby(["group", "row"]):
        first = names.index(f"{head}:")
        for place, (_, line) in enumerate(group.iterrows()):
            at, style = names.index(name, first) + panels.beside(place, len(group), 0.7), MARKS[line.what]
            axes.plot([line.least, line.most], [at, at], color=style["color"], linewidth=0.8, zorder=1)
            axes.plot(line.e, at, **{**style, "markersize": 3.5})
    for value in (0.0, 1.0):
        axes.axvline(value, color=NEUTRAL, linewidth=0.7, zorder=0)
    panels.named_rows(axes, names)
    for name, label in zip(names, axes.get_yticklabels(), strict=True):
        label.set_fontstyle("italic" if name.endswith(":") else "normal")
    axes.set_xlabel("Karp-Flatt metric (serial fraction)")
    panels.legend(figure, panels.key(lines={what: style for what, style in MARKS.items() if what in set(table.what)}))
    return figure
