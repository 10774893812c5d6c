"""Time to the tolerance, of methods that took turns on processors, and on a GPU."""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import some, spread
from cpms.experiment.report.intervals import PREPARED, UNSEEN, interval_text, median_ends
from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.palette import colour

NEEDS = ["cpu_tolerance", "gpu_times"]
NAMES = {
    "scipy power fp64": "power, SciPy",
    "cusparse power fp64": "power, cuSPARSE",
    "cpu power fp64": "power, ours",
    "cuda_fused power fp64": "power, ours, fused",
    "cpu power cpms4": "power, CPMS rule",
    "cuda power cpms4": "power, CPMS rule, plain",
    "cpu refine fp16": "refine, fp16",
    "cuda_fused refine fp16": "refine, fp16",
}
"""Contestants of the figure; the table has all."""
RULES = ("power, CPMS rule", "power, CPMS rule, plain")
"""The contestants of hollow marks, since those of cuSPARSE lie on them."""
MARKS = {
    "power, SciPy": "X",
    "power, cuSPARSE": "X",
    "power, ours": "o",
    "power, ours, fused": "o",
    **dict.fromkeys(RULES, "s"),
    "refine, fp16": "D",
}


def show(rows, out):
    rows = rows[rows.status == "ok"]
    for experiment in NEEDS:
        here = rows[rows.experiment == experiment]
        if len(here):
            gpu = experiment.startswith("gpu")
            where = here.gpu.iloc[0] if gpu else f"{here.threads.iloc[0]} threads of {here.cpu.iloc[0]}"
            _table_and_figure(here, out, where, experiment, "_gpu" if gpu else "")


def _table_and_figure(rows, out, where, experiment, suffix):
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    judged = table.residual.notna().any()
    out.table(
        table.drop(columns=["low", "high", "bits"]).dropna(axis="columns", how="all"),
        suffix=suffix,
        best={"ms": "least by graph,tol"},
        among=("solves that converged", table.status == "converged"),
        of=[experiment],
        caption=f"Whole solves on {where}, medians of contestants in turn; one that has not converged ended where its "
        "residual no longer fell, "
        + (
            "one that is not verified where the residual recomputed is no smaller than the tolerance"
            if judged
            else "and nobody recomputed the residuals of the others"
        )
        + (". SciPy uses one thread" if table.contestant.str.startswith("scipy").any() else ""),
    )
    if ((table.status == "converged") & table.contestant.isin(NAMES)).any():
        drawn = table[(table.status == "converged") & table.contestant.isin(NAMES)].replace({"contestant": NAMES})
        out.figure(
            _figure(drawn, out, experiment),
            suffix=suffix,
            caption=f"Time of whole solves to a tolerance on {where}, medians with {interval_text(rows)}{UNSEEN}, of "
            "those that converged: a curve ends where no smaller tolerance was reached. Power iteration in float64 by "
            f"{_library(drawn)} and by ours, and with four segments of 16 bits by the rule of the CPMS paper; method "
            f"refine in 16 bits{_in_one_pass(drawn)}{_kernels(drawn)}; colour: the fewest bits read. Marks of one "
            f"tolerance lie beside each other. Axes of times differ{_others(table)}{PREPARED}",
            of=[experiment],
        )
    else:
        out.leave_out(f"figure time_to_tolerance{suffix}", "no contestant converged")


def _others(table):
    """Return which contestants the table alone has, as a sentence behind others; empty if there are none."""
    names = [name.partition(" ")[2] for name in dict.fromkeys(table.contestant) if name not in NAMES]
    return f". In the table alone: {some(names)}" if names else ""


def _library(drawn):
    names = {"SciPy": "SciPy, on one thread,", "cuSPARSE": "cuSPARSE"}
    return " and ".join(text for name, text in names.items() if f"power, {name}" in set(drawn.contestant))


def _kernels(drawn):
    """Return which contestants have fused kernels, as a text for a caption: a fused kernel is faster in any format."""
    if not {"power, ours, fused", "power, CPMS rule, plain"} <= set(drawn.contestant):
        return ""
    return (
        "; ours in float64 and refine run our fused kernels, one a sweep, the CPMS rule our plain ones, one a step, so "
        "that they differ by more than the bits"
    )


def _in_one_pass(drawn):
    """Return why marks of method refine are those of 64 bits, where there are some, as a text for a caption."""
    one_pass = (drawn.contestant == "refine, fp16") & (drawn.bits == 64)
    return ", or on a graph without a cycle in one pass in 64" if one_pass.any() else ""


def _lines(row):
    for result in row.results:
        if result["status"] != "ok":
            continue
        samples = result.get("solve_samples_s")
        low, high = median_ends(samples)
        yield {
            "graph": shortened(label(row)),
            "tol": row.tol,
            "contestant": " ".join([result["engine"], result.get("method", "power"), result["storage"]]),
            "ms": 1e3 * result["solve_s"],
            "spread, %": 100 * spread(samples) if samples else None,
            "iterations": result["iterations"],
            "residual": result["residual_l1"],
            "status": _status(row, result),
            "low": 1e3 * low,
            "high": 1e3 * high,
            "bits": min(result["bits"], default=64),
        }


def _status(row, result):
    residual = result["residual_l1"]
    missed = residual is not None and residual >= row.tol
    return "not verified" if missed and result["solver_status"] == "converged" else result["solver_status"]


def _figure(table, out, experiment):
    graphs = list(dict.fromkeys(table.graph))
    contestants = [name for name in MARKS if name in set(table.contestant)]
    figure, axes = panels.grid(out.width, len(graphs), 1.8 if out.double else 1.45, columns=(1, 2), sharex=True)
    for panel, graph, name in zip(axes, graphs, out.names(graphs, of=[experiment]), strict=True):
        for place, contestant in enumerate(contestants):
            part = table[(table.graph == graph) & (table.contestant == contestant)].sort_values("tol")
            if len(part):
                marks = panel.errorbar(
                    panels.abreast(part.tol, place, len(contestants), 1.4), part.ms,
                    yerr=[(part.ms - part.low).clip(lower=0), (part.high - part.ms).clip(lower=0)],
                    color=colour(part.bits.min()), marker=MARKS[contestant], ms=3.5, lw=0.8, elinewidth=0.7,
                    **({"mfc": "none"} if contestant in RULES else {}),
                )  # fmt: skip
                panels.name_places(marks[0], part.tol)
        panel.set_title(name)
        panels.logarithmic(panel, "y", most=5)
    panels.logarithmic(axes[0])
    for panel in axes:
        panel.set_xticks([1e-2, 1e-6, 1e-10, 1e-14])
        panel.set_xticks([1e-4, 1e-8, 1e-12], minor=True)
    axes[0].invert_xaxis()
    figure.supxlabel("tolerance")
    figure.supylabel("time of a solve, ms")
    marks = {name: MARKS[name] for name in contestants if name not in RULES}
    rule = {name: {**panels.HOLLOW, "marker": MARKS[name]} for name in contestants if name in RULES}
    panels.legend(figure, panels.key({*table.groupby(["graph", "contestant"]).bits.min()}, marks, rule))
    return figure
