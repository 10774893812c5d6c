"""Passes of an iteration of conjugate gradients on a GPU, each alone: bytes, time, share of a copy's bandwidth."""

import pandas as pd

from cpms.experiment.report.solve_tables import HELD_OUT

NEEDS = ["gpu_cg_kernels"]
BESIDE = ["gpu_cg_time"]
TOGETHER = 8
"""Iterations whose steps x takes in one pass."""
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
        f"curvature, the product finds it. Solution: of {TOGETHER} iterations; iteration: all kernels, with a part of "
        f"the solution, {1 / TOGETHER:g}"
        + ("; iteration of a solve: time of a whole solve over its iterations, residuals included" if solved else "")
        + (". On the matrix marked held out nothing was tuned" if held else ""),
    )


def _lines(row, of_solves):
    """Yield the lines of a matrix: for each way its kernels, an iteration, and one of a whole solve where there is."""
    ways = {}
    for each in row.contestants:
        ways.setdefault((each["storage"], each["vectors"]), {})[each["stage"]] = each
    held = " (held out)" if row.graph.startswith(HELD_OUT[NEEDS[0]]) else ""
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
