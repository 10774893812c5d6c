"""Time to the tolerance, of methods that took turns on processors, and on a GPU."""

import pandas as pd

from cpms.experiment.report.output import label, shortened

NEEDS = ["cpu_tolerance", "gpu_times"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    for experiment in NEEDS:
        here = rows[rows.experiment == experiment]
        if len(here):
            gpu = experiment.startswith("gpu")
            where = here.gpu.iloc[0] if gpu else f"{here.threads.iloc[0]} threads of {here.cpu.iloc[0]}"
            _table_and_figure(here, out, where, "_gpu" if gpu else "")


def _table_and_figure(rows, out, where, suffix):
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    judged = table.residual.notna().any()
    out.table(
        table.dropna(axis="columns", how="all"),
        suffix=suffix,
        caption=f"Whole solves on {where}, medians of contestants in turn; one that has not converged ended where its "
        "residual no longer fell, "
        + (
            "one that is not verified where the residual recomputed is no smaller than the tolerance"
            if judged
            else "and nobody recomputed the residuals of the others"
        ),
    )
    if (table.status == "converged").any():
        out.figure(_figure(table), suffix=suffix)
    else:
        out.leave_out(f"figure time_to_tolerance{suffix}", "no contestant converged")


def _lines(row):
    for result in row.results:
        if result["status"] != "ok":
            continue
        yield {
            "graph": shortened(label(row)),
            "tol": row.tol,
            "contestant": " ".join([result["engine"], result.get("method", "power"), result["storage"]]),
            "ms": 1e3 * result["solve_s"],
            "iterations": result["iterations"],
            "residual": result["residual_l1"],
            "status": _status(row, result),
        }


def _status(row, result):
    residual = result["residual_l1"]
    missed = residual is not None and residual >= row.tol
    return "not verified" if missed and result["solver_status"] == "converged" else result["solver_status"]


def _figure(table):
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

    table = table[table.status == "converged"]
    graphs, contestants = (list(dict.fromkeys(table[column])) for column in ("graph", "contestant"))
    figure, panels = plt.subplots(1, len(graphs), figsize=(1.9 * len(graphs), 2.8), sharex=True, squeeze=False)
    for panel, graph in zip(panels[0], graphs, strict=True):
        for contestant in contestants:
            part = table[(table.graph == graph) & (table.contestant == contestant)]
            panel.loglog(part.tol, part.ms, "-o", ms=3, color=f"C{contestants.index(contestant)}", label=contestant)
        panel.set_title(graph, fontsize=8)
        panel.set_xticks([1e-2, 1e-6, 1e-10, 1e-14])
        panel.xaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        panel.yaxis.set_minor_locator(NullLocator())
    panels[0][0].invert_xaxis()
    panels[0][0].set_ylabel("ms")
    figure.supxlabel("tolerance", fontsize=8)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure
