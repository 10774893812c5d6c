"""Method refine on a GPU: sweeps by the bits they read, and whole solves against float64 and libraries."""

from collections import Counter

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import spread
from cpms.experiment.report.intervals import PREPARED, UNSEEN, geometric, interval_text, ratio_ends
from cpms.experiment.report.output import label, shortened, storage_of
from cpms.experiment.report.palette import colour
from cpms.experiment.rows.quoted import cugraph

NEEDS = ["gpu_refine"]
BESIDE = ["gpu_speedup", "table2"]
DAMPING = 0.85
WHOLE, ALONE = ", all nodes", ", bits alone"
MARKS = {"auto": "o", "fp16" + ALONE: "X"}
"""Contestants of the figure of speed-ups, and their markers."""
NAMES = {"auto": "as chosen", "fp16" + ALONE: "plain 16 bits"}
RATIOS = {"over our float64": ("cuda_fused", "pattern"), "over cuSPARSE": ("cusparse", "csr")}
REAL = {"all": " graphs", "real": " taken from the collection itself, below the line"}
"""Kinds of graphs whose mean the caption has, and their words."""
GENERATED = ("delaunay_n", "rgg_n_")
"""Beginnings of the names of graphs of the collection that its makers generated: Delaunay, and random geometric."""
OWN = "over fused fp64"
"""The column of the ratios over our float64, of engine cuda_fused."""
PAPER = (16, 32, 48, 64)
"""Bits that sweeps by the CPMS paper's rule may read."""
POWER = {"color": "black", "marker": "v", "linestyle": "", "markersize": 3, "markeredgewidth": 0.0}
ABOVE = 0.47
"""Distance of the marks of power iteration from the middle of their bars, in rows."""
HATCHED = {"hatch": "//////", "edgecolor": "white", "linewidth": 0.0}
"""The look of sweeps in 64 bits, whose colour is the grey of 16 and 48 bits in print."""
QUOTED = "cuGraph's times are quoted from a program outside this repository, of another run"
HEADLINE = ("over best own fp64", "over cuSPARSE", "over CSR or COO")


def show(rows, out, beside):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row, cugraph())])
    if table.empty:
        out.leave_out("tables and figures", "no graph was solved by refine, and in float64 by engine cuda_fused")
        return
    gpu = rows.gpu.iloc[0]
    out.table(
        table,
        best={"solve ms": "least by graph"},
        of=NEEDS,
        caption=f"Whole solves on {gpu}, medians, contestants in turn: residual sweeps read 64 bits, inner ones "
        "those of the storage ('auto': of that which the engine chooses), with Anderson acceleration, or error "
        "feedback where each sweep reduces the residual strongly, over the trimmed core alone where the level solve "
        "pays; 'all nodes' has no level solve, 'bits alone' no Anderson acceleration either; "
        "'error' is in L1 against a float64 solution at 1e-14, 'bound' what the residual recomputed in float64 allows; "
        f"{QUOTED}, its fp32 to 1e-6; 'over cuSPARSE' is over CSR, 'over CSR or COO' over the faster of the two; "
        "spread: interquartile range over the median",
    )
    means = f"Geometric means over the graphs of how many times faster method refine is, and the worst graph; {QUOTED}"
    out.table(_means(table), suffix="_means", caption=means, of=NEEDS)
    out.table(
        _headline(table, rows),
        suffix="_headline",
        of=NEEDS,
        caption=f"Speed-ups of whole solves with storage 'auto' on {gpu}: geometric means with 95 % bootstrap "
        "intervals over the graphs; swept graphs take sweeps, acyclic ones one pass; real graphs, those taken from the "
        f"collection itself, are among both{_generated(rows)}",
    )
    drawn = pd.DataFrame([line for _, row in rows.iterrows() for line in _ratios(row)])
    out.figure(
        _speedups(drawn, out),
        suffix="_speedup",
        caption=f"Speed-up of whole solves by method refine on {gpu}, over our float64, that is power iteration in our "
        f"fused kernels, and over cuSPARSE's in CSR; lines: {interval_text(rows)}{UNSEEN}. Circles: as the engine "
        "chooses, in the colour of the fewest bits read; hollow: solved in one pass in float64, as the engine chooses "
        "for some of the graphs without a cycle. Crosses, plain 16 bits: without level solve and Anderson "
        f"acceleration. The left circles' {_said(table, rows)}{_generated(rows)}. Axes differ{PREPARED}",
        of=NEEDS,
        results=lambda result: result.get("method") == "refine" or result["engine"] in dict(RATIOS.values()),
    )
    out.figure(
        _sweeps(table, _by_bits(beside), out),
        suffix="_sweeps",
        caption="Sweeps over the graph to a residual of 1e-10, by the bits that they read: power iteration with four "
        "segments of 16 bits by the rule of the CPMS paper, and method refine, whose inner sweeps read 16 bits "
        f"(fp16) or 8 (e5m2), without level solve and Anderson acceleration{_unseen(table, _by_bits(beside))}. "
        "Triangles above bars: sweeps of power iteration in float64. The number behind a bar counts its sweeps in 64 "
        "bits, hatched. Shown are the graphs of which all of these are recorded, by the sweeps of power "
        "iteration",
        timed=False,
    )


