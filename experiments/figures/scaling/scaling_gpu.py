"""Scaling over GPUs of one host: speedup, efficiency and Karp-Flatt metric, beside Agrawal, Shendre and Goka."""

import pandas as pd

from cpms.base.text.counted import counted
from cpms.experiment.derived.karp_flatt import karp_flatt
from cpms.experiment.report import panels
from cpms.experiment.report.captions import spread
from cpms.experiment.report.intervals import UNSEEN, interval_text, ratio_ends
from cpms.experiment.report.output import agrawal_table1, printed, shortened
from cpms.experiment.report.palette import NEUTRAL, colour
from cpms.experiment.rows.standing import commit_text

NEEDS = ["scaling_gpu"]
ONE_FOR_ONE = {"color": NEUTRAL, "linestyle": ":", "linewidth": 0.8}


def show(rows, out):
    rows = rows[rows.status == "ok"]
    ours, host = _ours(rows)
    strong, weak = ours[ours.scaling == "strong"], ours[ours.scaling == "weak"]
    if len(strong):
        out.table(
            strong.drop(columns=["scaling", "vertices", "efficiency a sweep", "low", "high", "bits"]).rename(
                columns={"psi": "speed-up"}
            ),
            best={"ms": "least by graph"},
            caption=f"One graph on more and more of {host}, to 1e-10; median solves. Speed-up, efficiency and e "
            "(Karp-Flatt) against one GPU with the same method, by the faster of engines mpi_cuda and cuda_fused; GB: "
            "what rank 0 is sent in a solve; exchange: of whole vectors, or of what rows read of other ranks, sent "
            "(halo) or written there (direct), by itself, with GB/s of what rank 0 is sent by one of 64 bits a node, "
            "and its share of what a plain copy reaches between the GPUs; exchange, ms: all of a solve, with waits, of "
            "the rank that waits least; the median inner sweep includes no update of x, which every eighth, with error "
            "feedback every sixteenth, makes",
        )
        caption = (
            "Agrawal et al.: Table 1 of Agrawal, Shendre and Goka as printed, where CUDA is cuSPARSE with cuBLAS; and "
            f"ours on {host}; ms"
        )
        out.table(_beside(strong), suffix="_table1", caption=caption)
        out.table(
            _metrics(strong),
            suffix="_table2",
            caption="The Karp-Flatt metric as it is defined: of Agrawal, Shendre and Goka's Table 2 (500,000 "
            "vertices, message passing, against their own one process), and ours against one GPU",
        )
    if len(weak):
        out.table(
            weak.drop(columns=["scaling", "vertices", "psi", "e", "low", "high", "bits"]),
            suffix="_weak",
            caption=f"As much graph more for each of {host}, to 1e-10; efficiency: time of one GPU over time of all, "
            "and the same of the time an iteration takes, since larger graphs may need others in number; the median "
            "inner sweep includes no update of x",
        )
    drawn = ours[ours.engine == "mpi_cuda"]
    parts = {
        "strong": "speed-up of a solve of one graph over the faster engine of one GPU",
        "weak": "efficiency of a sweep where the graph grows with the GPUs, its time by the faster engine of one GPU "
        "over its time on all, which at 1 GPU is below 1 where our engine of several GPUs is the slower one",
    }
    shown = [text for scaling, text in parts.items() if (drawn.scaling == scaling).any()]
    out.figure(
        _figure(drawn, out),
        caption=f"Scaling over {host}, medians with {interval_text(rows)}{UNSEEN}: {'; and '.join(shown)}. Filled: "
        "power iteration in float64; hollow, dashed: method refine, whose inner sweeps read 16 bits. Marks of one "
        f"number of GPUs lie beside each other. {_sizes(drawn)}. The axis of speed-ups is logarithmic",
    )


def _sizes(drawn):
    """Return the graphs of each part as a sentence of a caption."""
    parts = {
        scaling: "; ".join(dict.fromkeys(map(shortened, part.graph[part.ranks == part.ranks.min()])))
        for scaling, part in drawn.groupby("scaling", sort=False)
    }
    words = {"strong": "One graph", "weak": "On 1 GPU of those that grow"}
    return ". ".join(f"{what}: {parts[scaling]}" for scaling, what in words.items() if scaling in parts)


def _ours(rows):
    """Return a line a contestant, and the machine."""
    device = rows.gpu.iloc[0] if "gpu" in rows else "GPU"  # none where kernels were emulated
    ours = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    return ours, f"{rows.devices.max()} {device} of one host"


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
        ends_of = ratio_ends(one.get("solve_samples_s"), result["solve_samples_s"])
        scaled = 1.0 if strong else result["iterations"] / one["iterations"]
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
            "spread, %": 100 * spread(result["solve_samples_s"]),
            "64-bit sweep, us": 1e6 * sweeps["64"] if "64" in sweeps else None,
            "median inner sweep, us": low[0] if low else None,
            "psi": speedup,
            "efficiency": speedup / ranks if strong else speedup,
            "efficiency a sweep": each / ranks if strong else each,
            "e": karp_flatt(speedup, ranks) if strong else None,
            "GB": 1e-9 * result["received_bytes"],
            "exchange, ms": 1e3 * result.get("exchange_s", float("nan")) if ranks > 1 else None,
            "low": ends_of[0] * scaled,
            "high": ends_of[1] * scaled,
            "bits": min(map(int, sweeps), default=64),
            **(_exchange(result) if ranks > 1 else {}),
            "residual": result.get("residual_l1"),
            "commit": commit_text(row.dropna().to_dict()),
        }


