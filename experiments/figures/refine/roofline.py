"""Bytes a second of each product, and of fused sweeps, against the copy and gather ceilings of their runs."""

import pandas as pd

from cpms.experiment.report.output import PALETTE, label, shortened

NEEDS = ["gpu_spmv"]
BESIDE = ["gpu_sweeps"]


def show(rows, out, beside):
    import matplotlib.pyplot as plt

    rows = rows[rows.status == "ok"]
    lines = []
    for _, row in rows.iterrows():
        for c in row.contestants:
            if c["engine"] != "cuda_thread_rows":
                lines.append(
                    {
                        "graph": label(row),
                        "engine": c["engine"],
                        "layout": c["layout"],
                        "storage": c["storage"],
                        "bits": c["bits"],
                        "ms": c["median_ms"],
                        "GB/s": c["least_bytes"] / c["median_ms"] / 1e6,
                        "of copy": c["least_bytes"] / c["median_ms"] / 1e6 / row.copy_gbps,
                        "G gathers/s": row.edges / c["median_ms"] / 1e6,
                    }
                )
    table = pd.DataFrame(lines).drop_duplicates(["graph", "engine", "layout", "storage", "bits"])
    first = rows.iloc[0]
    gathers = ", ".join(f"{first[f'gather_{size}_byte_giga_per_s']:.0f} G/s of {size} bytes" for size in (2, 4, 8))
    out.table(table, caption=f"Products; ceilings: copy {first.copy_gbps:.0f} GB/s, random gathers {gathers}")
    figure, axes = plt.subplots(figsize=(7, 3))
    for bits, part in table[table.engine == "cuda"].groupby("bits"):
        axes.plot(part["G gathers/s"], part["GB/s"], ".", color=PALETTE[bits], label=f"{bits} bits")
    swept = pd.DataFrame([line for _, row in beside.iterrows() if row.status == "ok" for line in _swept(row)])
    if len(swept):
        out.table(swept, suffix="_fused", caption=_CAPTION.format(beside.gpu.iloc[0]))
        for bits, part in swept.groupby("bits"):
            style = {"color": PALETTE[bits], "markersize": 3.5, "label": f"{bits} bits, fused"}
            axes.plot(part["G gathers/s"], part["GB/s"], "^", **style)
    double = table[table.engine == "cusparse"]
    axes.plot(double["G gathers/s"], double["GB/s"], "x", color="#222222", markersize=4, label="cuSPARSE")
    axes.axhline(first.copy_gbps, color="#999999", linewidth=0.8)
    axes.text(axes.get_xlim()[0], first.copy_gbps * 1.02, "copy", fontsize=7)
    axes.axvline(first.gather_8_byte_giga_per_s, color="#999999", linewidth=0.8, linestyle="--")
    axes.set(
        xlabel="gathers, 10⁹ a second (dashed: random 8-byte gathers; lines of the products' run)",
        ylabel="least bytes, GB/s",
    )
    axes.legend(ncols=3)
    out.figure(figure)


_CAPTION = (
    "Fused sweeps on {}, the engine's own choice of arrangement: bytes that a sweep must move, values gathered not "
    "counted, at the copy bandwidth of the same run, and gathers alone, in a kernel of their own, over its time; "
    "gathers are none where bins, or values dealt, are in shared memory; 'reached' is the larger of both, above 1 "
    "where sweeps gather in a better order than that kernel"
)


def _swept(row):
    own = row.results[0]["arrangement"]
    for result in row.results:
        if result["arrangement"] == own:
            seconds = 1e-6 * result["sweep_us"]
            yield {
                "graph": shortened(label(row)),
                "storage": result["storage"],
                "bits": result["bits"],
                "us": result["sweep_us"],
                "MB": result["bytes"] / 1e6,
                "million gathers": row.edges / 1e6,
                "GB/s": result["bytes"] / seconds / 1e9,
                "of copy": result["bytes"] / seconds / 1e9 / row.ceilings["copy_gbps"],
                "G gathers/s": row.edges / seconds / 1e9,
                "of gathers": None if result["in_bins"] else result["gather_us"] / result["sweep_us"],
                "reached": max(
                    result["bytes"] / row.ceilings["copy_gbps"] / 1e3, 0 if result["in_bins"] else result["gather_us"]
                )
                / result["sweep_us"],
            }
