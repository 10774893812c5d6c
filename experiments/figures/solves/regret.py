"""Regret of auto: bytes that its choice reads over those of the best fixed choice, by matrix."""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends, shortened
from cpms.experiment.report.page import labels

NEEDS = ["regret", "regret_held"]
ALLOWED = 1.15


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([_line(row) for _, row in rows.iterrows()]).sort_values("regret")
    out.table(table, caption="What auto chooses beside the best fixed choice, by bytes read")
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
    out.table(pd.DataFrame(summary), suffix="_summary", caption="Regret of auto by bytes read")
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
    panel.set(xlabel="matrices, by regret", ylabel="bytes, auto over best fixed")
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
        caption="Regret of auto: bytes that its choice reads over those of the best fixed choice, a mark a matrix, "
        "named if they differ by more than 5 %; hollow: held out, when auto was written"
        + (f"; auto does not solve {unsolved} that a fixed choice does" if unsolved else "")
        + (f"; {left_out} matrices that no choice solves are left out" if left_out else ""),
        alt=ends(known, "regret", ["matrix"], "Bytes over the best choice's", "times"),
        timed=False,
    )


def _line(row):
    auto, fixed = row.ways_found[0], [way for way in row.ways_found[1:] if way["status"] == "CONVERGED"]
    best = min(fixed, key=lambda way: way["bytes_read"], default=auto)
    solved = auto["status"] == "CONVERGED"
    return {
        "matrix": row.graph,
        "held out": row.experiment.endswith("_held"),
        "auto": f"{auto['used']} {' '.join(map(str, auto['iterations_by_bits']))}",
        "best": " ".join([best["method"], *best["vectors"], *filter(None, [best["preconditioner"]])]),
        "auto status": auto["status"],
        "auto MB": auto["bytes_read"] / 1e6,
        "best MB": best["bytes_read"] / 1e6,
        "nothing converges": not fixed,
        "regret": auto["bytes_read"] / best["bytes_read"] if solved or not fixed else float("inf"),
    }
