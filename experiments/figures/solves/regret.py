"""Regret of auto: bytes that its choice reads, and seconds that it takes, over those of the best fixed choice.

On processors auto chooses by time, so it may read more bytes than the best fixed choice; both are shown.
"""

import re

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.intervals import interval_text, ratio_ends
from cpms.experiment.report.page.case_labels import graph_labels
from cpms.experiment.report.page.described import described

NEEDS = ["regret", "regret_held"]
BESIDE = ["regret_time", "regret_time_held"]
ALLOWED, LEAST = 1.15, 0.8
"""Regret that counts as near, and below which a mark would squeeze all others."""
NAMED = 0.05
"""Share by which a matrix differs to have a row of its own."""
WORDS = {
    "pyamg:recirc_flow": "PyAMG, recirculating flow",
    "pyamg:unit_cube": "PyAMG, unit cube",
    "pyamg:airfoil": "PyAMG, airfoil",
    "pyamg:knot": "PyAMG, knot",
}
PECLET = 10.0
"""Of the recirculating wind, where a specification does not say it."""
GRIDS = ("convection", "diffusion", "elasticity", "recirculation", "stencil")
FLAT = ("recirculation", "stencil:points=5", "stencil:points=9")
"""Generators of grids, and those of two dimensions."""
SQUARED, CUBED = "\u00b2", "\u00b3"
OTHERS = {**panels.FILLED, "marker": "s"}
BYTES = (
    "bytes", "MB", 1e-6, "bytes that its choice reads",
    "On processors auto chooses by time, so that it may read more; bytes do not depend on the load of a machine",
)  # fmt: skip
SECONDS = "seconds", "ms", 1e3, "seconds of a whole call", "On processors auto chooses by time"


def show(rows, out, beside):
    _shown(rows[rows.status == "ok"], out, "bytes_read", BYTES, "", NEEDS)
    timed = beside[beside.status == "ok"] if len(beside) else beside
    if len(timed):
        _shown(timed, out, "whole_s", SECONDS, "_time", BESIDE)


def _shown(rows, out, key, called, suffix, of):
    what, _, _, means, why = called
    counts = sorted({sum(way["method"] != "auto" for way in ways) for ways in rows.ways_found})
    best = f"the best of {' or '.join(map(str, counts))} fixed choices"
    drawn = interval_text(rows.rename(columns={"ways_found": "results"}), "whole_samples_s")
    table = pd.DataFrame([_line(row, key, called) for _, row in rows.iterrows()]).sort_values("regret")
    caption = f"What auto, which chooses by time on processors, takes beside {best}, by {what}"
    caption += f"; low and high: {drawn}" if of is BESIDE else ""
    timed = "whole" if of is BESIDE else False
    told = table.drop(columns=["alike", "limit", *([] if timed else ["low", "high"])])
    out.table(told, suffix=suffix, caption=caption, of=of, timed=timed)
    summary = [
        {
            "matrices": "unseen (held out)" if held else "seen",
            "count": len(part),
            "within 15 %": int((part.regret <= ALLOWED).sum()),
            "of which nothing converges": int(part["nothing converges"].sum()),
            "worst": part.regret.max(),
        }
        for held, part in table.groupby("held out")
    ]
    of_all = f"Regret of auto by {what}, over {best}, of matrices seen and unseen when auto was written"
    out.table(pd.DataFrame(summary), suffix=f"{suffix}_summary", caption=of_all, of=of, timed=timed)
    solvable = table[~table["nothing converges"]]
    known = solvable[solvable.regret < float("inf")]
    lines = f"; lines: {drawn}, each of auto over each of the best choice" if table.low.notna().any() else ""
    unsolved, left_out = len(solvable) - len(known), len(table) - len(solvable)
    figure = _figure(known, solvable.drop(known.index), out, f"{what} over the best fixed choice's")
    out.figure(
        figure,
        alt=f"{described(figure)}{_named(solvable.drop(known.index))}{_below(known)}",
        suffix=suffix,
        caption=f"Regret of auto, which chooses method, formats and preconditioner of a solve: {means} over those of "
        f"{best}, at the right as numbers{lines}. Hollow: matrices unseen when auto was written. "
        f"Square: the median of the others{_reach(known)}. Numbers after names: the unknowns of grids, as powers of "
        f"their sides; the Peclet number is that of convection over diffusion. {why}"
        + (". At or below 1 auto's choice is the best fixed one, timed apart" if _is_noise(known) else "")
        + _why_below(known)
        + (f"; not solved, above: {unsolved} that a fixed choice solves and auto does not" if unsolved else "")
        + (f"; {left_out} matrices that no choice solves are left out" if left_out else ""),
        timed=timed,
        of=of,
    )


def _reach(known):
    """Return from where to where the regret of the matrices without a row of their own goes."""
    others = known[(known.regret - 1).abs() <= NAMED].regret
    return f", from {others.min():.3g} to {others.max():.3g}, within {100 * NAMED:g} % of 1" if len(others) else ""


