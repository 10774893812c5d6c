"""Figure 6: whole solves, against float64 in the same kernels and against cuSPARSE with cuBLAS, beside the V100's."""

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends
from cpms.experiment.report.intervals import geometric, interval_text, ratio_ends
from cpms.experiment.report.output import label, printed, shortened, storage_of
from cpms.experiment.report.stand_ins import explained, in_order

NEEDS = ["gpu_speedup", "gpu_speedup_ell"]
BESIDE = ["gpu_systems"]
BITS = {"cpms2": 32, "cpms4": 16}
"""Storages, and the fewest bits that they read."""
MARKS = {"cuda": "o", "cuda_thread_rows": "s"}
NAMES = {"cuda": "ours", "cuda_thread_rows": "the paper's kernel"}
RATIOS = ["over own fp64", "over cuSPARSE", "V100 over fp64"]


def show(rows, out, beside):
    rows = rows[rows.status == "ok"]
    paper = printed("v100").set_index("graph")
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row, paper, row.layout)])
    gpu = rows.gpu.iloc[0]
    told = table.drop(columns=["low", "high"])
    out.table(
        told,
        caption=f"Whole solves on {gpu}, medians; the V100 columns are the authors' timings. {explained(table.graph)}",
    )
    out.table(_means(table), suffix="_means", caption="Geometric means over the graphs; low, high: bootstrap, 95 %")
    drawn = table[table.engine.isin(MARKS) & table.storage.isin(BITS) & table["over own fp64"].notna()]
    drawn = drawn[drawn.tol == (1e-10 if (drawn.tol == 1e-10).any() else drawn.tol.min())]
    drawn = pd.concat([drawn, _contest(beside, set(drawn[drawn.layout == "ell"].graph))])
    if drawn.empty:
        out.leave_out("figure fig6", f"no graph was solved by engine cuda in fp64 and in one of {', '.join(BITS)}")
        return
    in_ell, in_csr = (set(drawn[drawn.layout == layout].graph) for layout in ("ell", "csr"))
    lacking = ", ".join(name.removesuffix(" (stand-in)") for name in in_order(drawn.graph) if name in in_csr - in_ell)
    lacks = f", of which there are none of {lacking}" if in_ell and lacking else ""
    out.figure(
        _figure(drawn, out),
        caption=f"Whole solves on {gpu} over float64 in the same kernels and layout, medians with "
        f"{interval_text(rows)}. Red: cpms4, orange: cpms2; circles: the faster of two kernels of ours, squares: the "
        "paper's kernel, hollow diamonds: the authors' V100, from their raw timings, which are of CSR. ELL: all graphs "
        f"whose solves were measured{lacks}. Means are over the graphs that both kernels solved: "
        f"{_numbers_in_common(drawn)}{_over_all(drawn)}. {explained(drawn.graph)}",
        alt=ends(drawn, "over own fp64", ["graph", "layout", "engine", "storage"], "Speed-up of solves", "times"),
    )


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


