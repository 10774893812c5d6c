"""Every engine on every graph: time of a sweep and to the tolerance, bytes, edges a second, verified error."""

import re

import numpy as np
import pandas as pd

from cpms.base.text.counted import counted
from cpms.experiment.report import panels
from cpms.experiment.report.captions import spread
from cpms.experiment.report.intervals import PREPARED, UNSEEN, geometric
from cpms.experiment.report.output import label, shortened

NEEDS = ["gpu_systems", "systems_cpu"]
DAMPING = 0.85
CONVERGED = "converged"
GRAPH = "#999999"
WORDS = {
    "cuda_fused": "ours, fused",
    "mpi_cuda": "ours, fused, 1 rank",
    "cuda": "ours, plain",
    "cuda_thread_rows": "ours, a thread a row",
    "cusparse": "cuSPARSE",
    "cusparse_omega": "cuSPARSE, report's update",
    "coo_streams": "edges by warps",
    "coo_basic": "atomic edges",
    "reduce_by_key": "reduce by key",
    "cpu": "ours",
    "opencl": "OpenCL",
    "mpi": "MPI",
    "scipy": "SciPy",
    "reference": "NumPy",
    "coo": "COO",
    "coo_exchange": "COO exchange",
    "csr": "CSR",
    "ell": "ELL",
}
"""Names of engines and layouts in the figure, which its tables have as they are given to cpms."""


def show(rows, out):
    rows = rows[rows.status == "ok"].drop_duplicates(["experiment", "graph"], keep="last")
    shown = []
    for experiment in NEEDS:
        here = rows[rows.experiment == experiment]
        if not here.empty:
            shown.append((_machine(here.iloc[0]), _tables(here, out)))
    over = {machine: _over(table) for machine, table in shown}
    machines = " and on ".join(machine.partition(" (")[0] for machine in over)
    out.figure(
        _figure(over, out),
        caption=f"Time of a whole solve over the fastest's to {rows.tol.iloc[0]:g} on a graph, on "
        f"{machines}: grey dots are graphs, marks geometric means with 95 % bootstrap intervals{UNSEEN}; "
        "colour: fewest bits, marker: layout; axes differ. Hollow means, of fewer graphs (their number), do not "
        "compare: ELL lacks where a long row would pad all, slow systems on large "
        f"graphs{_missed(rows)}{_threads(rows)}. Systems without 'ours' are built here, too. Fused: one kernel a "
        "sweep; plain: one a step; pattern: without values; 1 rank: as on several GPUs; all nodes: no "
        f"level solve; report's update: Agrawal, Shendre and Goka's{PREPARED}",
    )


def _tables(rows, out):
    """Write the tables of a machine, and return the long one."""
    machine, of = _machine(rows.iloc[0]), [rows.experiment.iloc[0]]
    suffix = "_gpu" if of[0].startswith("gpu") else "_cpu"
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    systems = dict.fromkeys(_system(row, result) for _, row in rows.iterrows() for result in row.results)
    reached = table[table.ends == CONVERGED]
    times = reached.pivot_table(index="system", columns="graph", values="solve ms", aggfunc="first")
    times = times.reindex(index=[name for name in systems if name in times.index], columns=table.graph.unique())
    times = times.rename(columns=lambda graph: f"{graph}, ms")
    times["over the fastest"] = _means(reached)
    over, to_tol = _over(reached), f"solves to {rows.tol.iloc[0]:g}"
    in_figure = pd.Series(_short(over), index=over.system, name="in the figure")
    out.table(
        pd.concat([in_figure, times], axis=1).reindex(times.index).rename_axis("system").reset_index(),
        best=dict.fromkeys(times, "least"),
        among=(to_tol, ~times.index.str.contains(" to ")),
        suffix=f"{suffix}_times",
        caption=f"Times to {rows.tol.iloc[0]:g}, or to what a system's name says, on {machine}, medians of "
        "solves in turn that converge; systems are named as cpms takes them, and as in the figure; last, the time over "
        f"that of the fastest to the former, geometric mean of the graphs it solves{_threads(rows)}",
        of=of,
    )
    out.table(
        table.drop(columns=["bits", "layout"]),
        best={"solve ms": "least by graph"},
        among=(to_tol, (table.ends == CONVERGED) & ~table.system.str.contains(" to ")),
        suffix=suffix,
        caption=f"Every engine on {machine}: a sweep is a solve's time over its sweeps, GTEPS its edges a second in "
        "billions; memory is of all that the engine holds besides the graph it was given, unknown of ranks; error is "
        "in L1 against a float64 solution at "
        f"{rows.reference_tol.iloc[0]:g}, bound what the residual recomputed in float64 allows, within whether it "
        f"does; top 20 is the share of the solution's that is found{_threads(rows)}",
        of=of,
    )
    refused = pd.DataFrame([line for _, row in rows.iterrows() for line in _refused(row)])
    if len(refused):
        grouped = refused.groupby(["system", "reason"], sort=False).graph.agg(", ".join).reset_index()
        out.table(grouped, suffix=f"{suffix}_refused", caption=f"Left out on {machine}, and why", of=of, timed=False)
    return reached


def _lines(row):
    for result in row.results:
        if result["status"] != "ok":
            continue
        sweep_s = result["solve_s"] / result["iterations"]
        error, bound = result.get("error_l1", np.nan), result.get("error_bound", np.nan)
        yield {
            "graph": shortened(label(row)),
            "system": _system(row, result),
            "ends": result["solver_status"],
            "sweeps": result["iterations"],
            "sweep ms": 1e3 * sweep_s,
            "GTEPS": row.edges / sweep_s / 1e9,
            "solve ms": 1e3 * result["solve_s"],
            "spread, %": 100 * spread(result["solve_samples_s"]),
            "matrix MB": result["matrix_bytes"] / 1e6,
            "memory MB": result.get("held_bytes", np.nan) / 1e6,
            "error": error,
            "bound": bound,
            "within": bool(error <= bound + row.reference_tol / (1 - DAMPING)),
            "top 20": result.get("top20_overlap", np.nan),
            "bits": min(result["bits"], default=64),
            "layout": result["layout"] or row.layout,
        }