def _named(unsolved):
    """Return the matrices that auto does not solve and a fixed choice does, as the end of an alternative text."""
    names = _in_words(unsolved.matrix)
    return f" Not solved by auto: {'; '.join(names)}." if names else ""


def _below(known):
    """Return the matrices whose regret lies below the axis, as the end of an alternative text."""
    below = known[known.regret < LEAST]
    named = [f"{name} ({regret:.2f})" for name, regret in zip(_in_words(below.matrix), below.regret, strict=True)]
    return f" Below the axis: {'; '.join(named)}." if named else ""


def _why_below(known):
    """Return why regret lies below the axis, as a sentence after others; empty where none does."""
    limits = known[known.regret < LEAST].limit
    return (
        f". Below the axis: fixed conjugate gradients need more than the {limits.max():,} iterations that a solve has "
        "here; auto begins with them and goes on with GMRES in time"
        if len(limits)
        else ""
    )


def _figure(known, unsolved, out, label):
    """Draw a row a matrix that auto does not solve, then one a matrix that differs, the worst first, and the others."""
    near = (known.regret - 1).abs() <= NAMED
    far, others = known[~near].sort_values("regret", ascending=False), known[near]
    held = f", {others['held out'].sum()} unseen" if others["held out"].any() else ""
    rows = _in_words([*unsolved.matrix, *far.matrix])
    names = out.names([*rows, *([f"{len(others)} others{held}"] if len(others) else [])], 30)
    figure, (panel,) = panels.grid(out.width, 1, panels.rows_height(names, 0.17))
    for place, unseen in enumerate(unsolved["held out"]):
        panels.note(panel, place, f"not solved{', unseen' * bool(unseen)} \u2192")
    for place, line in enumerate(far.to_dict("records"), len(unsolved)):
        if line["regret"] < LEAST:
            panels.note(panel, place, "\u2190 below the axis")
            continue
        ends_of = (line["low"], line["high"])
        panels.point(panel, line["regret"], place, None, ends=ends_of, filled=not line["held out"])
    if len(others):
        panels.point(panel, others.regret.median(), len(unsolved) + len(far), None, "s")
    panels.unity(panel)
    panels.named_rows(panel, names)
    panels.logarithmic(panel)
    panel.set_xlabel(label)
    right = panel.secondary_yaxis("right")
    values = [*far.regret, *([others.regret.median()] if len(others) else [])]
    places = range(len(unsolved), len(unsolved) + len(values))
    right.set_yticks(places, [f"{value:.2f}" for value in values])
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    entries = {"seen": panels.FILLED, "unseen": panels.HOLLOW, **({"median of others": OTHERS} if len(others) else {})}
    panels.legend(figure, panels.key(lines=entries))
    return figure


def _in_words(matrices):
    """Return the labels of matrices, with the Peclet number of those that have one."""
    found, labels = [], graph_labels(matrices)
    for spec in matrices:
        label = labels[spec]
        given = re.search(r"peclet=([\d.]+)", spec)
        number = given[1] if given else PECLET if spec.startswith("recirculation") else None
        name = re.sub(r" peclet=[\d.]+", "", WORDS.get(spec, label).replace("-point", "-point stencil"))
        if spec.startswith(GRIDS):
            is_flat = spec.startswith(FLAT) or "dimensions=2" in spec
            name = re.sub(r" (\d+)", rf" \1{SQUARED if is_flat else CUBED}", name, count=1)
        if spec.startswith("elements") and "dimensions=3" in spec:
            name = name.replace("elements", "3-D elements")
        found.append(name if number is None else f"{name}, Peclet {float(number):g}")
    return found


def _is_noise(known):
    """Return whether matrices on which auto takes less than the best fixed choice are those on which it makes it."""
    below = known[known.regret < 1]
    return len(below) > 0 and below.alike.all()


def _line(row, key, called):
    auto, fixed = row.ways_found[0], [way for way in row.ways_found[1:] if way["status"] == "CONVERGED"]
    best = min(fixed, key=lambda way: way[key], default=auto)
    timed = key == "whole_s"
    low, high = ratio_ends(auto.get("whole_samples_s"), best.get("whole_samples_s") if timed else None)
    solved, (_, unit, scale, *_) = auto["status"] == "CONVERGED", called
    return {
        "matrix": row.graph,
        "held out": row.experiment.endswith("_held"),
        "limit": row.max_iterations,
        "auto": f"{auto['used']} {' '.join(map(str, auto['iterations_by_bits']))}",
        "best": " ".join([best["method"], *best["vectors"], *filter(None, [best["preconditioner"]])]),
        "regret": auto[key] / best[key] if solved or not fixed else float("inf"),
        "low": low,
        "high": high,
        f"auto {unit}": auto[key] * scale,
        f"best {unit}": best[key] * scale,
        "auto status": auto["status"],
        "nothing converges": not fixed,
        "alike": all(auto[each] == best[each] for each in ("used", "vectors_as", "stored_as", "preconditioner_used")),
    }