def _by_bits(rows):
    """Return how many sweeps of power iteration with cpms4 read how many bits, by graph, on any engine."""
    found = {}
    for _, row in rows[(rows.status == "ok") & (rows.tol == 1e-10)].iterrows() if len(rows) else []:
        if row.experiment == "table2" and row.storage == "cpms4":
            found[shortened(label(row))] = {int(bits): count for bits, count in row.iterations_by_bits.items()}
        if row.experiment == "gpu_speedup":
            solved = [
                r for r in row.results if (r["engine"], storage_of(r)) == ("cuda", "cpms4") and r["status"] == "ok"
            ]
            found |= {shortened(label(row)): Counter(result["bits"]) for result in solved}
    return found


def _lines(row, quoted):
    known = quoted[quoted.graph == row.graph]
    solved = [result for result in row.results if result["status"] == "ok"]
    powers = [result for result in solved if result.get("method", "power") == "power"]
    power = {result["engine"]: result for result in powers if result["layout"] != "coo"}
    if "cuda_fused" not in power:
        return
    libraries = [result["solve_s"] for result in powers if result["engine"] == "cusparse"]
    for result in solved:
        if result.get("method") != "refine":
            continue
        bits = np.array(result["bits"])
        yield {
            "graph": shortened(label(row)),
            "nodes": row.nodes,
            "edges": row.edges,
            "storage": result["storage"] + (ALONE if result.get("plain") else WHOLE if result.get("whole") else ""),
            "power": power["cuda_fused"]["iterations"],
            "full": int((bits == 64).sum()),
            "low": int((bits != 64).sum()),
            "low bits": int(bits.min()),
            "low %": 100 * float((bits != 64).mean()),
            "error": result.get("error_l1", np.nan),
            "bound": result.get("error_bound", result["residual_l1"] / (1 - DAMPING)),
            "solve ms": 1e3 * result["solve_s"],
            "spread, %": 100 * spread(result["solve_samples_s"]) if result.get("solve_samples_s") else np.nan,
            "fused fp64 ms": 1e3 * power["cuda_fused"]["solve_s"],
            "over fused fp64": power["cuda_fused"]["solve_s"] / result["solve_s"],
            "over best own fp64": min(p["solve_s"] for name, p in power.items() if name != "cusparse")
            / result["solve_s"],
            "over cuSPARSE": power["cusparse"]["solve_s"] / result["solve_s"] if "cusparse" in power else np.nan,
            "over CSR or COO": min(libraries, default=np.nan) / result["solve_s"],
            "over cuGraph fp64": known["fp64_1e-10_ms"].iloc[0] / (1e3 * result["solve_s"]) if len(known) else np.nan,
            "over cuGraph fp32": known["fp32_1e-6_ms"].iloc[0] / (1e3 * result["solve_s"]) if len(known) else np.nan,
        }