def _refused(row):
    for result in row.results:
        if result["status"] != "ok":
            yield {"system": _system(row, result), "reason": result["reason"], "graph": shortened(label(row))}
        elif result["solver_status"] != CONVERGED:
            reason = f"the solve {result['solver_status']} above its tolerance"
            yield {"system": _system(row, result), "reason": reason, "graph": shortened(label(row))}


def _system(row, result):
    """Return a contestant's name: engine, layout, and what else sets it apart."""
    words = [result["engine"], result["layout"] or row.layout]
    if result.get("method") == "refine":
        words.append("refine")
    if result["storage"] != "fp64":
        words.append(result["storage"])
    if result.get("whole"):
        words.append("all nodes")
    if "ranks" in result:
        words.append(f"{result['ranks']} ranks")
    if "device" in result:
        words.append(f"on {result['device']}")
    if "tol" in result:
        words.append(f"to {result['tol']:g}")
    return " ".join(words)


def _missed(rows):
    """Return which systems do not converge on some graphs, as a text for a caption."""
    lines = [line for _, row in rows.iterrows() for line in _refused(row) if line["reason"].startswith("the solve")]
    counts = pd.DataFrame(lines, columns=["system", "reason", "graph"]).groupby("system", sort=False).size()
    names = {_in_words(system.replace(" coo", "")): count for system, count in counts.items()}
    return "".join(f"; {name} does not converge on {count}" for name, count in names.items())


def _threads(rows):
    """Return which systems run on one thread of a processor, as a sentence behind others; empty without any."""
    engines = {result["engine"] for results in rows.results for result in results}
    names = [WORDS.get(engine, engine) for engine in ("scipy", "reference", "serial") if engine in engines]
    return f". Of one thread: {', '.join(names)}" if names else ""


def _machine(row):
    if row.experiment.startswith("gpu"):
        return row.gpu
    return f"{row.threads} threads ({row.cpu})"


def _means(table):
    """Return how many times a system takes the time of the fastest that goes to the experiment's tolerance."""
    over = _over(table)
    return over.set_index("system")["mean"]


def _over(table):
    """Return a line a system, the fastest first: ratios to the fastest on each graph, and their geometric mean."""
    # Tolerances of their own are in the names of those that have one.
    fastest = table[~table.system.str.contains(" to ")].groupby("graph")["solve ms"].min()
    ratios = table.assign(ratio=table["solve ms"] / table.graph.map(fastest))
    lines = [
        {
            "system": system,
            **geometric(part.ratio),
            "bits": part.bits.min(),
            "layout": part.layout.iloc[0],
            "ratios": part.ratio.tolist(),
        }
        for system, part in ratios.groupby("system", sort=False)
    ]
    return pd.DataFrame(lines).sort_values("mean", kind="stable").reset_index(drop=True)


def _short(found):
    """Return systems in words, with the layout if others have the rest in common, and their graphs if not all."""
    lines = list(found.itertuples())
    without = [line.system.replace(f" {line.layout}", "", 1) for line in lines]
    names = [line.system if without.count(name) > 1 else name for line, name in zip(lines, without, strict=True)]
    most = max(line.graphs for line in lines)
    counts = [f" ({line.graphs})" if line.graphs < most else "" for line in lines]
    return [_in_words(name) + count for name, count in zip(names, counts, strict=True)]


def _in_words(system):
    parts = re.findall(r"all nodes|\d+ ranks|to \S+|\S+", re.sub(r" on .*", "", system))
    return ", ".join(WORDS.get(part, part) for part in parts)


def _figure(over, out):
    from matplotlib.figure import Figure

    counts = [len(found) for found in over.values()]
    figure = Figure(figsize=(out.width, 1.0 + 0.125 * (max(counts) if out.double else sum(counts) + 6)))
    shape = {"ncols": len(over)} if out.double else {"nrows": len(over), "height_ratios": counts}
    axes = figure.subplots(squeeze=False, **shape).flat
    for panel, (machine, found) in zip(axes, over.items(), strict=True):
        for place, line in enumerate(found.itertuples()):
            panel.plot(line.ratios, [place] * len(line.ratios), "o", color=GRAPH, ms=2.2, alpha=0.5, mew=0)
            style = {"ends": (line.low, line.high), "size": 3.5, "filled": line.graphs == found.graphs.max()}
            panels.point(panel, line.mean, place, line.bits, panels.marker(line.layout), **style)
        panels.named_rows(panel, _short(found))
        panels.unity(panel)
        panels.logarithmic(panel)
        panel.set_title(f"{machine.partition(' (')[0]}, {counted(found.graphs.max(), 'graph')}")
        panel.set_xlabel("time over the fastest")
    lines = pd.concat([found.assign(machine=machine) for machine, found in over.items()])
    layouts = {WORDS.get(layout, layout): panels.marker(layout) for layout in dict.fromkeys(lines.layout)}
    few = (lines.graphs < lines.groupby("machine").graphs.transform("max")).any()
    graph = {"a graph": {"color": GRAPH, "marker": "o", "linestyle": "", "markersize": 2.5, "alpha": 0.5, "mew": 0}}
    graph |= {"of fewer graphs": panels.HOLLOW} if few else {}
    panels.legend(figure, panels.key(lines.bits, layouts, graph))
    return figure
