"""Conjugate gradients on a processor's threads: SciPy's time over ours, to the same certified residual."""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import threads_of_all
from cpms.experiment.report.intervals import geometric
from cpms.experiment.report.speedup_figures import looks_of_means, mean_rows

NEEDS = ["cg_time", "cg_time_held"]
WHOLE = "times faster, whole call"
ENDS = ("least of pairs", "most of pairs")
NAMES = {"fp64": "ours, 64-bit\nvectors", "auto": "ours, vectors\nby auto"}


def show(rows, out):
    rows = rows[rows.status == "ok"]
    lines = [line for _, row in rows.iterrows() for line in _lines(row)]
    table = pd.DataFrame(lines)
    what = f"Conjugate gradients to the same certified residual, {rows.tol.iloc[0]:g}"
    threads = f"SciPy's products use one thread, ours {threads_of_all(rows)}"
    out.table(
        table.drop(columns="bits"),
        caption=f"{what}: medians of whole calls, and times faster than SciPy's, whole and solver alone; pairs: whole "
        f"calls in turn. {threads}",
        timed="whole",
    )
    ours = table[table.method != "scipy cg"]
    means = [
        {
            "vectors": vectors,
            "matrices": f"{len(part)} held out" if held else f"{len(part)}",
            WHOLE: geometric(part[WHOLE])["mean"],
            "least, whole call": part[WHOLE].min(),
            "times faster, solver": geometric(part["times faster, solver"])["mean"],
            "least, solver": part["times faster, solver"].min(),
        }
        for (held, vectors), part in ours.groupby(["held out", "vectors"], sort=False)
    ]
    caption = f"{what}: times faster than SciPy's, geometric means over the matrices. {threads}"
    out.table(pd.DataFrame(means), suffix="_means", caption=caption, timed="whole")
    held = ours.groupby("matrix")["held out"].first()
    of_held = f", hollow and below {held.sum()} held out" if held.any() else ""
    out.figure(
        _figure(ours[ours.status == "CONVERGED"], out),
        caption=f"{what}, random right-hand sides: SciPy's median time over that of ours, a whole call each, "
        f"ours with its certificate. {threads}. Diamonds: geometric means, with 95 % bootstrap "
        f"intervals where five or more; dots above them {(~held).sum()} matrices that the solver was tuned on{of_held}"
        ". By auto: matrices, too, in the fewest bits that hold them, diffusion in float32. Colour: the fewest bits of "
        "a vector's value that iterations read. Thin lines: least to most of pairs of calls in turn",
        timed="whole",
    )


def _figure(ours, out):
    """Draw the ratios of whole calls on a row for each way of storing vectors."""
    ours, names = ours.assign(name=ours.vectors.map(NAMES)), list(NAMES.values())
    figure, (panel,) = panels.grid(out.width, 1, panels.rows_height(names, 0.4, 0.8))
    mean_rows(panel, ours, names, WHOLE, ends=ENDS)
    panel.set_xlabel("times faster than SciPy's cg")
    panels.legend(figure, panels.key(ours.bits, lines=looks_of_means("tuned", "held out")))
    return figure


def _lines(row):
    first = row.ways_found[0]
    for way in row.ways_found:
        samples = way["whole_samples_s"]
        pairs = [a / b for a, b in zip(first["whole_samples_s"], samples, strict=True)]
        yield {
            "matrix": row.graph,
            "held out": row.experiment.endswith("_held"),
            "unknowns": row.rows,
            "method": way["used"],
            "storage": way["stored_as"],
            "vectors": "fp64" if way["engine"] == "scipy" else " ".join(way["vectors"]),
            "bits": min(map(int, way["iterations_by_bits"]), default=64),
            "status": way["status"],
            "residual": way["residual"],
            "iterations": way["iterations"],
            "whole s": way["whole_s"],
            "least s": min(samples),
            "most s": max(samples),
            WHOLE: first["whole_s"] / way["whole_s"],
            **dict(zip(ENDS, (min(pairs), max(pairs)), strict=True)),
            "times faster, solver": first["solve_s"] / way["solve_s"],
        }
