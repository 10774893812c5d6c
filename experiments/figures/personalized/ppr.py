"""Personalised PageRank of random nodes, beside the report of Belotti and Izzo; batches; half precision."""

import pandas as pd

from cpms.experiment.report.captions import spread
from cpms.experiment.report.output import printed

NEEDS = ["gpu_ppr", "ppr_cpu", "ppr_half", "ppr_half_sums"]
_CONTEST, _HALVES = NEEDS[:2], NEEDS[2:]
_PRINTED = {"execution_ms": "ms", "accuracy": "accuracy", "speedup": "speed-up"}
"""Columns of their Table 1 that stand beside ours."""
HEADS = {
    "initialization_ms": "initialization, ms", "reset_ms": "reset, ms", "execution_ms": "execution, ms",
    "speedup": "speed-up", "graph_name": "graph", "top20_accuracy": "accuracy of the top 20",
    "zero_share": "share of zeros", "subnormal_share": "share of subnormal numbers", "error_l1": "error, 1-norm",
}  # fmt: skip
"""Heads of tables, by columns."""
_FIRST_TOL = 1e-6
_LAST_TOL = 1e-10
_THEIRS = {"cpu": "CPU", "coo_basic fp32": "GPU-basic", "coo_streams fp32": "GPU-opt."}
"""What they call a contestant that is built as theirs was."""
_OF_TABLE2 = ("graph_name", "contestant", "machine")
"Columns that identify a line of Table 2."
_THEIR_NODES = 3_500_000
"""Of the graph that stands for theirs."""


def show(rows, out):
    refused = rows[rows.status != "ok"]
    for reason, group in refused.groupby("reason") if len(refused) else ():
        out.say(f"left out: {', '.join(sorted(set(group.apply(_contestant, axis=1))))}: {reason}")
    rows = rows[rows.status == "ok"]
    rows = rows.assign(contestant=rows.apply(_contestant, axis=1), machine=rows.apply(_machine, axis=1))
    contest = rows[~rows.experiment.isin(_HALVES)]
    best = {"execution, ms": "least by graph,tol"}
    out.table(_table1(contest), suffix="_table1", caption=_CAPTION1, best=best, of=_CONTEST)
    out.table(
        printed("belotti_table1", as_text=True).rename(columns=HEADS),
        suffix="_table1_printed",
        caption="Table 1 of Belotti and Izzo, as printed, wikipedia-20070206",
        of=(),
    )
    out.table(_table2(contest), suffix="_table2", caption=_CAPTION2, of=_CONTEST)
    theirs = "Table 2 of Belotti and Izzo, as printed"
    table2 = printed("belotti_table2", as_text=True).rename(columns=HEADS)
    out.table(table2, suffix="_table2_printed", caption=theirs, of=())
    batches = _batches(contest)
    if len(batches):
        out.table(batches, suffix="_batches", caption=_CAPTION3, best={"ms a query": "least by graph"}, of=_CONTEST)
    half = rows[(rows.tol == _FIRST_TOL) & (rows.start == "uniform")]
    if len(half):
        out.table(_half(half), suffix="_half", caption=_CAPTION4, timed=False)


_CAPTION1 = (
    "Our Table 1: uniform start, at most 30 iterations, L2 norm; milliseconds a query, a query's share where a batch "
    "shares sweeps, with the interquartile range over queries or batches; accuracy is the share of the true top 20 "
    "that is found; speed-up over one at a time on a CPU; beside contestants built as theirs were, what Belotti and "
    "Izzo print, of another graph of that size and a GTX 1050"
)
_CAPTION2 = (
    "Our Table 2: iterations from the uniform and from the penalised start, means over the queries, and milliseconds "
    "a query"
)
_CAPTION3 = (
    "Queries solved to 1e-10 (L1), each certified by a residual recomputed in float64; milliseconds with what it takes "
    "to aim at a query, and the interquartile range over queries or batches; times is how many times faster a query is "
    "than the fastest one at a time of the same run"
)
_CAPTION4 = (
    "Ranks in few bits: shares of all ranks that are zero, or subnormal numbers of the format as stored; error is "
    "the largest L1 distance from the float64 solution of the queries looked at. Edge by edge: products and sums round "
    "to the format too, as in Belotti and Izzo's kernels, which gave half precision up; other lines sum in more bits"
)


