"""Figure 6: whole solves, against float64 in the same kernels and against cuSPARSE with cuBLAS, beside the V100's."""

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.intervals import PREPARED, geometric, interval_text, ratio_ends
from cpms.experiment.report.output import label, printed, shortened, storage_of
from cpms.experiment.report.stand_ins import STAND_INS, in_order, too_large

NEEDS = ["gpu_speedup", "gpu_speedup_ell"]
BITS = {"cpms2": 32, "cpms4": 16}
"""Storages, and the fewest bits that they read."""
MARKS = {"cuda": "o", "cuda_thread_rows": "s"}
NAMES = {"cuda": "ours", "cuda_thread_rows": "as the paper's kernel"}
RATIOS = ["over own fp64", "over cuSPARSE", "V100 over fp64"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    paper = printed("v100").set_index("graph")
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row, paper, row.layout)])
    gpu = rows.gpu.iloc[0]
    out.table(
        table,
        caption=f"Whole solves on {gpu}, medians; low and high: {interval_text(rows)}, over own fp64; the V100 columns "
        f"are the authors' timings of the paper's own graphs. {STAND_INS}",
    )
    out.table(_means(table), suffix="_means", caption="Geometric means over the graphs; low, high: bootstrap, 95 %")
    drawn = table[table.engine.isin(MARKS) & table.storage.isin(BITS) & table["over own fp64"].notna()]
    drawn = drawn[drawn.tol == (1e-10 if (drawn.tol == 1e-10).any() else drawn.tol.min())]
    if drawn.empty:
        out.leave_out("figure fig6", f"no graph was solved by engine cuda in fp64 and in one of {', '.join(BITS)}")
        return
    figure = _figure(drawn, out)
    out.figure(
        figure,
        caption=f"Whole solves to {drawn.tol.iloc[0]:g} on {gpu} over float64 in the same kernels and layout, medians "
        f"with {interval_text(rows)}, and geometric means over {_counts(drawn)} with theirs; above 1 faster. Colour: "
        "storage, and the fewest bits that its sweeps read before they rise to 64; marker: the faster of two kernels "
        "of ours, or one built as the paper's, a thread a row; hollow: the authors' V100, in CSR, on the paper's own "
        f"graphs, from their raw timings{PREPARED}. {too_large(rows)}",
        results=lambda result: result["engine"] in MARKS,
    )


def _counts(drawn):
    """Return the number of graphs that means are of, by layout, in words."""
    counts = {layout: _in_common(part).graph.nunique() for layout, part in drawn.groupby("layout")}
    return " and ".join(f"{count} graphs in {layout.upper()}" for layout, count in counts.items())


def _lines(row, paper, layout):
    solved = [result for result in row.results if result["status"] == "ok"]
    doubles = {result["engine"]: result for result in solved if result["storage"] == "fp64"}
    for result in solved:
        own = doubles.get(result["engine"], {"solve_s": np.nan})
        low, high = ratio_ends(own.get("solve_samples_s"), result.get("solve_samples_s"))
        yield {
            "graph": label(row),
            "layout": layout,
            "tol": row.tol,
            "engine": result["engine"],
            "storage": storage_of(result),
            "iterations": result["iterations"],
            "solve, ms": 1e3 * result["solve_s"],
            "over own fp64": own["solve_s"] / result["solve_s"],
            "low": low,
            "high": high,
            "over cuSPARSE": doubles["cusparse"]["solve_s"] / result["solve_s"] if "cusparse" in doubles else np.nan,
            "V100 over fp64": _on_a_v100(row, result, paper, layout),
        }


def _on_a_v100(row, result, paper, layout):
    """Return the authors' ratio, which they print for whole solves in CSR to 1e-10."""
    key = f"total_{result['storage']}_ms"
    printed_there = layout == "csr" and row.tol == 1e-10 and result.get("most_read") is None
    if not printed_there or row.stand_in_for not in paper.index or key not in paper:
        return np.nan
    known = paper.loc[row.stand_in_for]
    return known["total_fp64_ms"] / known[key]


