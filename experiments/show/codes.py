"""What sweeps on a GPU gain where sources of edges take 16 bits, and degrees 8."""

import pandas as pd

from cpms.experiment.present import PALETTE, label, shortened

NEEDS = ["gpu_codes"]


def show(rows, out):
    import matplotlib.pyplot as plt

    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    out.table(
        table,
        caption=f"Sweeps on {rows.gpu.iloc[0]}, medians: sources and degrees of 32 bits against sources by codes of 16 "
        "(32 where those of 256 edges lie 2^15 nodes apart) and degrees of 8; bytes that a sweep must move, values "
        "gathered not counted; gathers alone, by the same names of sources",
    )
    figure, axes = plt.subplots(figsize=(7, 3.2))
    graphs = list(dict.fromkeys(table.graph))
    for place, (bits, part) in enumerate(table.groupby("bits")):
        faster = part.set_index("graph").reindex(graphs)["times faster"]
        axes.plot(faster, [i + 0.12 * (place - 1.5) for i in range(len(graphs))], "o", ms=3.5, color=PALETTE[bits])
        axes.plot([], [], "o", ms=3.5, color=PALETTE[bits], label=f"{bits} bits a value")
    axes.axvline(1.0, color="#222222", linewidth=0.6)
    axes.set(xlabel="times faster by codes")
    axes.set_yticks(range(len(graphs)), graphs)
    axes.invert_yaxis()
    axes.legend()
    out.figure(figure)


def _lines(row):
    found = {(result["arrangement"]["codes"], result["storage"]): result for result in row.results}
    for (by_codes, storage), result in found.items():
        if by_codes:
            continue
        coded = found[True, storage]
        yield {
            "graph": shortened(label(row)),
            "storage": storage,
            "bits": result["bits"],
            "us": result["sweep_us"],
            "by codes us": coded["sweep_us"],
            "times faster": result["sweep_us"] / coded["sweep_us"],
            "MB": result["bytes"] / 1e6,
            "by codes MB": coded["bytes"] / 1e6,
            "gathers us": result["gather_us"],
            "by codes gathers us": coded["gather_us"],
        }
