"""Passes of an iteration of conjugate gradients on a GPU, each alone: bytes, time, share of a copy's bandwidth."""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import shortened
from cpms.experiment.report.solve_tables import HELD_OUT

NEEDS = ["gpu_cg_kernels"]
BESIDE = ["gpu_cg_time"]
TOGETHER = 8
"""Iterations whose steps x takes in one pass."""
BITS = {"fp64": 64, "fp32": 32, "bfp16": 16}
HELD_OUT_ENDING = " (held out)"
KERNELS = ("product", "curvature", "update", "direction", "solution")


def show(rows, out, beside):
    rows = rows[rows.status == "ok"]
    solves = beside[beside.status == "ok"] if len(beside) else beside
    of_solves = {
        (row.gpu, row.graph, row.rhs, way["storage"], *way["vectors"]): 1e3 * way["solve_s"] / way["iterations"]
        for _, row in solves.iterrows()
        for way in row.ways_found
        if (way["engine"], way["method"], way["status"]) == ("cuda", "cg", "CONVERGED")
    }
    lines = [line for _, row in rows.iterrows() for line in _lines(row, of_solves)]
    held = any(row.graph.startswith(HELD_OUT[NEEDS[0]]) for _, row in rows.iterrows())
    solved = any(line["kernel"] == "iteration of a solve" for line in lines)
    out.table(
        pd.DataFrame(lines).dropna(axis="columns", how="all"),
        caption=f"The kernels of an iteration of conjugate gradients on {rows.gpu.iloc[0]}; MB: moved at least; of a "
        "copy: GB/s over those of a copy. Each kernel was timed alone, several launches in a row, by device events, so "
        "that data in the cache are not read from memory again, and small vectors exceed a copy. Where there is no "
        f"curvature, the product computes it. Solution: of {TOGETHER} iterations; iteration: all kernels, with a part "
        f"of the solution, {1 / TOGETHER:g}"
        + ("; iteration of a solve: time of a whole solve over its iterations, residuals included" if solved else "")
        + (". On the matrix marked held out nothing was tuned" if held else ""),
    )
    of_ways = [
        "matrix",
        "matrix in",
        "vectors",
        "kernel",
    ]  # No format of fewer bits may be lossless: then it is float64.
    table = pd.DataFrame(lines).dropna(subset="of a copy").drop_duplicates(of_ways)
    out.figure(
        _figure(table, out),
        caption="Share of a copy's bandwidth that each kernel of an iteration of conjugate gradients reaches, of the "
        "bytes that it moves at least. Each kernel was timed alone, several launches in a row, so small vectors that "
        "stay in the cache exceed a copy. Filled: the matrix in a lossless format of fewer bits, or in float32; "
        "hollow: in float64. Colour: bits of a vector's value. A kernel that moves fewer bytes may be faster at a "
        "smaller share. Product: Ap; curvature: p'Ap, of its own where the product does not compute it; update: "
        f"the residual and its norm; direction: p; solution: once in {TOGETHER} iterations; iteration: all kernels; "
        "numbers at the ends of titles: sides of grids"
        + ("; nothing was tuned on the matrix held out" if held else ""),
        of=NEEDS,
    )


def _figure(table, out):
    """Draw a panel for each matrix, with a row for each kernel and a mark for each way of storing."""
    kernels = [kernel for kernel in (*KERNELS, "iteration") if kernel in set(table.kernel)]
    matrices = list(dict.fromkeys(table.matrix))
    height = panels.rows_height(kernels, 0.26, 0.4)
    figure, axes = panels.grid(out.width, len(matrices), height, columns=(2, 3), sharex=True, sharey=True)
    for panel, matrix in zip(axes, matrices, strict=True):
        part = table[table.matrix == matrix]
        ways = part.groupby(["matrix in", "vectors"], sort=False)
        for place, ((matrix_in, vectors), way) in enumerate(ways):
            above = 0.2 * (place - (len(ways) - 1) / 2)
            for kernel, share in zip(way.kernel, way["of a copy"], strict=True):
                at = kernels.index(kernel) + above
                panels.point(panel, 100 * share, at, BITS[vectors], filled=matrix_in != "fp64", size=3.4)
        panels.named_rows(panel, kernels)
        panel.axvline(100, color=panels.NEUTRAL, linewidth=0.7, zorder=0)
        panel.set_xlim(0, max(110.0, 105 * table["of a copy"].max()))
        panel.set_xticks([0, 50, 100])
        bare = matrix.removesuffix(HELD_OUT_ENDING)
        panel.set_title(shortened(bare) + ("\n(held out)" if bare != matrix else ""))
        panel.tick_params(labelbottom=True)
    figure.supxlabel("share of a copy's bandwidth, %")
    looks = {"lossless matrix or float32": panels.FILLED, "float64 matrix": panels.HOLLOW}
    panels.legend(figure, panels.key(table.vectors.map(BITS), lines=looks))
    return figure


def _lines(row, of_solves):
    """Yield the lines of a matrix: for each way its kernels, an iteration, and one of a whole solve where there is."""
    ways = {}
    for each in row.contestants:
        ways.setdefault((each["storage"], each["vectors"]), {})[each["stage"]] = each
    held = HELD_OUT_ENDING if row.graph.startswith(HELD_OUT[NEEDS[0]]) else ""
    for (storage, vectors), stages in ways.items():

        def line(kernel, moved, took_ms, least_ms=None, most_ms=None, stages=stages, vectors=vectors):
            rate = None if moved is None else moved / took_ms / 1e6
            return {
                "matrix": f"{row.graph}{held}",
                "matrix in": stages["product"]["stored_as"],
                "vectors": vectors,
                "kernel": kernel,
                "MB": None if moved is None else moved / 1e6,
                "ms": took_ms,
                "least ms": least_ms,
                "most ms": most_ms,
                "GB/s": rate,
                "of a copy": None if rate is None else rate / row.copy_gbps,
            }

        for kernel in KERNELS:
            if kernel in stages:
                found = stages[kernel]
                yield line(kernel, found["least_bytes"], *(found[f"{end}_ms"] for end in ("median", "least", "most")))
        yield line("iteration", *(_of_iteration(stages, key) for key in ("least_bytes", "median_ms")))
        solve_ms = of_solves.get((row.gpu, row.graph, row.rhs, storage, vectors))
        if solve_ms is not None:
            yield line("iteration of a solve", None, solve_ms)


def _of_iteration(stages, key):
    return sum(stage[key] / (TOGETHER if name == "solution" else 1) for name, stage in stages.items())