def _means(table):
    lines = []
    for keys, part in table.groupby(["layout", "tol", "engine", "storage"], sort=False):
        line = dict(zip(("layout", "tol", "engine", "storage"), keys, strict=True))
        own = geometric(part[RATIOS[0]])
        line |= {RATIOS[0]: own["mean"], "low": own["low"], "high": own["high"], "least": own["least"]}
        line |= {name: geometric(part[name])["mean"] for name in RATIOS[1:]}
        lines.append(line | {"graphs": len(part)})
    return pd.DataFrame(lines)


def _figure(drawn, out):
    from matplotlib.ticker import MultipleLocator

    layouts = [layout for layout in ("csr", "ell") if (drawn.layout == layout).any()]
    graphs = in_order(drawn.graph)
    names = [*out.names(map(shortened, graphs), None if out.double else 20), "geometric mean"]
    figure, axes = panels.grid(
        out.width, len(layouts), panels.rows_height(names, 0.42), columns=(2, 2), sharex=True, sharey=True
    )
    for panel, layout in zip(axes, layouts, strict=True):
        part = drawn[drawn.layout == layout]
        theirs = part[(part.engine == "cuda") & part[RATIOS[2]].notna()]
        for found, ratio, engine in ((part, RATIOS[0], None), (theirs, RATIOS[2], "V100")):
            lines = [(graphs.index(line["graph"]), line, line[ratio], line) for line in found.to_dict("records")]
            for _, group in _in_common(found).groupby(["engine", "storage"], sort=False):
                mean = geometric(group[ratio])
                lines.append((len(graphs), group.iloc[0], mean["mean"], mean))
            for row, line, value, interval in lines:
                kernel, storage = engine or line["engine"], line["storage"]
                ends_of = None if engine else (interval["low"], interval["high"])
                style = {"ends": ends_of, "filled": kernel in MARKS, "size": 2.6}
                panels.point(panel, value, row + _at(storage, kernel), BITS[storage], MARKS.get(kernel, "D"), **style)
        for place in (place for place, graph in enumerate(graphs) if graph not in set(part.graph)):
            panels.note(panel, place, "no solve")
        panels.unity(panel)
        panels.named_rows(panel, names)
        panel.axhline(len(graphs) - 0.5, color=panels.NEUTRAL, linewidth=0.6)
        panel.set_title(layout.upper())
    axes[0].xaxis.set_major_locator(MultipleLocator(0.1 if out.double else 0.2))
    axes[0].xaxis.set_minor_locator(MultipleLocator(0.05))
    axes[0].xaxis.set_major_formatter("{x:g}")
    figure.supxlabel("times faster than float64, same kernels")
    panels.legend(figure, _entries(drawn))
    return figure


def _at(storage, kernel):
    """Return the distance of a mark from the middle of its row: those of a storage lie together."""
    half, kernels = 1 if list(BITS).index(storage) else -1, ["cuda", "V100", "cuda_thread_rows"]
    return 0.23 * half + panels.beside(kernels.index(kernel), len(kernels), 0.4)


def _in_common(part):
    """Return the lines of graphs that each kernel of a layout solved in each storage: means are of the same graphs."""
    kinds = part.groupby("graph")[["engine", "storage"]].apply(lambda lines: len(lines.drop_duplicates()))
    return part[part.graph.isin(kinds[kinds == kinds.max()].index)]


def _entries(drawn):
    colours = {
        f"{name}, from {bits} bits": {"color": panels.colour(bits), **panels.SWATCH} for name, bits in BITS.items()
    }
    shapes = {NAMES[engine]: mark for engine, mark in MARKS.items() if (drawn.engine == engine).any()}
    hollow = {"color": panels.NEUTRAL, "marker": "D", "mfc": "white", "mew": 0.7, "ms": 4.5, "linestyle": ""}
    theirs = {"V100": hollow} if drawn[RATIOS[2]].notna().any() else {}
    return [*panels.key(lines=colours), *panels.key(marks=shapes, lines=theirs)]
