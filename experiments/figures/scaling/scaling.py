"""Strong scaling over ranks and its Karp-Flatt metric, beside the report of Agrawal, Shendre and Goka."""

import pandas as pd

from cpms.base.text.counted import counted
from cpms.experiment.derived.karp_flatt import karp_flatt
from cpms.experiment.report import panels
from cpms.experiment.report.captions import spread
from cpms.experiment.report.intervals import interval_text, is_range, ratio_ends
from cpms.experiment.report.output import agrawal_table1, printed
from cpms.experiment.report.palette import NEUTRAL

NEEDS = ["scaling_cpu", "scaling_large_cpu"]
BESIDE = ["gpu_table1"]
LEAST = 10**4
"""Edges of the graphs of the figure; the caption has those of smaller ones, which would take a third of its width."""
HEADS = {
    "p": "processes", "T_p": "time, ms", "psi": "speed-up", "psi, one rank": "speed-up over one rank",
    "e, one rank": "e over one rank", "psi, printed": "speed-up, printed",
    "psi, one process": "speed-up over one process", "e, one process": "e over one process",
}  # fmt: skip
"""Heads of tables, by columns."""
DRAWN = "mpi, cpu products"
"""Our program of the figure; the tables have the one with plain loops, too."""


def show(rows, out, beside):
    rows = rows[rows.status == "ok"]
    ours = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    low, high = rows.load_average_before.min(), rows.load_average_before.max()
    machine = f"two shared CPU cores ({rows.cpu.iloc[0]}; load average {low:.1f} to {high:.1f} before a graph's solves)"
    out.table(
        ours.drop(columns=["vertices", "edges", "low", "high", "range"]).rename(columns=HEADS),
        best={"ms": "least by graph"},
        caption=f"Solves over ranks on {machine}, one thread a rank, medians in milliseconds; speed-up and e, the "
        "Karp-Flatt metric, against the serial program, and against one rank; waited: share of a solve in which a rank "
        "waits for the others",
    )
    out.table(
        _table1(ours, _on_gpu(beside)),
        suffix="_table1",
        caption="Agrawal et al.: Table 1 of Agrawal, Shendre and Goka as printed, where CUDA is cuSPARSE with cuBLAS; "
        f"and ours on {machine}{_gpu_too(beside)}, "
        "on their graphs where their files are known, else on uniformly random ones of the same size; milliseconds",
    )
    table2 = _table2()
    out.table(
        _as_printed(table2),
        suffix="_table2",
        of=(),
        caption="Table 2 of Agrawal, Shendre and Goka: e as printed, and e as it is defined, from the printed times, "
        f"against their serial program and against their own one process. {_trend(table2)}",
    )
    several = ours[(ours.program == DRAWN) & (ours.ranks > 1)].rename(columns={"psi, one rank": "speedup"})
    out.figure(
        _figure(table2, several, out),
        caption="Above, the Karp-Flatt metric of Agrawal, Shendre and Goka's Table 2, which prints no samples: as "
        "printed, and as defined, over their serial program and over one process of theirs; at 1 more processes are no "
        "faster. "
        f"Below, the speed-up of 2 of our ranks, with products of engine cpu, over one on {machine}, a mark a graph; "
        "lines: "
        f"{interval_text(rows, capped=True)}; at 1 two ranks are as fast as one{_small(several)}",
        of=NEEDS,
        results=lambda result: (result["engine"], result.get("local")) == ("mpi", "cpu"),
    )


def _small(several):
    """Return the speed-up of graphs that are too small for the figure, as a text for a caption."""
    left = several.drop(_large(several).index)
    return "".join(f". Not drawn: a graph of {line.edges} edges, {line.speedup:.2g}" for line in left.itertuples())


def _large(several):
    """Return the graphs that are not too small for the figure; of small ones alone, all."""
    large = several[several.edges >= LEAST]
    return large if len(large) else several


def _lines(row):
    results = {(r["engine"], r.get("local"), r["ranks"]): r for r in row.results}
    serial_s = results.get(("serial", None, 1), {}).get("solve_s", float("nan"))
    for (engine, local, ranks), result in results.items():
        solve_s = result["solve_s"]
        line = {
            "graph": row.graph_name,
            "vertices": row.nodes,
            "edges": row.edges,
            "program": "serial" if engine == "serial" else f"mpi, {local} products",
            "ranks": ranks,
            "ms": 1e3 * solve_s,
            "least ms": 1e3 * min(result["solve_samples_s"]),
            "most ms": 1e3 * max(result["solve_samples_s"]),
            "spread, %": 100 * spread(result["solve_samples_s"]),
            "iterations": result["iterations"],
        }
        if engine == "mpi":
            alone_s = results.get((engine, local, 1), {}).get("solve_s", float("nan"))
            line["psi"], line["e"] = serial_s / solve_s, karp_flatt(serial_s / solve_s, ranks)
            line["psi, one rank"], line["e, one rank"] = alone_s / solve_s, karp_flatt(alone_s / solve_s, ranks)
            samples = results.get((engine, local, 1), {}).get("solve_samples_s")
            line["low"], line["high"] = ratio_ends(samples, result["solve_samples_s"])
            line["range"] = is_range(samples, result["solve_samples_s"])
            line["waited"] = result["waited_s"] / solve_s
        yield line


