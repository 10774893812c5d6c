"""Whole solves as PageRank_Thrust composes them: reduce by key on the edges, then the five best."""

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.intervals import PREPARED, UNSEEN, geometric, interval_text, median_ends
from cpms.experiment.report.output import label, shortened

NEEDS = ["gpu_systems"]
BESIDE = ["gpu_topk"]
SOLVES = {
    "reduce_by_key": ("reduce by key", "^"),
    "coo_streams": ("edges by warps", "v"),
    "cusparse": ("cuSPARSE, CSR", "X"),
    "cuda_fused": ("fused sweeps", "o"),
}
FEW = 5


def show(rows, out, beside):
    rows = rows[rows.status == "ok"].drop_duplicates(["graph"], keep="last")
    solved = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    if solved.empty or not (solved.engine == "reduce_by_key").any():
        out.leave_out("tables and figure", "no graph was solved by engine reduce_by_key")
        return
    gpu, tol = rows.gpu.iloc[0], rows.tol.iloc[0]
    best = _best_of(beside)
    out.table(
        _table(solved, best),
        caption=f"Whole solves in float64 to {tol:g} on {gpu}, medians in turn; top {FEW}: time of the {FEW} largest "
        "of an array of random values of the next recorded length, by our merge of sorted lists, which is theirs with "
        "a rule for ties. Engine reduce_by_key keeps the mass of dangling nodes and a damping of 0.85, where the "
        "program drops it and damps by 0.2, so no time of its own is quoted: it prints none",
        best={f"{name}, ms": "row least" for name, _ in SOLVES.values()},
    )
    out.figure(
        _figure(solved, out),
        caption=f"Whole solves in float64 to {tol:g} on {gpu} by four ways to sum the rows of one matrix, all built "
        f"here, medians with {interval_text(rows)}{UNSEEN}: CUB's reduction by key, as in PageRank_Thrust; edges by "
        "warps; cuSPARSE in CSR; and one fused kernel. Graphs are in the order of their edges. The geometric mean over "
        "the fastest of a graph is "
        + ", ".join(f"{ratio:.2f} ({name})" for name, ratio in _means(solved).items())
        + PREPARED,
        of=["gpu_systems"],
        results=_is_drawn,
    )


def _is_drawn(result):
    """Return whether a result is a solve in float64 by one of the ways that are compared."""
    plain = result["status"] == "ok" and result["storage"] == "fp64" and result.get("method", "power") == "power"
    is_coo = result["engine"] == "cusparse" and result.get("layout") == "coo"
    return plain and result["engine"] in SOLVES and not is_coo


def _lines(row):
    for result in row.results:
        if _is_drawn(result):
            low, high = median_ends(result["solve_samples_s"])
            yield {
                "graph": label(row),
                "nodes": row.nodes,
                "edges": row.edges,
                "engine": result["engine"],
                "iterations": result["iterations"],
                "ms": 1e3 * result["solve_s"],
                "low": 1e3 * low,
                "high": 1e3 * high,
            }


def _best_of(rows):
    """Return the milliseconds of the few largest of random float64 values, by their number."""
    if rows.empty:
        return {}
    rows = rows[(rows.status == "ok") & (rows["dtype"] == "float64") & (rows.pattern == "random")]
    found = {}
    for _, row in rows.iterrows():
        times = [r["median_ms"] for r in row.results if (r["contestant"], r["k"]) == ("cpms", FEW)]
        found |= {int(row["values"]): time for time in times}
    return found


def _table(solved, best):
    lines = []
    for graph, part in solved.groupby("graph", sort=False):
        times = part.set_index("engine").ms
        nodes = part.nodes.iloc[0]
        lines.append(
            {
                "graph": graph,
                "nodes": nodes,
                "edges": part.edges.iloc[0],
                "iterations": part.iterations.iloc[0],
                **{f"{name}, ms": times.get(engine, np.nan) for engine, (name, _) in SOLVES.items()},
                f"top {FEW}, ms": next((best[size] for size in sorted(best) if size >= nodes), np.nan),
            }
        )
    return pd.DataFrame(lines)


def _means(solved):
    fastest = solved.groupby("graph").ms.min()
    over = solved.assign(over=solved.ms / solved.graph.map(fastest))
    return {name: geometric(over[over.engine == engine].over)["mean"] for engine, (name, _) in SOLVES.items()}


def _figure(solved, out):
    graphs = list(solved.sort_values("edges").graph.drop_duplicates())
    names = out.names(map(shortened, graphs), of=["gpu_systems"])
    figure, (axes,) = panels.grid(out.width, 1, panels.rows_height(names, 0.25))
    for line in solved.itertuples():
        _, mark = SOLVES[line.engine]
        place = graphs.index(line.graph) + panels.beside(list(SOLVES).index(line.engine), len(SOLVES), 0.9)
        filled = line.engine != "coo_streams"
        panels.point(axes, line.ms, place, 64, mark, ends=(line.low, line.high), size=3.4, filled=filled)
    panels.named_rows(axes, names)
    panels.logarithmic(axes)
    axes.set_xlabel("ms a solve")
    style = {"color": panels.colour(64), "linestyle": "", "markersize": 5}
    lines = {name: {**style, "marker": mark} for name, mark in SOLVES.values()}
    lines[SOLVES["coo_streams"][0]]["markerfacecolor"] = "white"
    panels.legend(figure, panels.key(lines=lines))
    return figure
