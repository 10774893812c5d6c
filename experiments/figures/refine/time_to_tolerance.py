"""Time to the tolerance, of methods that took turns on processors, and on a GPU."""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends, spread
from cpms.experiment.report.intervals import interval_text, median_ends
from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.palette import NEUTRAL, colour

NEEDS = ["cpu_tolerance", "gpu_times"]


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
        caption=f"Whole solves on {where}, medians of contestants in turn; one that has not converged ended where its "
        "residual no longer fell, "
        + (
            "one that is not verified where the residual recomputed is no smaller than the tolerance"
            if judged
            else "and nobody recomputed the residuals of the others"
        ),
    )
    if (table.status == "converged").any():
        drawn = table[table.status == "converged"]
        out.figure(
            _figure(drawn, out, experiment),
            suffix=suffix,
            caption=f"Time of whole solves against the tolerance on {where}: medians with {interval_text(rows)} of "
            "contestants that converged; colour: fewest bits read on the graph (grey in the legend: not the same on "
            "all), marker: engine and method; marks of one tolerance lie beside each other, axes of times differ",
            alt=ends(drawn, "ms", ["graph", "contestant", "tol"], "Times", "ms"),
            of=[experiment],
        )
    else:
        out.leave_out(f"figure time_to_tolerance{suffix}", "no contestant converged")


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
    graphs, contestants = (list(dict.fromkeys(table[column])) for column in ("graph", "contestant"))
    names = out.names(graphs, of=[experiment])
    figure, axes = panels.grid(out.width, len(graphs), 2.5 if out.double else 1.5, columns=(1, 4), sharex=True)
    marks = dict(zip(contestants, "o^sDXvP<>", strict=False))
    bits = table.groupby(["contestant", "graph"]).bits.min().groupby("contestant").agg(set)
    for panel, graph, name in zip(axes, graphs, names, strict=True):
        for place, contestant in enumerate(contestants):
            part = table[(table.graph == graph) & (table.contestant == contestant)].sort_values("tol")
            shade = colour(part.bits.min()) if len(part) else NEUTRAL
            panel.errorbar(
                panels.abreast(part.tol, place, len(contestants), 2.0), part.ms,
                yerr=[(part.ms - part.low).clip(lower=0), (part.high - part.ms).clip(lower=0)],
                color=shade, marker=marks[contestant], ms=3.5, lw=0.8, elinewidth=0.7,
                markerfacecolor="white" if "refine" in contestant else shade,
            )  # fmt: skip
        panel.set_title(name)
        panels.logarithmic(panel, "y", most=5)
    panels.logarithmic(axes[0])
    for panel in axes:
        panel.set_xticks([1e-2, 1e-6, 1e-10, 1e-14])
        panel.minorticks_off()
    axes[0].invert_xaxis()
    figure.supxlabel("tolerance")
    figure.supylabel("time of a solve, ms")
    shades = {name: NEUTRAL if len(held) > 1 else colour(*held) for name, held in bits.items()}
    lines = {
        name: {
            "color": shades[name], "marker": mark, "markersize": 4, "linewidth": 0.8,
            "markerfacecolor": "white" if "refine" in name else shades[name],
        }
        for name, mark in marks.items()
    }  # fmt: skip
    panels.legend(figure, panels.key({each for held in bits for each in held}, lines=lines))
    return figure
