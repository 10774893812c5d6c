"""Products with edges in COO beside cuSPARSE's, bandwidth of the kernels of a sweep, and what two streams overlap."""

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends
from cpms.experiment.report.output import label, shortened

NEEDS = ["gpu_coo"]
BESIDE = ["gpu_systems", "table1"]
OURS = ["coo_streams", "reduce_by_key", "coo_basic"]
NODE_BYTES = 4
"""Values of a node that update and distance read and write: a sum, the new value, and the two that are compared."""
UNKNOWN = "\u2013"
"""Of shares that the rows do not hold."""
STYLE = {
    "product": {"facecolor": panels.colour(64)},
    "update, distance, waits": {"facecolor": "#cccccc"},
}


def show(rows, out, beside):
    rows = rows[rows.status == "ok"]
    lines = [line for _, row in rows.iterrows() for line in _lines(row)]
    gpu = rows.gpu.iloc[0]
    out.table(
        pd.DataFrame(lines),
        best={f"{name}, ms": "row least" for name in ("cuSPARSE CSR", "cuSPARSE COO", *OURS)},
        caption=f"Products on {gpu}, medians; times: of cuSPARSE in COO, which chose the algorithm named",
    )
    beside = beside[beside.status == "ok"] if len(beside) else beside
    systems, graphs = ([r for _, r in beside.iterrows() if r.experiment == name] for name in BESIDE)
    kernels = pd.DataFrame(_kernels(rows, systems, graphs))
    if kernels.empty:
        return
    out.table(
        kernels.drop(columns=["product share", "least share", "most share", "dangling share"]),
        suffix="_kernels",
        caption=f"The kernels of a sweep of coo_streams on {gpu}, float64, beside Belotti and Izzo's Figure 1: the "
        "product timed alone, by device events; the rest of the sweep of a whole solve, by the host's clock, is "
        "update, distance and waits, for which 4 values a node are counted; dangling mass, which runs beside the "
        "product: the least it can take, 12 bytes a dangling node at the rate of a copy. Its own time and those of "
        "update and distance apart are not recorded",
    )
    names = out.names(map(shortened, kernels.graph), 20, of=["gpu_coo", "gpu_systems"])
    out.figure(
        _figure(kernels, out),
        suffix="_streams",
        caption=f"Parts of a sweep in float64 over edges in COO on {gpu}, ordered as Belotti and Izzo's Figure 1: the "
        "product, then update and distance, with the waits between; beside names: the time of a sweep. The dangling "
        "mass is summed in a second stream beside the product. At the right: the least share that this sum takes, its "
        f"bytes at the rate of a copy{_unknown(kernels)}; its own time, which the second stream can hide, is not "
        "recorded. The product was timed alone, by device events, the sweep in whole solves, by the host's clock; "
        "lines: least to most of the product, over the median sweep",
        alt=ends(
            kernels.assign(graph=names),
            "product share",
            ["graph"],
            "Share of a sweep that the product takes",
            drawn="bars",
        ),
        of=["gpu_coo", "gpu_systems"],
    )


def _unknown(kernels):
    """Return what a dash at the right of the figure means, if there is one."""
    unknown = kernels["dangling share"].isna().any()
    return f" ({UNKNOWN}: the number of dangling nodes is not recorded)" if unknown else ""


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


def _kernels(rows, systems, graphs):
    """Yield the times and rates of the kernels of a sweep of each graph whose product and solve are recorded."""
    solves = {}
    for row in systems:
        for result in row.results:
            if result["status"] == "ok" and (result["engine"], result["storage"]) == ("coo_streams", "fp64"):
                solves[row.graph] = 1e3 * float(np.median(np.diff([0.0, *result["step_s"]])))
    dangling = {row.graph: row.empty_rows for row in graphs}
    for _, row in rows.iterrows():
        product = [c for c in row.contestants if (c["engine"], c["storage"]) == ("coo_streams", "fp64")]
        if not product or row.graph not in solves:
            continue
        product_ms, sweep_ms = product[0]["median_ms"], solves[row.graph]
        rest_ms = sweep_ms - product_ms
        least_ms = 1e-6 * 12 * dangling.get(row.graph, np.nan) / row.copy_gbps
        yield {
            "graph": label(row),
            "nodes": row.nodes,
            "edges": row.edges,
            "sweep, ms": sweep_ms,
            "product, ms": product_ms,
            "product, GB/s": 1e-6 * product[0]["least_bytes"] / product_ms,
            "rest, ms": rest_ms,
            "rest, GB/s": 1e-6 * 8 * NODE_BYTES * row.nodes / rest_ms if rest_ms > 0 else np.nan,
            "dangling mass at least, ms": least_ms,
            "copy, GB/s": row.copy_gbps,
            "product share": product_ms / sweep_ms,
            "least share": product[0]["least_ms"] / sweep_ms,
            "most share": product[0]["most_ms"] / sweep_ms,
            "dangling share": least_ms / sweep_ms,
        }


def _figure(kernels, out):
    graphs = kernels.sort_values("product share")
    names = [
        f"{name}, {ms:.2g} ms"
        for name, ms in zip(
            out.names(map(shortened, graphs.graph), 20, of=["gpu_coo", "gpu_systems"]), graphs["sweep, ms"], strict=True
        )
    ]
    figure, (axes,) = panels.grid(out.width, 1, panels.rows_height(names, 0.2, 0.8))
    for place, line in enumerate(graphs.to_dict("records")):
        share = min(line["product share"], 1.0)
        axes.barh(place, share, height=0.62, **STYLE["product"])
        axes.barh(place, 1 - share, left=share, height=0.62, **STYLE["update, distance, waits"])
        reach = [min(line[f"{end} share"], 1.0) for end in ("least", "most")]
        axes.plot(reach, [place, place], color="#222222", linewidth=0.9, solid_capstyle="butt")
    panels.named_rows(axes, names)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of a sweep")
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(-1, len(graphs)), ["dangling", *map(_at_least, graphs["dangling share"])])
    axes.set_ylim(top=-1.3)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    swatches = {name: {"color": style["facecolor"], **panels.SWATCH} for name, style in STYLE.items()}
    panels.legend(figure, panels.key(lines=swatches))
    return figure


def _at_least(share):
    """Return a share that is a lower bound, in one digit."""
    if np.isnan(share):
        return UNKNOWN
    return f"\u2265 {100 * share:.1g} %" if share else "none"
