"""Products on the suites of matrices: times faster than cuSPARSE's best CSR, and the share of copy bandwidth."""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.intervals import geometric
from cpms.experiment.report.palette import NEUTRAL

NEEDS = [f"gpu_suite_{suite}_{part}" for suite in "ab" for part in ("grids", "irregular")]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    out.table(
        table.drop(columns="bits"),
        best={"ms": "least by experiment,matrix"},
        caption="Products on suites A and B: times faster than cuSPARSE's fastest algorithm in CSR",
    )
    summary = table.pivot_table("times faster", "product", "experiment", aggfunc=_mean, sort=False)
    out.table(
        summary.reset_index(),
        caption="Geometric means of times faster, by suite",
        suffix="_means",
        best=dict.fromkeys(summary, "most"),
    )
    out.figure(
        _figure(table, out),
        caption="Products by suite of matrices: times faster than cuSPARSE's fastest algorithm in CSR. Grey dots are "
        "matrices, diamonds geometric means with 95 % bootstrap intervals over them; colour: bits of values",
        alt="; ".join(
            f"{product}, {suite}: {mean:.2f} times" for suite in summary for product, mean in summary[suite].items()
        ),
    )


def _mean(ratios):
    return geometric(ratios)["mean"]


def _figure(table, out):
    suites, products = (list(dict.fromkeys(table[column])) for column in ("experiment", "product"))
    figure, axes = panels.grid(
        out.width, len(suites), panels.rows_height(products, 0.15, 0.5), columns=(1, 2), sharex=True, sharey=True
    )
    for panel, suite in zip(axes, suites, strict=True):
        for place, product in enumerate(products):
            part = table[(table.experiment == suite) & (table["product"] == product)]
            if len(part):
                found = geometric(part["times faster"])
                dots = part["times faster"]
                panel.plot(dots, [place] * len(dots), "o", color="#999999", ms=2.5, alpha=0.6, mew=0)
                ends_of = (found["low"], found["high"])
                panels.point(panel, found["mean"], place, part.bits.iloc[0], "D", ends=ends_of)
        panels.unity(panel)
        panels.named_rows(panel, products)
        panel.set_title(suite.removeprefix("gpu_suite_").replace("_", ", "))
    panels.logarithmic(axes[0])
    figure.supxlabel("times faster than cuSPARSE")
    dot = {"a matrix": {"color": NEUTRAL, "marker": "o", "linestyle": "", "markersize": 2.5}}
    panels.legend(figure, panels.key(table.bits, {"geometric mean": "D"}, dot))
    return figure


def _lines(row):
    first = row.contestants[0]["median_ms"]
    for c in row.contestants:
        gbps = c["least_bytes"] / c["median_ms"] / 1e6
        yield {
            "experiment": row.experiment,
            "matrix": row.graph,
            "product": f"{c['engine']} {c['layout']} {c['storage']}, vectors {c['vectors']}",
            "stored as": c["stored_as"],
            "ms": c["median_ms"],
            "least ms": c["least_ms"],
            "most ms": c["most_ms"],
            "times faster": first / c["median_ms"],
            "of copy bandwidth": gbps / row.copy_gbps,
            "bits": c["bits"],
            "error": c["error"],
        }
