"""Linear systems: iterations, bytes and times by way; residuals against iterations and bytes, coloured by bits."""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends
from cpms.experiment.report.output import shortened
from cpms.experiment.report.palette import colour

NEEDS = ["linear_cpu"]
MARKS = "osD^vP*"


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    out.table(
        table,
        caption="Linear systems: what each way takes to the same certified residual",
        best={"solve ms": "least by matrix,right-hand side"},
    )
    for along, suffix, of in (
        ("iteration", "", "iteration"),
        ("GB", "_bytes", "the bytes of matrix and vectors that iterations have read"),
    ):
        out.figure(
            _figure(rows, out, along),
            suffix=suffix,
            caption=f"Residual over the right-hand side against {of}, in the colour of the bits of a vector's value; "
            "the mark at the end of a curve names the way; each curve is one run",
            alt=ends(
                table,
                "iterations" if along == "iteration" else "GB read",
                ["matrix", "method", "storage"],
                "Iterations to the same residual" if along == "iteration" else "GB read to the same residual",
            ),
            timed=False,
        )


def _figure(rows, out, along):
    figure, axes = panels.grid(out.width, len(rows), 1.8, columns=(2, 3), sharey=True)
    read, ways = set(), {}
    for panel, (_, row) in zip(axes, rows.iterrows(), strict=True):
        for way in row.ways_found:
            steps = pd.DataFrame(way["history"], columns=["iteration", "residual", "bits", "bytes"])
            if steps.empty:
                continue
            steps["GB"] = (steps.bytes * steps.iteration.diff().fillna(steps.iteration)).cumsum() / 1e9
            read |= set(steps.bits)
            mark = ways.setdefault(_way(way), MARKS[len(ways) % len(MARKS)])
            panel.plot(steps[along], steps.residual, color="#bbbbbb", linewidth=0.5, zorder=0)
            for bits, part in steps.groupby("bits"):
                panel.plot(part[along], part.residual, ".", markersize=2, color=colour(bits))
            last = steps.iloc[-1]
            panel.plot(last[along], last.residual, mark, ms=4.5, color=colour(last.bits), mec="#222222", mew=0.5)
        panel.set_title(f"{shortened(row.graph)}, {row.rhs}")
    panels.logarithmic(axes[0], "y")
    figure.supxlabel("iteration" if along == "iteration" else "GB read")
    figure.supylabel("residual, relative")
    panels.legend(figure, panels.key(read, ways))
    return figure


def _way(way):
    """Return the name of a way: method, engine, and its vectors."""
    return f"{way['used']}, {way['engine']}, {' '.join(way['vectors'])}"


def _lines(row):
    first = row.ways_found[0]
    for way in row.ways_found:
        yield {
            "matrix": row.graph,
            "right-hand side": row.rhs,
            "method": way["used"],
            "engine": way["engine"],
            "storage": way["stored_as"],
            "vectors": " ".join(way["vectors"]),
            "status": way["status"],
            "iterations": way["iterations"],
            "residual": way["residual"],
            "GB read": way["bytes_read"] / 1e9,
            "solve ms": 1e3 * way["solve_s"],
            "times faster": first["solve_s"] / way["solve_s"] if way["solve_s"] else 1.0,
        }
