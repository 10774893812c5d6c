"""Figure 5: time by bits read and in precision changes, as shares of the float64 solve, in CSR and in ELL."""

import numpy as np

from cpms.experiment.report import panels
from cpms.experiment.report.output import label, printed, shortened
from cpms.experiment.report.palette import colour
from cpms.experiment.report.stand_ins import STAND_INS, in_order, too_large

NEEDS = ["gpu_speedup", "gpu_speedup_ell"]
STORAGES = ["cpms2", "cpms4"]
CHANGE = "precision change"
BLACK = "#222222"
ABOVE = 0.2
"""Distance of a diamond from its bar, in rows."""


def show(rows, out):
    solved = {layout: _solved(rows, layout) for layout in ("csr", "ell")}
    solved = {layout: graphs for layout, graphs in solved.items() if graphs}
    if not solved:
        out.leave_out("figure fig5", "no graph was solved by engine cuda in fp64, which times are shares of")
        return
    labels = [name for graphs in solved.values() for name in graphs]
    shares = [
        (results[storage]["solve_s"] / results["fp64"]["solve_s"], name, layout, storage)
        for layout, graphs in solved.items()
        for name, results in graphs.items()
        for storage in STORAGES
        if storage in results
    ]
    least, most = min(shares), max(shares)
    out.figure(
        _figure(solved, out),
        caption="Time of whole solves to 1e-10 in our kernels, over the float64 solve in the same layout; "
        "upper bars: cpms2, lower: cpms4; lines: least to most of the solves. Parts: time by bits read, from few to "
        "many; grey: what the first sweep after each rise takes beyond the median sweep of its level. Diamonds above "
        "bars: the same on the authors' V100, in CSR, from their raw timings. "
        f"{too_large(rows)}{STAND_INS}",
        alt=f"Bars of {len(labels)} graphs; shortest: {least[0]:.2f} of the float64 solve ({', '.join(least[1:])}), "
        f"longest: {most[0]:.2f} ({', '.join(most[1:])}).",
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


def _figure(solved, out):
    most = max(map(len, solved.values()))
    figure, axes = panels.grid(
        out.width, len(solved), panels.rows_height(range(most), 0.28, 0.5), columns=(1, 2), sharex=True
    )
    theirs, seen = printed("v100").set_index("graph"), set()
    for panel, (layout, graphs) in zip(axes, solved.items(), strict=True):
        for place, (name, results) in enumerate(graphs.items()):
            seen |= _bars(panel, place, results)
            known = name.removesuffix(" (stand-in)")
            if layout == "csr" and known in theirs.index:
                line = theirs.loc[known]
                for k, storage in enumerate(STORAGES):
                    ratio = line[f"total_{storage}_ms"] / line.total_fp64_ms
                    panel.plot(
                        ratio, place + _beside(k) - ABOVE, "D", ms=3.2, mfc="white", mec=BLACK, mew=0.7, zorder=4
                    )
        panels.named_rows(panel, out.names(map(shortened, graphs)))
        panel.axvline(1.0, color=panels.NEUTRAL, linewidth=0.6, zorder=0)
        panel.set_title(layout.upper())
    figure.supxlabel("time over the float64 solve")
    bits = sorted(seen - {CHANGE})
    square = {"marker": "s", "linestyle": ""}
    diamond = {"color": BLACK, "marker": "D", "mfc": "white", "mew": 0.7, "ms": 4.5, "linestyle": ""}
    lines = {CHANGE: {"color": panels.NEUTRAL, **square}, "V100": diamond}
    panels.legend(figure, panels.key(bits, lines=lines))
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
            shade = panels.NEUTRAL if name == CHANGE else colour(name)
            panel.barh(at, spent / whole, left=left, height=0.22, color=shade)
            left += spent / whole
            seen.add(name)
        samples = results[storage].get("solve_samples_s") or [results[storage]["solve_s"]]
        ends = [min(samples) / whole, max(samples) / whole]
        panel.plot(ends, [at, at], color=BLACK, linewidth=0.9, solid_capstyle="butt")
    return seen