def _means(table):
    columns = [column for column in table if column.startswith("over ")]
    grouped = table.groupby("storage", sort=False)[columns]
    means = grouped.agg(lambda ratios: float(np.exp(np.log(ratios.dropna()).mean())))
    worst = grouped.min().rename(columns={column: f"least {column}" for column in columns})
    return means.join(worst).assign(graphs=table.groupby("storage", sort=False).size()).reset_index()


def _kinds(rows):
    """Return the graphs of each kind: those that are swept, those solved in one pass, and those of the real world."""
    sweeps = {
        shortened(label(row)): result["iterations"]
        for _, row in rows.iterrows()
        for result in row.results
        if result["status"] == "ok" and result.get("method") == "refine" and result["storage"] == "auto"
    }
    real = [shortened(label(row)) for _, row in rows.iterrows() if ":" not in row.graph]
    return {
        "all": list(sweeps),
        "swept": [graph for graph, count in sweeps.items() if count > 1],
        "acyclic": [graph for graph, count in sweeps.items() if count == 1],
        "real": real,
    }


def _headline(table, rows):
    auto = table[table.storage == "auto"]
    return pd.DataFrame(
        [
            {"graphs of kind": kind, "speed-up": column, **geometric(auto[auto.graph.isin(graphs)][column])}
            for column in HEADLINE
            for kind, graphs in _kinds(rows).items()
        ]
    )


def _said(table, rows):
    auto, kinds = table[table.storage == "auto"], _kinds(rows)
    means = {words: geometric(auto[auto.graph.isin(kinds[kind])][OWN]) for kind, words in REAL.items()}
    return "geometric mean is " + ", ".join(
        f"{mean['mean']:.2f} ({mean['low']:.2f} to {mean['high']:.2f}) on {mean['graphs']}{words}"
        for words, mean in means.items()
        if mean["graphs"]
    )


def _generated(rows):
    """Return which graphs of the collection its makers generated, as a text for a caption."""
    names = [graph for graph in _kinds(rows)["real"] if graph.startswith(GENERATED)]
    are = "are" if len(names) > 1 else "is"
    return f"; {len(names)} of these, {' and '.join(names)}, {are} generated from random points" if names else ""


def _unseen(table, paper):
    """Return how many sweeps of power iteration read 16 bits, whose bars are too short to be seen, for a caption."""
    first = sorted({bits[16] for graph, bits in paper.items() if bits.get(16) and graph in set(table.graph)})
    counts = " to ".join(f"{count:g}" for count in dict.fromkeys([first[0], first[-1]])) if first else ""
    return f"; power iteration reads 16 bits in its first {counts} sweeps alone, which hardly show" if first else ""


def _ratios(row):
    solved = [result for result in row.results if result["status"] == "ok"]
    powers = {
        (result["engine"], result["layout"]): result for result in solved if result.get("method", "power") == "power"
    }
    for over, (engine, _) in RATIOS.items():
        base = next((power for (name, layout), power in powers.items() if name == engine and layout != "coo"), None)
        for result in solved if base else ():
            storage = result["storage"] + (ALONE if result.get("plain") else WHOLE if result.get("whole") else "")
            if result.get("method") == "refine" and storage in MARKS:
                low, high = ratio_ends(base.get("solve_samples_s"), result.get("solve_samples_s"))
                yield {
                    "graph": shortened(label(row)),
                    "over": over,
                    "real": ":" not in row.graph,
                    "storage": storage,
                    "bits": min(result["bits"]),
                    "ratio": base["solve_s"] / result["solve_s"],
                    "low": low,
                    "high": high,
                }


