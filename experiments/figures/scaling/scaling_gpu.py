"""Scaling over GPUs of one host: speedup, efficiency and Karp-Flatt metric, beside Agrawal, Shendre and Goka."""

import pandas as pd

from cpms.experiment.karp_flatt import karp_flatt
from cpms.experiment.report.output import printed

NEEDS = ["scaling_gpu"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    ours, host = _ours(rows)
    strong, weak = ours[ours.scaling == "strong"], ours[ours.scaling == "weak"]
    if len(strong):
        out.table(
            strong.drop(columns=["scaling", "vertices", "efficiency a sweep"]),
            caption=f"One graph on more and more of {host}, to 1e-10; median solves. psi, efficiency and e "
            "(Karp-Flatt) against one GPU with the same method, by the faster of engines mpi_cuda and cuda_fused; GB: "
            "what rank 0 is sent in a solve; exchange: of whole vectors, or of what rows read of other ranks, sent "
            "(halo) or written there (direct), by itself, with GB/s of what rank 0 is sent by one of 64 bits a node",
        )
        caption = f"Their Table 1 as printed, and ours on {host}; ms"
        out.table(_beside(strong), suffix="_table1", caption=caption)
        out.table(
            _metrics(strong),
            suffix="_table2",
            caption="The Karp-Flatt metric as it is defined: of their Table 2 (500,000 vertices, message passing, "
            "against their own one process), and ours against one GPU",
        )
    if len(weak):
        out.table(
            weak.drop(columns=["scaling", "vertices", "psi", "e"]),
            suffix="_weak",
            caption=f"As much graph more for each of {host}, to 1e-10; efficiency: time of one GPU over time of all, "
            "and the same of the time an iteration takes, since larger graphs may need others in number",
        )
    out.figure(_figure(strong, weak))


def _ours(rows):
    """Return a line a contestant, and the machine."""
    device = rows.gpu.iloc[0] if "gpu" in rows else "GPU"  # none where kernels were emulated
    ours = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    return ours, f"{rows.devices.iloc[0]} {device} of one host"


def _lines(row):
    alone = {}
    for result in row.results:
        if result["ranks"] == 1:
            known = alone.setdefault(result["method"], result)
            alone[result["method"]] = min(known, result, key=lambda found: found["solve_s"])
    for result in row.results:
        one, ranks = alone.get(result["method"], {"solve_s": float("nan"), "iterations": 1}), result["ranks"]
        speedup = one["solve_s"] / result["solve_s"]
        sweeps = result["sweep_s_by_bits"]
        low = [1e6 * spent for bits, spent in sweeps.items() if bits != "64"]
        strong = row.scaling == "strong"
        each = one["solve_s"] / one["iterations"] / (result["solve_s"] / result["iterations"])
        yield {
            "scaling": row.scaling,
            "graph": result["graph_name"],
            "vertices": result["nodes"],
            "engine": result["engine"],
            "method": result["method"],
            "storage": result["storage"],
            "ranks": ranks,
            "iterations": result["iterations"],
            "ms": 1e3 * result["solve_s"],
            "least ms": 1e3 * min(result["solve_samples_s"]),
            "most ms": 1e3 * max(result["solve_samples_s"]),
            "64-bit sweep, us": 1e6 * sweeps["64"] if "64" in sweeps else None,
            "low sweep, us": low[0] if low else None,
            "psi": speedup,
            "efficiency": speedup / ranks if strong else speedup,
            "efficiency a sweep": each / ranks if strong else each,
            "e": karp_flatt(speedup, ranks) if strong else None,
            "GB": 1e-9 * result["received_bytes"],
            **(_exchange(result) if ranks > 1 else {}),
            "residual": result.get("residual_l1"),
            "commit": str(row.git_commit)[:7] if pd.notna(row.git_commit) else None,
        }


def _exchange(result):
    spent_s = result["exchange_64_bits_s"]
    return {
        "exchange": result["exchange"],
        "64-bit exchange, us": 1e6 * spent_s,
        "16-bit exchange, us": 1e6 * result["exchange_16_bits_s"],
        "GB/s": 1e-9 * result["exchange_64_bits_received_bytes"] / spent_s,
    }


def _beside(strong):
    table = printed("agrawal_table1").rename(columns={"nodes": "vertices"})
    table.columns = [name.replace("_ms", ", theirs") for name in table.columns]
    best = strong[(strong.engine == "mpi_cuda") | (strong.ranks == 1)]
    best = best.assign(
        column=[f"{m}, {e}, {r} ranks" for m, e, r in zip(best.method, best.engine, best.ranks, strict=True)]
    )
    wide = best.pivot_table(index="vertices", columns="column", values="ms", sort=False).reset_index()
    return table.merge(wide, on="vertices", how="inner").rename_axis(columns=None)


def _metrics(strong):
    theirs = printed("agrawal_table2")
    alone = theirs.t_p_ms[theirs.p == 1].iloc[0]
    table = pd.DataFrame(
        {"p": theirs.p, "theirs": [karp_flatt(alone / t, p) for t, p in zip(theirs.t_p_ms, theirs.p, strict=True)]}
    )
    several = strong[(strong.engine == "mpi_cuda") & (strong.ranks > 1)]
    for (graph, method), group in several.groupby(["graph", "method"], sort=False):
        table = table.merge(
            group[["ranks", "e"]].rename(columns={"ranks": "p", "e": f"{graph}, {method}"}), on="p", how="left"
        )
    return table[table.p.isin(set(several.ranks))]


def _figure(strong, weak):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(7, 4))
    for axis, part, value, label in (
        (axes[0], strong, "psi", "speedup over the faster engine of one"),
        (axes[1], weak, "efficiency a sweep", "weak scaling: efficiency of a sweep"),
    ):
        chosen = part[part.engine == "mpi_cuda"]
        if chosen.empty:
            axis.set_axis_off()
            continue
        chosen = chosen.assign(name=[graph.split(",seed")[0] for graph in chosen.graph])
        if value == "efficiency a sweep":
            chosen = chosen.assign(name=[graph.partition(":")[0] for graph in chosen.graph])
        for (name, method), group in chosen.groupby(["name", "method"], sort=False):
            style = "o-" if method == "refine" else "s--"
            axis.plot(group.ranks, group[value], style, ms=3, label=f"{name}, {method}")
        axis.set_xticks(sorted(set(chosen.ranks)))
        axis.set_xlabel("GPUs")
        axis.set_ylabel(label)
    if axes[0].axison:
        most = [1, strong.ranks.max()]
        axes[0].plot(most, most, color="#222222", linewidth=0.6, label="one for one")
    axes[1].axhline(0.75, color="#222222", linewidth=0.6, label="0.75, aimed at")
    axes[1].set_ylim(bottom=0)
    for axis in (axis for axis in axes if axis.axison):
        axis.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return figure
