"""Regret of auto: bytes that its choice reads, and seconds that it takes, over those of the best fixed choice.

On processors auto chooses by time, so it may read more bytes than the best fixed choice; both are shown.
"""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends, shortened
from cpms.experiment.report.page import labels

NEEDS = ["regret", "regret_held"]
BESIDE = ["regret_time", "regret_time_held"]
ALLOWED = 1.15
BYTES = "bytes", "MB", 1e-6, "bytes that its choice reads"
SECONDS = "seconds", "ms", 1e3, "seconds of a whole call"


def show(rows, out, beside):
    _shown(rows[rows.status == "ok"], out, "bytes_read", BYTES, "", NEEDS)
    timed = beside[beside.status == "ok"] if len(beside) else beside
    if len(timed):
        _shown(timed, out, "whole_s", SECONDS, "_time", BESIDE)


def _shown(rows, out, key, called, suffix, of):
    what, _, _, means = called
    table = pd.DataFrame([_line(row, key, called) for _, row in rows.iterrows()]).sort_values("regret")
    caption = f"What auto, which chooses by time on processors, takes beside the best fixed choice, by {what}"
    out.table(table, suffix=suffix, caption=caption)
    summary = [
        {
            "matrices": "held out" if held else "named at first",
            "count": len(part),
            "within 15 %": int((part.regret <= ALLOWED).sum()),
            "of which nothing converges": int(part["nothing converges"].sum()),
            "worst": part.regret.max(),
        }
        for held, part in table.groupby("held out")
    ]
    out.table(pd.DataFrame(summary), suffix=f"{suffix}_summary", caption=f"Regret of auto by {what}")
    solvable = table[~table["nothing converges"]]
    figure, (panel,) = panels.grid(out.width, 1, 2.2)
    styles = {"named at first": panels.FILLED, "held out": panels.HOLLOW}
    places = pd.Series(range(1, len(solvable) + 1), index=solvable.index)
    for (name, style), part in zip(
        styles.items(), (solvable[~solvable["held out"]], solvable[solvable["held out"]]), strict=True
    ):
        panel.plot(places[part.index], part.regret, label=name, **style)
    panels.unity(panel, across=True)
    panels.logarithmic(panel, "y")
    panel.set(xlabel="matrices, by regret", ylabel=f"{what}, auto over best fixed")
    panels.legend(figure, panels.key(lines=styles))
    known = solvable.assign(place=places)[solvable.regret < float("inf")]
    far = known[(known.regret - 1).abs() > 0.05]
    points = [*far[["place", "regret"]].to_numpy(float)[:, None]]
    labels.place(
        panel, out.names(map(shortened, far.matrix)), points, others=known[["place", "regret"]], all_or_none=False
    )
    unsolved, left_out = int((solvable.regret == float("inf")).sum()), len(table) - len(solvable)
    out.figure(
        figure,
        suffix=suffix,
        caption=f"Regret of auto: {means} over those of the best fixed choice, a mark a matrix, "
        "named if they differ by more than 5 %; hollow: held out, when auto was written. On processors auto chooses by "
        "time"
        + (f"; auto does not solve {unsolved} that a fixed choice does" if unsolved else "")
        + (f"; {left_out} matrices that no choice solves are left out" if left_out else ""),
        alt=ends(known, "regret", ["matrix"], f"{what.capitalize()} over the best choice's", "times"),
        timed=of is BESIDE,
        of=of,
    )


def _line(row, key, called):
    auto, fixed = row.ways_found[0], [way for way in row.ways_found[1:] if way["status"] == "CONVERGED"]
    best = min(fixed, key=lambda way: way[key], default=auto)
    solved, (_, unit, scale, _) = auto["status"] == "CONVERGED", called
    return {
        "matrix": row.graph,
        "held out": row.experiment.endswith("_held"),
        "auto": f"{auto['used']} {' '.join(map(str, auto['iterations_by_bits']))}",
        "best": " ".join([best["method"], *best["vectors"], *filter(None, [best["preconditioner"]])]),
        "auto status": auto["status"],
        f"auto {unit}": auto[key] * scale,
        f"best {unit}": best[key] * scale,
        "nothing converges": not fixed,
        "regret": auto[key] / best[key] if solved or not fixed else float("inf"),
    }
