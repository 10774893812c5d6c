"""What single levers buy on a GPU, each on against off: of a sweep, and of a whole solve."""

import pandas as pd

from cpms.experiment.report.captions import some, spread
from cpms.experiment.report.intervals import PREPARED, UNSEEN, interval_text, ratio_ends
from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.speedup_figures import faster_figure, faster_lines, show_faster

NEEDS = ["gpu_cached", "gpu_merged"]
BESIDE = ["gpu_levers"]
SOLVES = {"error_feedback": "error feedback", "convergence_estimate": "the estimate of convergence"}

OF_SWEEPS = {
    "gpu_cached": "In-cache sweeps are those that the engine has for graphs that fit in the GPU's cache; without: its "
    "sweeps of other graphs",
    "gpu_merged": "Lumping sweeps over one node for all with equal out-edges; the time to find these is not counted",
}
MEANINGS = {
    "error_feedback": "rounding errors of a sweep are added before the next one rounds",
    "convergence_estimate": "the changes of a few sweeps before any layout is built, by which bits are chosen",
}
"""Of the levers of solves, for captions."""


def show(rows, out, beside):
    for experiment, lines, by, caption in SWEEPS:
        suffix, more = experiment.removeprefix("gpu"), f". {OF_SWEEPS[experiment]}"
        show_faster(rows[rows.experiment == experiment], out, lines, by=by, caption=caption, suffix=suffix, more=more)
    solved = beside[beside.status == "ok"] if len(beside) else beside
    table = pd.DataFrame([line for _, row in solved.iterrows() for line in _solves(row)])
    if table.empty:
        return
    out.table(
        table.drop(columns=["low", "high"]),
        suffix="_solves",
        caption=f"Whole solves to 1e-10 on {solved.gpu.iloc[0]}, medians, without a lever and with it; spread: "
        "interquartile range of the solves over their median; bits and all else are the engine's choice in both",
        of=BESIDE,
    )
    for key, called in SOLVES.items():
        part = table[table.lever == called]
        if len(part):
            others = part[part.bits != part["bits without"]]
            more = "".join(
                f". On {some(same.graph)} the engine reads {without} bits without it (hollow)"
                for without, same in others.groupby("bits without")
            )
            interval = f"{interval_text(solved)}, of whole solves{UNSEEN}"
            more = f"{more}. {called.capitalize()}: {MEANINGS[key]}{PREPARED}"
            faster_figure(part, out, f"with {called}", interval, suffix=f"_{key}", of=BESIDE, more=more)


def _solves(row):
    """Yield a line for each lever of a whole solve."""
    solved = [result for result in row.results if result["status"] == "ok"]
    chosen = next(result for result in solved if all(result.get(key, True) for key in SOLVES))
    for key, called in SOLVES.items():
        for off in (result for result in solved if not result.get(key, True)):
            low, high = ratio_ends(off["solve_samples_s"], chosen["solve_samples_s"])
            yield {
                "graph": shortened(label(row)),
                "lever": called,
                "bits": min(chosen["bits"]),
                "bits without": min(off["bits"]),
                "without ms": 1e3 * off["solve_s"],
                "without spread, %": 100 * spread(off["solve_samples_s"]),
                "with ms": 1e3 * chosen["solve_s"],
                "with spread, %": 100 * spread(chosen["solve_samples_s"]),
                "times faster": off["solve_s"] / chosen["solve_s"],
                "low": low,
                "high": high,
            }


SWEEPS = [
    (
        "gpu_cached",
        lambda row: faster_lines(row, "cached", "in-cache"),
        "by in-cache sweeps",
        "Sweeps on {gpu} of graphs that fit in its cache, as those of other graphs, and in the cache: microseconds "
        "of a sweep, the mean over a run and the median of single sweeps; of in-cache sweeps also how far the "
        "fastest and the slowest run are apart; gathers alone, in a kernel of their own",
    ),
    (
        "gpu_merged",
        lambda row: faster_lines(row, "merge", "lumped"),
        "by lumping nodes with equal out-edges",
        "Sweeps on {gpu} over all nodes, and over one for those with equal out-edges (lumping): microseconds of a "
        "sweep, the mean over a run and the median of single sweeps; of lumped ones also how far the fastest and the "
        "slowest run are apart; bytes are those of the one over the other, without "
        "updates; the engine lumps where it pays for a solve",
    ),
]