def _contestant(row):
    if row.experiment == "ppr_half_sums":
        return f"edge by edge, all in {row.storage}"
    name = row.engine if row.method == "power" else f"{row.engine} refine"
    name = name if row.storage == "fp64" else f"{name} {row.storage}"
    if not row.batch:
        return name
    sequential = row.engine == "cpu" and row.method == "refine"
    return f"{name}, {'prepared once' if sequential else f'{row.batch} together'}"


def _machine(row):
    gpu = getattr(row, "gpu", None)
    return gpu if isinstance(gpu, str) else row.cpu


def _table1(rows):
    lines, theirs = [], printed("belotti_table1", as_text=True).set_index("contestant")
    chosen = rows[(rows.start == "uniform") & (rows.tol > _LAST_TOL)]
    for (graph, tol), group in chosen.groupby(["graph_name", "tol"], sort=False):
        alone = group[(group.engine == "cpu") & (group.batch == 0) & (group.storage == "fp64")]
        cpu_s = alone.query_s.iloc[0] if len(alone) else float("nan")
        for _, row in group.iterrows():
            like = _THEIRS.get(row.contestant) if tol == _FIRST_TOL and row.nodes == _THEIR_NODES else None
            lines.append(
                {
                    "graph": graph,
                    "tol": tol,
                    "contestant": row.contestant,
                    "queries": row.answered,
                    "initialization, ms": 1e3 * row.prepare_s,
                    "reset, ms": None if pd.isna(row.reset_s) else 1e3 * row.reset_s,
                    "execution, ms": 1e3 * row.query_s,
                    "spread, %": _spread(row),
                    "accuracy": row.top20_accuracy,
                    "speed-up": cpu_s / row.query_s,
                    "residual, 1-norm": row.residual_l1,
                    **{f"Belotti and Izzo, {name}": theirs[key].get(like) for key, name in _PRINTED.items()},
                    "machine": row.machine,
                }
            )
    return pd.DataFrame(lines)


def _spread(row):
    """Return the interquartile range of a query's samples over their median; none of a single sample."""
    return 100 * spread(row.query_samples_s) if len(row.query_samples_s) > 1 else None


def _table2(rows):
    chosen = rows[rows.tol == _FIRST_TOL]
    mean = chosen.assign(mean=[sum(counts) / len(counts) for counts in chosen.iterations])
    wide = mean.pivot_table(index=[*_OF_TABLE2], columns="start", values="mean", sort=False)
    times = chosen.assign(ms=1e3 * chosen.query_s)
    wide_ms = times.pivot_table(index=[*_OF_TABLE2], columns="start", values="ms", sort=False)
    wide = wide.add_suffix(" start, iterations")
    return wide.join(wide_ms.add_suffix(" start, ms")).reset_index().rename(columns=HEADS).rename_axis(columns=None)


def _batches(rows):
    lines = []
    chosen = rows[rows.tol <= _LAST_TOL]
    chosen = chosen.assign(whole_s=chosen.query_s + chosen.reset_s.fillna(0.0))
    for graph, group in chosen.groupby("graph_name", sort=False):
        alone = group[group.batch == 0]
        best_s = alone.whole_s.min() if len(alone) else float("nan")
        for _, row in group.iterrows():
            lines.append(
                {
                    "graph": graph,
                    "contestant": row.contestant,
                    "queries": row.answered,
                    "ms a query": 1e3 * row.whole_s,
                    "spread, %": _spread(row),
                    "times": best_s / row.whole_s,
                    "sweeps by bits": ", ".join(f"{bits}: {count:.1f}" for bits, count in row.bits.items() if count),
                    "certified": f"{row.certified_converged:g} of {row.certified_answers:g}",
                    "residual, 1-norm": row.residual_l1,
                    "machine": row.machine,
                }
            )
    return pd.DataFrame(lines)


def _half(rows):
    columns = ("graph_name", "contestant", "top20_accuracy", "zero_share", "subnormal_share", "error_l1", "machine")
    table = rows.reindex(columns=columns)
    return table.rename(columns=HEADS)
