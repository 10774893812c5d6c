"""Figure 4: the product by bits read, against float64 in the same layout and against cuSPARSE."""

import re

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.intervals import UNSEEN, geometric
from cpms.experiment.report.output import label, printed, shortened
from cpms.experiment.report.stand_ins import STAND_INS, in_order
from cpms.formats.formats import format_named

NEEDS = ["gpu_spmv"]
SHOWN = [("cpms2", 1), ("cpms2", 2), ("cpms4", 1), ("cpms4", 2), ("cpms4", 3), ("cpms4", 4)]
MARKS = {"cpms2": "o", "cpms4": "s"}
OURS, THEIRS = "geometric mean", "V100, printed mean"


def show(rows, out):
    rows = rows[rows.status == "ok"]
    times = _times(rows)
    if times.empty:
        out.leave_out("tables and figure", "the rows have no products of engines but cusparse")
        return
    for engine, suffix in (("cuda", ""), ("cuda_thread_rows", "_thread_rows")):
        out.table(
            _table(times[times.engine == engine]),
            suffix=suffix,
            caption=f"Product on {rows.gpu.iloc[0]}, engine {engine}: times faster than float64 in the same layout; "
            f"bold: the fastest reading of a graph. {STAND_INS}",
            best={_column(storage, read): "row most" for storage, read in SHOWN},
        )
    drawn = times[(times.engine == "cuda") & times.over_fp64.notna() & (times.storage != "fp64")]
    drawn = drawn[drawn.layout.isin(["csr", "ell"])]
    if drawn.empty:
        out.leave_out("figure fig4", "no product of engine cuda in csr or ell reads fewer bits than float64's")
        return
    of_paper = drawn.stand_in
    for part, suffix in ((drawn[of_paper], ""), (drawn[~of_paper], "_others" if of_paper.any() else "")):
        if len(part):
            doubles = times[(times.engine == "cuda") & (times.storage == "fp64")]
            _draw(part, rows, out, suffix, {*zip(doubles.graph, doubles.layout, strict=True)})


def _draw(part, rows, out, suffix, in_double):
    of_paper = part.stand_in.any()
    which = "stand-ins of the paper's graphs (*)" if of_paper else "other graphs"
    marks, means = "or 95 % bootstrap interval of the geometric mean", ""
    if of_paper:
        means = (
            ". Hollow: means on a V100, of the paper's own graphs, that it states for both layouts together; that of "
            "cpms4 at 32 bits is derived from 'lower by 30 %'"
        )
    else:
        part = part.sort_values("edges", ascending=False, kind="stable")
        which = f"{which}, most entries first"
    refused = _refused(rows)
    figure = _figure(part, out, refused)
    out.figure(
        figure,
        suffix=suffix,
        caption=f"Product on {rows.gpu.iloc[0]} over float64 in the same layout, {which}; above 1 faster. Colour: bits "
        f"read, marker: storage, from the top {_order()}. Lines: least to most of the samples, {marks}{UNSEEN}{means}. "
        f"Means are of {_counts(part)}{_memory(refused, part, in_double)}",
        results=lambda result: (
            result["engine"] == "cuda"
            and result["layout"] in ("csr", "ell")
            and pd.isna(result["stand_in_for"]) != of_paper
        ),
    )


def _counts(part):
    """Return the number of graphs of each layout in words."""
    counts = part.groupby("layout").graph.nunique()
    return " and ".join(f"{count} graphs in {layout.upper()}" for layout, count in counts.items())


def _order():
    """Return the bits of the marks of a row from its top, by storage: in grey some colours look alike."""
    bits = {
        storage: [str(format_named(storage).bits(read)) for name, read in SHOWN if name == storage] for storage in MARKS
    }
    return ", then ".join(f"{storage} {', '.join(each)}" for storage, each in bits.items())


def _times(rows):
    lines = []
    for _, row in rows.iterrows():
        own = {(c["engine"], c["layout"]): c for c in row.contestants if c["storage"] == "fp64"}
        library = own.get(("cusparse", "csr"), {"median_ms": np.nan})
        for c in row.contestants:
            double = own.get((c["engine"], c["layout"]))
            if c["engine"] != "cusparse":
                of_double = double or dict.fromkeys(("median_ms", "least_ms", "most_ms"), np.nan)
                lines.append(
                    {
                        **c,
                        "graph": label(row),
                        "edges": row.edges,
                        "stand_in": not pd.isna(row.stand_in_for),
                        "over_fp64": of_double["median_ms"] / c["median_ms"],
                        "low": of_double["least_ms"] / c["most_ms"],
                        "high": of_double["most_ms"] / c["least_ms"],
                        "over_cusparse": library["median_ms"] / c["median_ms"],
                    }
                )
    return pd.DataFrame(lines)