def _speedups(drawn, out):
    chosen = drawn[(drawn.storage == "auto") & (drawn.over == next(iter(RATIOS)))].set_index("graph").ratio
    real = set(drawn[drawn.real].graph)
    graphs = sorted(dict.fromkeys(drawn.graph), key=lambda graph: (graph in real, -chosen.get(graph, 0.0)))
    names = out.names(graphs, None if out.double else 19, of=NEEDS)
    figure, axes = panels.grid(out.width, 2, panels.rows_height(names, 0.22), columns=(2, 2), sharey=True)
    for panel, over in zip(axes, RATIOS, strict=True):
        for line in drawn[drawn.over == over].itertuples():
            place = graphs.index(line.graph) + panels.beside(list(MARKS).index(line.storage), len(MARKS), 0.8)
            style = {"ends": (line.low, line.high), "size": 3.5, "filled": line.bits != 64}
            panels.point(panel, line.ratio, place, line.bits, MARKS[line.storage], **style)
        panels.unity(panel)
        panels.named_rows(panel, names)
        if 0 < len(real) < len(graphs):
            panel.axhline(len(graphs) - len(real) - 0.5, color=panels.NEUTRAL, linewidth=0.6)
        panels.logarithmic(panel, most=5)
        panel.set_xlabel(over)
    one_pass = {"one pass": panels.HOLLOW} if (drawn.bits == 64).any() else {}
    panels.legend(figure, panels.key(drawn.bits, {NAMES[storage]: mark for storage, mark in MARKS.items()}, one_pass))
    figure.supxlabel("speed-up of a whole solve")
    return figure


def _sweeps(table, paper, out):
    """Draw sweeps by bits; `paper` holds those of power iteration with cpms4, by the CPMS paper's rule."""
    from matplotlib.patches import Patch

    alone = {storage: table[table.storage == storage + ALONE].set_index("graph") for storage in ("fp16", "e5m2")}
    power = table.drop_duplicates("graph").set_index("graph").power.sort_values(ascending=False, kind="stable")
    graphs = [graph for graph in power.index if not paper or graph in paper]
    names = out.names(graphs, None if out.double else 19, of=NEEDS)
    parts = {"power, segmented": {bits: [paper.get(graph, {}).get(bits, 0) for graph in graphs] for bits in PAPER}}
    parts = (parts if paper else {}) | {
        f"refine, {storage}": {bits: own.low.reindex(graphs), 64: own.full.reindex(graphs)}
        for bits, (storage, own) in zip((16, 8), alone.items(), strict=True)
    }
    figure, axes = panels.grid(
        out.width, len(parts), panels.rows_height(names, 0.17, 1.1), columns=(3, 3), sharey=True, sharex=True
    )
    places = np.arange(len(graphs))
    for panel, (title, counts) in zip(axes, parts.items(), strict=True):
        begin = np.zeros(len(graphs))
        for bits, sweeps in counts.items():
            look = HATCHED if bits == 64 else {}
            panel.barh(places, sweeps, left=begin, height=0.6, facecolor=colour(bits), **look)
            begin += np.asarray(sweeps)
        for place, end, full in zip(places, begin, counts[64], strict=True):
            if full > 0 and np.isfinite(end):
                style = {"textcoords": "offset points", "va": "center", "fontsize": 7}
                panel.annotate(f"{full:g}", (end, place), (2, 0), **style)
        panel.spines["left"].set_zorder(0.5)  # It would hide the shortest bars.
        panel.plot(power.reindex(graphs), places - ABOVE, **POWER)
        panel.set_title(title)
        panels.named_rows(panel, names)
        panel.set_ylim(top=-0.9)
        panel.set_xticks([0, 50, 100])
        panel.set_xticks([25, 75, 125], minor=True)
    axes[0].set_xlim(0, 1.35 * max(power.reindex(graphs).max(), 1.0))
    hatched = Patch(facecolor=colour(64), label="64 bits (number)", **HATCHED)
    others = panels.key({8, *(set(PAPER) - {64} if paper else (16,))}, lines={"power, float64": POWER})
    panels.legend(figure, [hatched, *others])
    figure.supxlabel("sweeps")
    return figure