def _contest(rows, known):
    """Return the solves in ELL of the contest of all engines, on graphs that are not known."""
    found = []
    for _, row in rows[rows.status == "ok"].iterrows() if len(rows) else ():
        row["results"] = [r for r in row.results if (r["engine"], r.get("layout")) == ("cuda", "ell")]
        found += [line for line in _lines(row, pd.DataFrame(), "ell") if line["storage"] in BITS]
    return pd.DataFrame([line for line in found if line["graph"] not in known])


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
    layouts = [layout for layout in ("csr", "ell") if (drawn.layout == layout).any()]
    graphs = {layout: in_order(drawn[drawn.layout == layout].graph) for layout in layouts}
    height = panels.rows_height(range(1 + max(map(len, graphs.values()))), 0.25, 0.55)
    figure, axes = panels.grid(out.width, len(layouts), height, columns=(1, 2), sharex=True)
    for panel, layout in zip(axes, layouts, strict=True):
        part, own = drawn[drawn.layout == layout], graphs[layout]
        for line in part.itertuples():
            at = own.index(line.graph) + _offset(line.storage, line.engine)
            style = {"ends": (line.low, line.high), "size": 3.6}
            panels.point(
                panel, line[part.columns.get_loc(RATIOS[0]) + 1], at, BITS[line.storage], MARKS[line.engine], **style
            )
        for (engine, storage), group in _in_common(part).groupby(["engine", "storage"], sort=False):
            mean, at = geometric(group[RATIOS[0]]), len(own) + _offset(storage, engine)
            style = {"ends": (mean["low"], mean["high"]), "size": 4.8}
            panels.point(panel, mean["mean"], at, BITS[storage], MARKS[engine], **style)
        for storage, group in part[part.engine == "cuda"].groupby("storage"):
            theirs = group.set_index("graph")[RATIOS[2]].dropna()
            for graph, ratio in theirs.items():
                panels.point(
                    panel, ratio, own.index(graph) + _offset(storage), BITS[storage], "D", filled=False, size=5
                )
            if len(theirs):
                mean = geometric(theirs)["mean"]
                panels.point(panel, mean, len(own) + _offset(storage), BITS[storage], "D", filled=False, size=6)
        panels.unity(panel)
        of_means = f"mean of {_in_common(part).graph.nunique()}"
        panels.named_rows(panel, [*out.names(map(shortened, own)), of_means])
        panel.axhline(len(own) - 0.5, color=panels.NEUTRAL, linewidth=0.6)
        panel.set_title(layout.upper())
        panel.tick_params(axis="x", labelbottom=True)
    figure.supxlabel("times faster than float64, same kernels")
    panels.legend(figure, _entries(drawn))
    return figure


def _numbers_in_common(drawn):
    """Return how many graphs the means of each layout are over."""
    layouts = {layout: _in_common(part).graph.nunique() for layout, part in drawn.groupby("layout", sort=False)}
    return ", ".join(f"{count} in {layout.upper()}" for layout, count in layouts.items())


def _over_all(drawn):
    """Return the means of our kernels over all graphs of a layout, where the drawn ones are over fewer."""
    text = ""
    for layout, part in drawn.groupby("layout", sort=False):
        if set(_in_common(part).graph) != set(part.graph):
            ours = part[part.engine == "cuda"].groupby("storage", sort=False)[RATIOS[0]]
            means = " and ".join(f"{geometric(found)['mean']:.3g} times in {storage}" for storage, found in ours)
            text += f"; over all {part.graph.nunique()} in {layout.upper()}, ours are {means}"
    return text


def _in_common(part):
    """Return the lines of graphs that each kernel of a layout solved in each storage: means are of the same graphs."""
    kinds = part.groupby("graph")[["engine", "storage"]].apply(lambda lines: len(lines.drop_duplicates()))
    return part[part.graph.isin(kinds[kinds == kinds.max()].index)]


def _offset(storage, engine=None):
    """Return how far from the middle of its row a mark is, in rows: each storage has a line for each of our kernels."""
    return (-0.25 if storage == "cpms2" else 0.25) + {"cuda": -0.13, "cuda_thread_rows": 0.13}.get(engine, 0.0)


def _entries(drawn):
    colours = {
        f"{name}, {bits} bits": {"color": panels.colour(bits), "marker": "s", "linestyle": ""}
        for name, bits in BITS.items()
    }
    shapes = {NAMES[engine]: mark for engine, mark in MARKS.items() if (drawn.engine == engine).any()}
    hollow = {"color": panels.NEUTRAL, "marker": "D", "mfc": "white", "mew": 0.7, "ms": 4.5, "linestyle": ""}
    theirs = {"V100": hollow} if drawn[RATIOS[2]].notna().any() else {}
    return [*panels.key(lines=colours), *panels.key(marks=shapes, lines=theirs)]