def _refused(rows):
    """Return the bytes that a graph would need in a layout in which it was not measured, and those that were free."""
    found = {}
    for _, row in rows.iterrows():
        for reason in row.refused.values():
            known = re.search(r"needs about ([\d,]+) bytes .* but ([\d,]+) are free", reason)
            if known:
                found[label(row), row.layout] = tuple(int(each.replace(",", "")) for each in known.groups())
    return found


def _memory(refused, drawn, in_double):
    """Return a sentence on the graphs that a layout has no marks of, since memory was short; some fit in float64."""
    shown = {*zip(drawn.graph, drawn.layout, strict=True)}
    lacking = {case: sizes for case, sizes in refused.items() if case not in shown and case[0] in set(drawn.graph)}
    if not lacking:
        return ""
    beside = "".join(
        f", {_bytes(lacking[case][1])} for {shortened(case[0])} beside its matrix in float64"
        for case in lacking
        if case in in_double
    )
    most = _bytes(max(free for _, free in lacking.values()))
    return f". Needs: the memory that building a layout takes, in which values exist twice; {most} were free{beside}"


def _bytes(count):
    return f"{count / 1e9:.3g} GB" if count < 1e12 else f"{count / 1e12:.2g} TB"


def _column(storage, read):
    return f"{storage} read {read}"


def _table(times):
    lines = []
    for (graph, layout), part in times.groupby(["graph", "layout"], sort=False):
        line = {"graph": graph, "layout": layout, "fp64, ms": np.nan, "fp64 / cuSPARSE": np.nan}
        for _, double in part[part.storage == "fp64"].head(1).iterrows():
            line |= {"fp64, ms": double.median_ms, "fp64 / cuSPARSE": double.over_cusparse}
        for storage, read in SHOWN:
            found = part[(part.storage == storage) & (part.read == read)]
            line[_column(storage, read)] = found.over_fp64.iloc[0] if len(found) else np.nan
        lines.append(line)
    return pd.DataFrame(lines)


def _figure(drawn, out, refused):
    layouts = [layout for layout in ("csr", "ell") if (drawn.layout == layout).any()]
    graphs = in_order(drawn.graph)  # Those of the paper as there, others as they come.
    theirs = _printed() if drawn.stand_in.any() else pd.DataFrame()
    names = out.names(map(shortened, graphs), None if out.double else 20)
    names += [OURS, *([THEIRS] if len(theirs) else [])]
    figure, axes = panels.grid(
        out.width, len(layouts), panels.rows_height(names, 0.28), columns=(2, 2), sharex=True, sharey=True
    )
    for panel, layout in zip(axes, layouts, strict=True):
        for k, (storage, read) in enumerate(SHOWN):
            line = drawn[(drawn.layout == layout) & (drawn.storage == storage) & (drawn.read == read)]
            at = panels.beside(k, len(SHOWN), 0.9)
            for each in line.itertuples():
                style = {"ends": (each.low, each.high), "size": 2.0}
                panels.point(panel, each.over_fp64, graphs.index(each.graph) + at, each.bits, MARKS[storage], **style)
            if len(line):
                mean = geometric(line.over_fp64)
                style = {"ends": (mean["low"], mean["high"]), "size": 2.8}
                panels.point(panel, mean["mean"], len(graphs) + at, line.bits.iloc[0], MARKS[storage], **style)
        for each in theirs.itertuples():
            at = len(graphs) + 1 + panels.beside(SHOWN.index((each.storage, each.read)), len(SHOWN), 0.9)
            panels.point(panel, each.speedup, at, each.bits, MARKS[each.storage], filled=False, size=2.8)
        shades = (panels.BAND, "white")
        for place, graph in enumerate(graphs):
            if not ((drawn.graph == graph) & (drawn.layout == layout)).any():
                needed, _ = refused.get((graph, layout), (None, None))
                missing = "no rows" if needed is None else f"needs {_bytes(needed)}"
                panels.note(panel, place, missing, shades[place % 2])
        panels.unity(panel)
        panels.named_rows(panel, names)
        panels.bands(panel, len(names))
        panel.axhline(len(graphs) - 0.5, color=panels.NEUTRAL, linewidth=0.6)
        panel.set_title(layout.upper())
        panels.logarithmic(panel)
    figure.supxlabel("times faster than float64, same layout")
    panels.legend(figure, panels.key(drawn.bits, MARKS, {"V100": panels.HOLLOW} if len(theirs) else {}))
    return figure


def _printed():
    """Return the means of Figure 4 that the paper's text states."""
    claims = printed("claims")
    return claims[(claims.figure == 4) & claims.speedup.notna()]
