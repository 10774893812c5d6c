"""Figure 4: the product by bits read, against float64 in the same layout and against cuSPARSE."""

import numpy as np
import pandas as pd

from cpms.experiment.report.output import PALETTE, label

NEEDS = ["gpu_spmv"]
SHOWN = [("cpms2", 1), ("cpms2", 2), ("cpms4", 1), ("cpms4", 2), ("cpms4", 3), ("cpms4", 4)]


def show(rows, out):
    import matplotlib.pyplot as plt

    rows = rows[rows.status == "ok"]
    times = _times(rows)
    if times.empty:
        out.leave_out("tables and figure", "the rows have no products of engines but cusparse")
        return
    for engine, suffix in (("cuda", ""), ("cuda_thread_rows", "_thread_rows")):
        chosen = times[times.engine == engine]
        out.table(
            _table(chosen), suffix=suffix, caption=f"Product on {rows.gpu.iloc[0]}, engine {engine}: times faster"
        )
    graphs = list(dict.fromkeys(times.graph))
    drawn = times[(times.engine == "cuda") & times.over_fp64.notna() & (times.storage != "fp64")]
    layouts = [layout for layout in ("csr", "ell") if (drawn.layout == layout).any()]
    if not layouts:
        out.leave_out("figure fig4", "no product of engine cuda in csr or ell reads fewer bits than float64's")
        return
    figure, axes = plt.subplots(1, len(layouts), figsize=(7, 1.2 + 0.3 * len(graphs)), sharey=True, squeeze=False)
    axes = axes[0]
    for panel, layout in zip(axes, layouts, strict=True):
        part = drawn[drawn.layout == layout]
        for k, (storage, read) in enumerate(SHOWN):
            line = part[(part.storage == storage) & (part.read == read)].set_index("graph").reindex(graphs)
            marker, offset = ("o" if storage == "cpms2" else "s"), (k - 2.5) * 0.11
            colour = PALETTE[int(line.bits.dropna().iloc[0])] if len(line.dropna()) else "#999999"
            panel.plot(
                line.over_fp64, np.arange(len(graphs)) + offset, marker, markersize=3.2, color=colour,
                label=f"{storage}, {int(line.bits.dropna().iloc[0])} bits" if len(line.dropna()) else None,
            )  # fmt: skip
        panel.axvline(1, color="#999999", linewidth=0.6)
        panel.set_title(layout)
    axes[0].set_yticks(range(len(graphs)), graphs)
    axes[0].invert_yaxis()
    figure.supxlabel("times faster than float64, same layout", fontsize=8)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3)
    out.figure(figure)


def _times(rows):
    lines = []
    for _, row in rows.iterrows():
        own = {(c["engine"], c["layout"]): c["median_ms"] for c in row.contestants if c["storage"] == "fp64"}
        for c in row.contestants:
            if c["engine"] != "cusparse":
                lines.append(
                    {
                        **c,
                        "graph": label(row),
                        "over_fp64": own.get((c["engine"], c["layout"]), np.nan) / c["median_ms"],
                        "over_cusparse": own.get(("cusparse", "csr"), np.nan) / c["median_ms"],
                    }
                )
    return pd.DataFrame(lines)


def _table(times):
    lines = []
    for (graph, layout), part in times.groupby(["graph", "layout"], sort=False):
        line = {"graph": graph, "layout": layout, "fp64 ms": np.nan, "fp64 / cuSPARSE": np.nan}
        for _, double in part[part.storage == "fp64"].head(1).iterrows():
            line |= {"fp64 ms": double.median_ms, "fp64 / cuSPARSE": double.over_cusparse}
        for storage, read in SHOWN:
            found = part[(part.storage == storage) & (part.read == read)]
            line[f"{storage} read {read}"] = found.over_fp64.iloc[0] if len(found) else np.nan
        lines.append(line)
    return pd.DataFrame(lines)
