"""Linear systems: iterations, bytes and times by way; residuals against iterations and bytes, coloured by bits."""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends
from cpms.experiment.report.output import shortened
from cpms.experiment.report.palette import colour

NEEDS = ["linear_cpu", "linear_gpu"]
MARKS = "osD^vP*"
REPEATED = {
    "": "iterations in fp64 and fp32 read two bytes a row in place of its entries, those in bfp16, at that commit, all "
    "entries",
    "_gpu": "iterations read two bytes a row in place of its entries, except of a matrix in fp64",
}
"""What products read of a matrix whose rows repeat, on processors and on a GPU."""


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    out.table(
        table,
        caption="Linear systems: what each way takes to the same certified residual",
        best={"solve ms": "least by matrix,right-hand side"},
    )
    for experiment, here in rows.groupby("experiment", sort=False):
        of_gpu = "_gpu" if experiment.endswith("gpu") else ""
        lines = pd.DataFrame([line for _, row in here.iterrows() for line in _lines(row)])
        measured = lines[lines["GB read"] > 0]
        repeated = f". Rows of these grids repeat: {REPEATED[of_gpu]}"
        is_alike = any(_drawn(row) != row.ways_found for _, row in here.iterrows())
        alike = ". The format that auto chose, fp32, gives the same curve" if is_alike else ""
        for along, suffix, of in (
            ("iteration", "", "iterations"),
            ("GB read", "_bytes", "the bytes of matrix and vectors that are read"),
        ):
            column = "iterations" if along == "iteration" else along
            out.figure(
                _figure(here, out, along),
                suffix=f"{of_gpu}{suffix}",
                caption=f"Conjugate gradients: residual relative to the right-hand side, against {of}; a panel is a "
                "stencil of so many points on a grid of that side, and a right-hand side. A curve is one run, in the "
                "colour of the fewest bits of a vector's value; where curves coincide, the last is seen. Its mark "
                f"names the formats of vectors and of the matrix{alike}{repeated if suffix else ''}",
                alt=ends(
                    measured,
                    column,
                    ["matrix", "method", "storage"],
                    f"{column[0].upper()}{column[1:]} to the same residual",
                ),
                timed=False,
                of=[experiment],
            )


def _figure(rows, out, along):
    figure, axes = panels.grid(out.width, len(rows), 2.1, columns=(2, 4), sharey=True)
    read, ways = set(), {}
    for panel, (_, row) in zip(axes, rows.iterrows(), strict=True):
        for way in _drawn(row):
            steps = pd.DataFrame(way["history"], columns=["iteration", "residual", "bits", "bytes"])
            if steps.empty:
                continue
            steps["GB read"] = (steps.bytes * steps.iteration.diff().fillna(steps.iteration)).cumsum() / 1e9
            read.add(bits := steps.bits.min())
            mark = ways.setdefault(_way(way), MARKS[len(ways) % len(MARKS)])
            panel.plot(steps[along], steps.residual, color=colour(bits), linewidth=0.8, zorder=1)
            level = 10.0 ** (-2 - 8 * list(ways).index(_way(way)) / len(row.ways_found))
            at = steps.iloc[int((steps.residual <= level).to_numpy().argmax() or len(steps) - 1)]
            panel.plot(at[along], at.residual, mark, ms=4.5, color=colour(bits), mfc="white", mew=0.8)
        panel.set(title=f"{shortened(row.graph)}, {row.rhs}", xlabel=along)
        panel.locator_params(axis="x", nbins=4)
    panels.logarithmic(axes[0], "y")
    figure.supylabel("relative residual")
    lines = {name: {**panels.HOLLOW, "marker": mark} for name, mark in ways.items()}
    panels.legend(figure, panels.key(read, lines=lines))
    return figure


def _drawn(row):
    """Return the ways of a row without auto, where it is the one in fp32."""
    other = [way["history"] for way in row.ways_found if way["vectors"] == ["fp32"]]
    return [way for way in row.ways_found if way["method"] != "auto" or way["history"] not in other]


def _way(way):
    """Return the name of a way: whose it is, and the formats of vectors and matrix."""
    vectors = "SciPy" if way["engine"] == "scipy" else "auto" if way["method"] == "auto" else " ".join(way["vectors"])
    return f"{vectors}, matrix {way['stored_as']}"


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
