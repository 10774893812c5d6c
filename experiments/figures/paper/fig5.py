"""Figure 5: time by bits read and in precision changes, as shares of the float64 solve, in CSR and in ELL."""

import numpy as np

from cpms.experiment.report import panels
from cpms.experiment.report.captions import three_digits
from cpms.experiment.report.intervals import PREPARED
from cpms.experiment.report.output import label, printed, shortened
from cpms.experiment.report.palette import colour
from cpms.experiment.report.stand_ins import in_order, too_large

NEEDS = ["gpu_speedup", "gpu_speedup_ell"]
STORAGES = ["cpms2", "cpms4"]
CHANGE = "precision change"
BLACK = "#222222"
THICK, BELOW = 0.24, 0.18
"""Height of a bar, and the distance of its line from its middle, in rows."""
V100 = {"color": BLACK, "marker": "|", "markersize": 7, "markeredgewidth": 1.2, "linestyle": ""}


def show(rows, out):
    solved = {layout: _solved(rows, layout) for layout in ("csr", "ell")}
    solved = {layout: graphs for layout, graphs in solved.items() if graphs}
    if not solved:
        out.leave_out("figure fig5", "no graph was solved by engine cuda in fp64, which times are shares of")
        return
    drawn = list(dict.fromkeys(name for graphs in solved.values() for name in graphs))
    label_of = dict(zip(drawn, out.names(map(shortened, drawn)), strict=True))
    shares = [
        (_length(results, storage), f"{label_of[name]}, {layout.upper()}, {storage}")
        for layout, graphs in solved.items()
        for name, results in graphs.items()
        for storage in STORAGES
        if storage in results
    ]
    least, most = min(shares), max(shares)
    counts = {
        layout: sum(storage in results for results in graphs.values() for storage in STORAGES)
        for layout, graphs in solved.items()
    }
    bars = ", ".join(f"{count} in {layout.upper()}" for layout, count in counts.items())
    out.figure(
        _figure(solved, out),
        caption="Time of whole solves to 1e-10 in our kernels (engine cuda), over the float64 solve in the same "
        "layout; upper bars: cpms2, lower: cpms4; lines below bars: least to most of the solves, dots where alike. "
        "Parts: time by bits read, from few to many; white: what the first sweep after each rise takes beyond the "
        "median sweep of its level. Strokes across bars: the authors' solves on a V100, in CSR, of the paper's own "
        f"graphs, from their raw timings{PREPARED}. {too_large(rows)}",
        alt=f"Time over the float64 solve: {len(shares)} bars in parts by bits read ({bars}), from "
        f"{three_digits(least[0])} ({least[1]}) to {three_digits(most[0])} ({most[1]}).",
        results=lambda result: result["engine"] == "cuda" and "most_read" not in result,
    )


def _solved(rows, layout):
    """Return the solves of engine cuda by graph and storage."""
    rows = rows[(rows.status == "ok") & (rows.layout == layout)]
    if len(rows):
        rows = rows[rows.tol == (1e-10 if (rows.tol == 1e-10).any() else rows.tol.min())]
    found = {label(row): _by_storage(row) for _, row in rows.iterrows()}
    return {name: found[name] for name in in_order(found) if {"fp64"} < found[name].keys()}


def _by_storage(row):
    ours = (result for result in row.results if result["engine"] == "cuda" and "most_read" not in result)
    solved = (result for result in ours if result["status"] == "ok")
    return {result["storage"]: result for result in solved if not result.get("fixed") and "method" not in result}


def _parts(result):
    """Split a solve: sweeps at their level's median; what a rise takes beyond that is precision change."""
    steps, bits = np.diff([0.0, *result["step_s"]]), np.array(result["bits"])
    change, parts = 0.0, []
    for level in sorted(set(bits.tolist())):
        spent = steps[bits == level]
        usual = np.median(spent)
        first = spent[0] - usual if level != bits[0] else 0.0
        change += max(first, 0.0)
        parts.append((level, spent.sum() - max(first, 0.0)))
    return [*parts, (CHANGE, change)]


def _length(results, storage):
    """Return the length of a bar."""
    return sum(spent for _, spent in _parts(results[storage])) / results["fp64"]["solve_s"]


def _figure(solved, out):
    from matplotlib.patches import Patch

    most = max(map(len, solved.values()))
    figure, axes = panels.grid(
        out.width, len(solved), panels.rows_height(range(most), 0.28, 0.5), columns=(1, 2), sharex=True
    )
    if not out.double:
        axes[0].get_gridspec().set_height_ratios([*map(len, solved.values())])
    theirs, seen = printed("v100").set_index("graph"), set()
    for panel, (layout, graphs) in zip(axes, solved.items(), strict=True):
        for place, (name, results) in enumerate(graphs.items()):
            seen |= _bars(panel, place, results)
            known = name.removesuffix(" (stand-in)")
            if layout == "csr" and known in theirs.index:
                line = theirs.loc[known]
                for k, storage in enumerate(STORAGES):
                    ratio = line[f"total_{storage}_ms"] / line.total_fp64_ms
                    panel.plot(ratio, place + _beside(k), **V100, zorder=4)
        panels.named_rows(panel, out.names(map(shortened, graphs)))
        panel.axvline(1.0, color=panels.NEUTRAL, linewidth=0.6, zorder=0)
        panel.set_title(f"{layout.upper()}: {' above '.join(STORAGES)}")
        panel.tick_params(axis="x", labelbottom=True)
    figure.supxlabel("time over the float64 solve")
    bits = sorted(seen - {CHANGE})
    change = Patch(facecolor="white", edgecolor=BLACK, linewidth=0.5, label=CHANGE)
    panels.legend(figure, [*panels.key(bits), change, *panels.key(lines={"V100": V100})])
    return figure


def _beside(k):
    return 0.06 + panels.beside(k, len(STORAGES), 0.88)


def _bars(panel, place, results):
    """Draw the bars of a graph and return what their parts are."""
    whole, seen = results["fp64"]["solve_s"], set()
    for k, storage in enumerate(STORAGES):
        if storage not in results:
            continue
        left, at = 0.0, place + _beside(k)
        for name, spent in _parts(results[storage]):
            style = {"color": "white", "edgecolor": BLACK} if name == CHANGE else {"color": colour(name)}
            panel.barh(at, spent / whole, left=left, height=THICK, linewidth=0.4, **{"edgecolor": "white", **style})
            left += spent / whole
            seen.add(name)
        samples = results[storage].get("solve_samples_s") or [results[storage]["solve_s"]]
        ends = [min(samples) / whole, max(samples) / whole]
        panel.plot(ends, [at + BELOW, at + BELOW], color=BLACK, linewidth=0.9, solid_capstyle="butt")
    return seen