def _on_gpu(beside):
    """Return medians of whole solves by vertices and edges, a column a program."""
    names = {("cusparse", "power"): "cuSPARSE, ours", ("cuda_fused", "power"): "CUDA, fp64, ours"}
    lines = [
        {
            "vertices": row.nodes,
            "edges": row.edges,
            **{
                names.get((r["engine"], r.get("method", "power")), "CUDA, refine, ours"): 1e3 * r["solve_s"]
                for r in row.results
                if r["status"] == "ok"
            },
        }
        for _, row in (beside[beside.status == "ok"].iterrows() if len(beside) else [])
    ]
    return pd.DataFrame(lines, columns=None if lines else ["vertices", "edges"])


def _gpu_too(beside):
    return "" if beside.empty else f" and on one {beside.gpu.dropna().iloc[0]} where the ranks stay"


def _table1(ours, on_gpu):
    ours = ours.assign(
        column=[f"{name}, {counted(ranks, 'rank')}" for name, ranks in zip(ours.program, ours.ranks, strict=True)]
    )
    index = ["vertices", "edges", "graph"]
    wide = ours.pivot_table(index=index, columns="column", values="ms", sort=False).reset_index()
    wide = wide.rename(columns={"serial, 1 rank": "serial, ours", "graph": "our graph"})
    return (
        agrawal_table1()
        .merge(wide, on=["vertices", "edges"], how="left")
        .merge(on_gpu, on=["vertices", "edges"], how="left")
    )


def _table2():
    table = printed("agrawal_table2")
    alone = table.t_p_ms[table.p == 1].iloc[0]
    pairs = list(zip(table.t_p_ms, table.p, strict=True))
    return pd.DataFrame(
        {
            "p": table.p,
            "T_p": table.t_p_ms,
            "psi, printed": table.psi,
            "psi": table.t_s_ms / table.t_p_ms,
            "e, printed": table.e,
            "e": [karp_flatt(serial / t, p) for serial, (t, p) in zip(table.t_s_ms, pairs, strict=True)],
            "psi, one process": alone / table.t_p_ms,
            "e, one process": [karp_flatt(alone / t, p) for t, p in pairs],
        }
    )


def _as_printed(table):
    """Return the table with the digits that the report prints."""
    texts = printed("agrawal_table2", as_text=True)
    digits = {"T_p": texts.t_p_ms, "psi, printed": texts.psi, "e, printed": texts.e}
    return table.assign(**digits).rename(columns=HEADS)


def _trend(table):
    several = table[table.p > 1]
    least = several.loc[several.e.idxmin()]
    least_alone = several.loc[several["e, one process"].idxmin()]
    printed_least = several.loc[several["e, printed"].idxmin()]
    return (
        f"Of several processes, e as printed is least at p = {printed_least.p:g}; as defined it falls until "
        f"p = {least.p:g} ({least.e:.3g}), and against one process until p = {least_alone.p:g} "
        f"({least_alone['e, one process']:.3g})"
    )


def _figure(table2, several, out):
    figure, axes = panels.grid(out.width, 2 if len(several) else 1, 2.5, columns=(1, 2))
    lines = {
        "as printed": ("e, printed", {"marker": "x", "linestyle": "--"}),
        "as defined, over serial": ("e", {"marker": "s"}),
        "as defined, over one process": ("e, one process", {"marker": "o", "mfc": "white"}),
    }
    theirs = table2[table2.p > 1]
    for name, (column, style) in lines.items():
        axes[0].plot(theirs.p, theirs[column], color=NEUTRAL, markersize=3.5, linewidth=0.8, label=name, **style)
    axes[0].set(xlabel="processes", ylabel="Karp-Flatt metric")
    axes[0].set_ylim(bottom=0)
    axes[0].set_xticks([5, 10, 15, 20])
    axes[0].set_xticks(theirs.p, minor=True)
    panels.unity(axes[0], across=True)
    panels.legend_above(axes[0], "Agrawal, Shendre and Goka")
    if len(several):
        several = _large(several)
        for line in several.sort_values("edges").itertuples():
            ends_of = (line.low, line.high)
            panels.point(axes[1], line.edges, line.speedup, 64, ends=ends_of, across=False, size=3.5, capped=line.range)
        panels.unity(axes[1], across=True)
        panels.logarithmic(axes[1])
        title = f"ours, {several.ranks.max()} ranks, 64 bits"
        axes[1].set(xlabel="edges", ylabel="speed-up over one rank", title=title)
        axes[1].set_ylim(bottom=0)
    return figure
