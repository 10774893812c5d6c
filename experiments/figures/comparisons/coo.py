"""Products with edges in COO beside cuSPARSE's, bandwidth of the kernels of a sweep, and what two streams overlap."""

import numpy as np
import pandas as pd

from cpms.base.text.counted import counted
from cpms.experiment.report import panels
from cpms.experiment.report.output import label, shortened

NEEDS = ["gpu_coo"]
BESIDE = ["gpu_systems", "table1", "gpu_coo_kernels"]
OURS = ["coo_streams", "reduce_by_key", "coo_basic"]
NODE_BYTES = 4
"""Values of a node that update and distance read and write: a sum, the new value, and the two that are compared."""
UNKNOWN = "\u2013"
"""Of shares that the rows do not hold."""
AT_LEAST = "\u2265"
KERNELS = {"product": "product", "dangling": "dangling mass", "update": "update", "distance": "distance"}
"""Names of the stages of a sweep in which each kernel was timed alone."""
REST = "update, distance, waits"
STYLE = {
    "product": {"facecolor": panels.colour(64)},
    "update": {"facecolor": "#7d7d7d"},
    "distance": {"facecolor": "#a6a6a6"},
    REST: {"facecolor": "#cccccc"},
    "waits": {"facecolor": "#e4e4e4"},
}


def show(rows, out, beside):
    rows = rows[rows.status == "ok"]
    lines = [line for _, row in rows.iterrows() for line in _lines(row)]
    gpu = rows.gpu.iloc[0]
    out.table(
        pd.DataFrame(lines),
        best={f"{name}, ms": "row least" for name in ("cuSPARSE CSR", "cuSPARSE COO", *OURS)},
        of=NEEDS,
        caption=f"Products on {gpu}, medians; times: of cuSPARSE in COO, which chose the algorithm named",
    )
    beside = beside[beside.status == "ok"] if len(beside) else beside
    systems, graphs, kernels = ([r for _, r in beside.iterrows() if r.experiment == name] for name in BESIDE)
    alone = {row.graph: row for row in kernels if row.gpu == gpu}
    sweeps = list(_sweeps(rows, systems, {row.graph: row.empty_rows for row in graphs}, alone))
    if not sweeps:
        return
    parts = pd.DataFrame([part for sweep in sweeps for part in _kernels(sweep)])
    measured = [*NEEDS, BESIDE[0], BESIDE[2]]
    out.table(parts.dropna(axis="columns", how="all"), suffix="_kernels", caption=_of_kernels(sweeps, gpu), of=measured)
    solved = [sweep for sweep in sweeps if sweep["sweep_ms"] is not None]
    if not solved:
        return
    staged = [bool(sweep["stages"]) for sweep in solved]
    of = [*(NEEDS if not all(staged) else []), BESIDE[0], *(BESIDE[2:] if any(staged) else [])]
    names = out.names([shortened(sweep["graph"]) for sweep in solved], 20, of=of)
    out.figure(
        _figure(solved, out, of),
        suffix="_streams",
        caption=_of_streams(solved, gpu),
        alt=_in_words(names, [_shares(sweep) for sweep in solved]),
        of=of,
        results=lambda result: (
            (result["engine"], result["storage"]) == ("coo_streams", "fp64") and result.get("stage") != "sweep"
        ),
    )


def _in_words(names, shares):
    """Return the parts of each bar in words."""
    bars = [
        f"{name}: {', '.join(f'{part} {100 * share:.0f} %' for part, (share, *_) in parts.items())}"
        for parts, name in sorted(zip(shares, names, strict=True), key=lambda pair: pair[0]["product"][0])
    ]
    return f"Shares of a sweep, {len(bars)} bars. {'; '.join(bars)}."


def _of_kernels(sweeps, gpu):
    """Return the caption of the table of kernels."""
    measured = [bool(sweep["stages"]) for sweep in sweeps]
    texts = [
        f"The kernels of a sweep of coo_streams on {gpu}, float64 where no other format is named, beside Belotti and "
        "Izzo's Figure 1; MB: moved at least; sweep of a solve: by the host's clock"
    ]
    if any(measured):
        texts.append(
            "each kernel was timed alone, several launches in a row, by device events, so that data in the cache are "
            "not read from memory again; sweep: all kernels in the same way, with the dangling mass in a second stream "
            "beside the product"
        )
    if not all(measured):
        texts.append(
            f"{'where single kernels were not timed: ' if any(measured) else ''}the product was timed alone, by device "
            "events; the rest of the sweep of a solve is update, distance and waits, for which 4 values a node are "
            "counted; dangling mass, which runs beside the product: the least it can take, 12 bytes a dangling node at "
            "the rate of a copy. Its own time and those of update and distance apart are not recorded"
        )
    return "; ".join(texts)