def _exchange(result):
    spent_s = result["exchange_64_bits_s"]
    return {
        "exchange": result["exchange"],
        "64-bit exchange, us": 1e6 * spent_s,
        "16-bit exchange, us": 1e6 * result["exchange_16_bits_s"],
        "GB/s": 1e-9 * result["exchange_64_bits_received_bytes"] / spent_s,
        "of the link, %": 100 * result.get("exchange_64_bits_link_share", float("nan")),
    }


def _beside(strong):
    best = strong[(strong.engine == "mpi_cuda") | (strong.ranks == 1)]
    best = best.assign(
        column=[f"{m}, {e}, {counted(r, 'rank')}" for m, e, r in zip(best.method, best.engine, best.ranks, strict=True)]
    )
    wide = best.pivot_table(index="vertices", columns="column", values="ms", sort=False).reset_index()
    return agrawal_table1().merge(wide, on="vertices", how="inner").rename_axis(columns=None)


def _metrics(strong):
    theirs = printed("agrawal_table2")
    alone = theirs.t_p_ms[theirs.p == 1].iloc[0]
    table = pd.DataFrame(
        {
            "ranks": theirs.p,
            "Agrawal et al.": [karp_flatt(alone / t, p) for t, p in zip(theirs.t_p_ms, theirs.p, strict=True)],
        }
    )
    several = strong[(strong.engine == "mpi_cuda") & (strong.ranks > 1)]
    for (graph, method), group in several.groupby(["graph", "method"], sort=False):
        table = table.merge(group[["ranks", "e"]].rename(columns={"e": f"{graph}, {method}"}), on="ranks", how="left")
    return table[table.ranks.isin(set(several.ranks))]


def _figure(drawn, out):
    parts = [
        ("strong", "psi", "speed-up", "one graph", drawn[drawn.scaling == "strong"]),
        (
            "weak",
            "efficiency a sweep",
            "efficiency of a sweep",
            "graphs that grow with the GPUs",
            drawn[drawn.scaling == "weak"],
        ),
    ]
    parts = [part for part in parts if len(part[-1])]
    figure, axes = panels.grid(out.width, len(parts), 2.0, columns=(1, 2))
    kinds, lines = list(dict.fromkeys(map(_kind, drawn.graph))), {}
    marks = dict(zip(kinds, panels.ALL_MARKERS, strict=False))
    for panel, (scaling, value, text, title, part) in zip(axes, parts, strict=True):
        groups = list(part.groupby([part.graph.map(_kind), "method"], sort=False))
        ranks = sorted(set(part.ranks))
        for place, ((kind, _), group) in enumerate(groups):
            middle, bits = group[value], group.bits.min()
            curve = panel.errorbar(
                group.ranks.map(ranks.index) + panels.beside(place, len(groups), 0.055 * len(groups)), middle,
                yerr=[(middle - group.low).clip(lower=0), (group.high - middle).clip(lower=0)],
                color=colour(bits), marker=marks[kind], ms=4, lw=0.7, elinewidth=0.7, mew=0.7,
                linestyle="-" if bits == 64 else "--", mfc=colour(bits) if bits == 64 else "white",
            )  # fmt: skip
            panels.name_places(curve[0], group.ranks, kind)
        panel.set_xticks(range(len(ranks)), map(str, ranks))
        panel.set(xlabel="GPUs", ylabel=text, title=title)
        if scaling == "strong":
            lines["linear"] = ONE_FOR_ONE
            (linear,) = panel.plot(range(len(ranks)), ranks, **{**ONE_FOR_ONE, "zorder": 0})
            panels.name_places(linear, ranks)
            panels.logarithmic(panel, "y")
            panel.set_yticks([each for each in (1, 1.5, 2, 3, 4, 6, 8) if each <= ranks[-1]])
        else:
            panels.unity(panel, across=True)
            panel.set_ylim(bottom=0)
    looks = {f"{bits} bits": _look(bits) for bits in sorted(set(drawn.bits), reverse=True)}
    panels.legend(figure, panels.key(marks=marks, lines={**looks, **lines}))
    return figure


def _look(bits):
    return {"color": colour(bits), "linewidth": 1.0, "linestyle": "-" if bits == 64 else (0, (2.2, 1.2))}


def _kind(graph):
    """Return the kind of a generated graph."""
    kind = graph.partition(":")[0].removesuffix("-parts")
    return {"weblike": "web", "rmat": "R-MAT"}.get(kind, kind)
