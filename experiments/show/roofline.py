"""Bytes a second of each product against the copy and gather ceilings of the same run."""

import pandas as pd

from cpms.experiment.present import PALETTE, label

NEEDS = ["gpu_spmv"]


def show(rows, out):
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
    double = table[table.engine == "cusparse"]
    axes.plot(double["G gathers/s"], double["GB/s"], "x", color="#222222", markersize=4, label="cuSPARSE")
    axes.axhline(first.copy_gbps, color="#999999", linewidth=0.8)
    axes.text(axes.get_xlim()[0], first.copy_gbps * 1.02, "copy", fontsize=7)
    axes.axvline(first.gather_8_byte_giga_per_s, color="#999999", linewidth=0.8, linestyle="--")
    axes.set(xlabel="gathers, 10⁹ a second (dashed: random 8-byte gathers)", ylabel="least bytes, GB/s")
    axes.legend(ncols=3)
    out.figure(figure)