def _of_streams(sweeps, gpu):
    """Return the caption of the figure of streams."""
    measured = [bool(sweep["stages"]) for sweep in sweeps]
    right = ["its time alone over that of the sweep"] if any(measured) else []
    if not all(measured):
        unknown = any(sweep["dangling"] is None for sweep in sweeps if not sweep["stages"])
        dash = f" ({UNKNOWN}: the number of dangling nodes is not recorded)" if unknown else ""
        beside = f"with {AT_LEAST}, " if right else ""
        right.append(
            f"{beside}the least share that this sum takes, its bytes at the rate of a copy"
            f"{dash}; its own time, which the second stream can hide, is not recorded"
        )
    parts = "product, update, distance, and what the sweep takes beyond these (waits)"
    parts = parts if all(measured) else "the product, then update and distance, with the waits between"
    timed = "Kernels were" if any(measured) else "The product was"
    return (
        f"Parts of a sweep in float64 over edges in COO on {gpu}, in the order of Belotti and Izzo's Figure 1: "
        f"{parts}. Beside names: the time of a sweep. The dangling mass is summed in a second stream beside the "
        f"product; at the right: {'; '.join(right)}. {timed} timed alone, by device events, the sweep in whole solves, "
        f"by the host's clock; lines: least to most of a kernel's {_samples(sweeps)}, over the median "
        f"sweep{_varies(sweeps)}"
    )


def _samples(sweeps):
    """Return the number of samples of a kernel; solves have theirs."""
    return counted(int(max(sweep["samples"] for sweep in sweeps)), "sample")


def _varies(sweeps):
    """Return how much the samples of the kernels that are drawn vary at most, since lines are short."""
    kernels = [sweep["stages"].get("fp64") or {"product": sweep["product"]} for sweep in sweeps]
    drawn = [each[stage] for each in kernels for stage in ("product", "update", "distance") if stage in each]
    most = max((each["most_ms"] - each["least_ms"]) / each["median_ms"] for each in drawn)
    return f", up to {100 * most:.2g} % of the kernel's median"


def _lines(row):
    for storage in ("fp64", "fp32"):
        found = {(c["engine"], c["layout"]): c for c in row.contestants if c["storage"] == storage}
        library = found.get(("cusparse", "coo"))
        if library is None:
            continue
        line = {
            "graph": label(row),
            "edges": row.edges,
            "storage": storage,
            "cuSPARSE CSR, ms": found["cusparse", "csr"]["median_ms"],
            "cuSPARSE COO, ms": library["median_ms"],
            "algorithm": library.get("algorithm"),
        }
        for engine in OURS:
            took_ms = found.get((engine, "coo"), {}).get("median_ms", np.nan)
            line[f"{engine}, ms"] = took_ms
            line[f"{engine}, times"] = took_ms / library["median_ms"]
        line["coo_streams, GB/s"] = library["least_bytes"] / line["coo_streams, ms"] / 1e6
        yield line


def _sweeps(rows, systems, graphs, alone):
    """Yield the sweep of coo_streams on each graph with what is recorded of it.

    The product of a graph is known, and either its other kernels (``stages``, by storage) or the sweep of a solve.
    """
    solves = {}
    for row in systems:
        for result in row.results:
            if result["status"] == "ok" and (result["engine"], result["storage"]) == ("coo_streams", "fp64"):
                solves[row.graph] = 1e3 * float(np.median(np.diff([0.0, *result["step_s"]])))
    for _, row in rows.iterrows():
        stages = _stages(alone[row.graph]) if row.graph in alone else {}
        products = [c for c in row.contestants if (c["engine"], c["storage"]) == ("coo_streams", "fp64")]
        sweep_ms = solves.get(row.graph)
        if stages or (products and sweep_ms is not None):
            yield {
                "graph": label(row),
                "nodes": row.nodes,
                "sweep_ms": sweep_ms,
                "stages": stages,
                "product": stages["fp64"]["product"] if stages else products[0],
                "dangling": graphs.get(row.graph),
                "samples": alone[row.graph].samples if stages else row.samples,
                "copy_gbps": alone[row.graph].copy_gbps if stages else row.copy_gbps,
            }


def _stages(row):
    """Return the stages of coo_streams that a row holds, by storage; none without the product in float64."""
    found = {"fp64": {}, "fp32": {}}
    for each in row.contestants:
        if each["engine"] == "coo_streams":
            found[each["storage"]][each["stage"]] = each
    return found if "product" in found["fp64"] else {}


