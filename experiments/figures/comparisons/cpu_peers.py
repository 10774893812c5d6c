"""Whole solves on two threads: ours against other programs at the same verified error."""

import numpy as np
import pandas as pd

from cpms.experiment.report.intervals import PREPARED, interval_text, means_line, ratio_ends
from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.speedup_figures import alone, peers_details, peers_figure, threads_of

NEEDS = ["cpu_peers"]
LOOP = "Gauss-Seidel"
"""The peer that is a loop of our own."""
OURS = {"refine auto": "o", "fastest of ours": "D"}
AGAINST = {"": f"peers, our {LOOP} loop among them", " alone": "other programs alone"}


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([_line(row) for _, row in rows.iterrows()])
    threads, cpu = rows.threads.iloc[0], rows.cpu.iloc[0]
    what = f"Whole solves on {threads} threads ({cpu})"
    solved = [name for name in table if (table[name].dtype == float) and not name.startswith("over ")]
    out.table(
        table.rename(columns={name: f"{name}, ms" for name in solved}),
        caption=f"{what}, medians of solves in turn, each at the loosest tolerance that keeps an error of "
        f"{rows.error.iloc[0]:g} in L1; bold: the fastest of a graph; alone: other programs "
        f"alone, without our {LOOP} loop. {threads_of(rows)}",
        best={f"{name}, ms": "row least" for name in solved},
    )
    out.table(
        _means(table),
        suffix="_means",
        caption="Median time of the fastest peer over ours, over the graphs; low and high: 95 % bootstrap intervals. "
        f"{threads_of(rows)}. The best of ours is chosen for each graph after measuring",
    )
    out.table(
        peers_details(rows, "solve", "solve ms", {"build s": "build_s"}, ["variant", "iterations_by_bits"]),
        suffix="_details",
        caption=f"Every contestant: times, verified errors, settings. {threads_of(rows)}",
        best={"solve ms": "least by graph"},
    )
    drawn = pd.DataFrame([line for _, row in rows.iterrows() for line in _drawn(row)])
    figure = peers_figure(drawn, OURS, out)
    out.figure(
        figure,
        caption=f"{what}: time of the fastest other program, or of our own {LOOP} loop, named at the right, over ours, "
        f"at the same verified error of {rows.error.iloc[0]:g} in L1, with {interval_text(rows)}; above 1 ours is "
        f"faster. {threads_of(rows)}. {_fastest(drawn)}Colour: fewest bits that ours reads{alone(drawn)}, marker: "
        f"method{PREPARED}",
    )


def _fastest(drawn):
    """Return on how many graphs another method of ours is faster than refine auto, and which, as a sentence."""
    graphs, others = drawn.graph.nunique(), drawn[drawn.ours == "fastest of ours"]
    if others.empty:
        return ""
    some = "all" if len(others) == graphs else f"{len(others)} of {graphs}"
    counts = ", ".join(f"{name} on {count}" for name, count in others.method.value_counts().items())
    return f"On {some} graphs another method of ours, chosen after measuring, is faster than refine auto: {counts}. "


def _line(row):
    solved = {result["name"]: 1e3 * result["solve_s"] for result in row.results if result["status"] == "ok"}
    ours = {name: taken for name, taken in solved.items() if name.startswith("cpms")}
    peers = {name: taken for name, taken in solved.items() if name not in ours}
    programs = {name: taken for name, taken in peers.items() if name != LOOP}
    line = {"graph": label(row), "nodes": row.nodes, "edges": row.edges}
    line |= {name.removeprefix("cpms "): taken for name, taken in ours.items()} | peers
    for suffix, against in zip(AGAINST, (peers, programs), strict=True):
        fastest = min(against, key=against.get, default=None)
        taken = against.get(fastest, np.nan)
        line[f"fastest peer{suffix}"] = fastest
        line[f"over refine auto{suffix}"] = taken / ours.get("cpms refine auto", np.nan)
        line[f"over the best of ours{suffix}"] = taken / min(ours.values(), default=np.nan)
    return line


def _means(table):
    return pd.DataFrame(
        [
            {"ours": ours, "against the fastest of": against, **means_line(table[f"over {ours}{suffix}"])}
            for suffix, against in AGAINST.items()
            for ours in ("refine auto", "the best of ours")
        ]
    )


def _drawn(row):
    """Yield the ratios of a graph: of the fastest peer over the fastest of ours, and over refine auto."""
    solved = [result for result in row.results if result["status"] == "ok"]
    ours = sorted((r for r in solved if r["name"].startswith("cpms")), key=lambda r: r["solve_s"])
    peers = sorted((r for r in solved if not r["name"].startswith("cpms")), key=lambda r: r["solve_s"])
    if not ours or not peers:
        return
    auto = "cpms refine auto"
    for own in [*(r for r in ours if r["name"] == auto), *(r for r in ours[:1] if r["name"] != auto)]:
        low, high = ratio_ends(peers[0]["solve_samples_s"], own["solve_samples_s"])
        yield {
            "graph": shortened(label(row)),
            "peer": peers[0]["name"],
            "ours": "refine auto" if own["name"] == auto else "fastest of ours",
            "method": own["name"].removeprefix("cpms "),
            "bits": min(map(int, own["iterations_by_bits"]), default=64),
            "ratio": peers[0]["solve_s"] / own["solve_s"],
            "low": low,
            "high": high,
        }