def _kernels(sweep):
    """Yield the lines of a sweep in the table of kernels: one a kernel, and the whole sweep."""

    def line(kernel, moved, took_ms, ends_ms=(None, None), **others):
        rate = moved / took_ms / 1e6 if moved is not None and took_ms > 0 else np.nan
        return {
            "graph": sweep["graph"],
            "kernel": kernel,
            "MB": np.nan if moved is None else moved / 1e6,
            "ms": took_ms,
            "least ms": ends_ms[0],
            "most ms": ends_ms[1],
            "GB/s": rate,
            "of a copy": rate / sweep["copy_gbps"],
            **others,
        }

    product, sweep_ms = sweep["product"], sweep["sweep_ms"]
    for stage, kernel in {**KERNELS, "sweep": "sweep"}.items():
        double, single = (sweep["stages"].get(storage, {}).get(stage) for storage in ("fp64", "fp32"))
        if double:
            others = {"fp32, ms": single["median_ms"], "fp32, GB/s": single["bandwidth_gbps"]} if single else {}
            yield line(kernel, double["least_bytes"], double["median_ms"], _ends(double), **others)
    if not sweep["stages"]:
        yield line("product", product["least_bytes"], product["median_ms"], _ends(product))
        yield line(REST, 8 * NODE_BYTES * sweep["nodes"], sweep_ms - product["median_ms"])
        if sweep["dangling"]:
            yield line("dangling mass, at least", None, 1e-6 * 12 * sweep["dangling"] / sweep["copy_gbps"])
    if sweep_ms is not None:
        yield line("sweep of a solve", None, sweep_ms)


def _ends(timed):
    """Return the least and the most milliseconds of a kernel's samples."""
    return timed["least_ms"], timed["most_ms"]


def _shares(sweep):
    """Return the parts of the sweep of a solve in their order: the median share of each, its least and its most.

    The rest of the sweep is the last part. Kernels that took longer alone than the sweep are shares of their sum.
    """
    kernels = sweep["stages"].get("fp64") or {"product": sweep["product"]}
    timed = {stage: kernels[stage] for stage in ("product", "update", "distance") if stage in kernels}
    whole_ms = max(sweep["sweep_ms"], sum(each["median_ms"] for each in timed.values()))
    shares = {
        stage: tuple(each[f"{end}_ms"] / whole_ms for end in ("median", "least", "most"))
        for stage, each in timed.items()
    }
    rest = max(0.0, 1.0 - sum(median for median, _, _ in shares.values()))
    return {**shares, "waits" if sweep["stages"] else REST: (rest, rest, rest)}


def _figure(sweeps, out, of):
    shares = sorted(((_shares(sweep), sweep) for sweep in sweeps), key=lambda pair: pair[0]["product"][0])
    graphs = out.names([shortened(sweep["graph"]) for _, sweep in shares], 20, of=of)
    names = [f"{name}, {sweep['sweep_ms']:.2g} ms" for name, (_, sweep) in zip(graphs, shares, strict=True)]
    figure, (axes,) = panels.grid(out.width, 1, panels.rows_height(names, 0.2, 0.8))
    for place, (parts, _) in enumerate(shares):
        left = 0.0
        for part, (share, least, most) in parts.items():
            axes.barh(place, share, left=left, height=0.62, **STYLE[part])
            if least < most:
                reach = [min(left + least, 1.0), min(left + most, 1.0)]
                axes.plot(reach, [place, place], color="#222222", linewidth=0.9, solid_capstyle="butt")
            left += share
    panels.named_rows(axes, names)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of a sweep")
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(-1, len(shares)), ["dangling", *(_dangling(sweep) for _, sweep in shares)])
    axes.set_ylim(top=-1.3)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    drawn = {part for parts, _ in shares for part in parts}
    swatches = {part: {"color": STYLE[part]["facecolor"], **panels.SWATCH} for part in STYLE if part in drawn}
    panels.legend(figure, panels.key(lines=swatches))
    return figure


def _dangling(sweep):
    """Return the share of the sweep that the sum of the dangling mass takes alone, or takes at least."""
    stages, count = sweep["stages"], sweep["dangling"]
    if stages:
        took_ms, sign = stages["fp64"].get("dangling", {}).get("median_ms", 0.0), ""
    elif count is None:
        return UNKNOWN
    else:
        took_ms, sign = 1e-6 * 12 * count / sweep["copy_gbps"], f"{AT_LEAST} "
    digit = float(f"{100 * took_ms / sweep['sweep_ms']:.1g}")
    return f"{sign}{digit:g} %" if took_ms else "none"
