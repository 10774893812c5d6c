"""Linear systems: iterations, bytes and times by way, and residuals against iterations coloured by bits."""

import pandas as pd

NEEDS = ["linear_cpu"]
COLOURS = {16: "tab:red", 24: "tab:orange", 32: "tab:green", 40: "tab:olive", 48: "tab:cyan", 64: "tab:blue"}


def show(rows, out):
    import matplotlib.pyplot as plt

    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    out.table(table, caption="Linear systems: what each way takes to the same certified residual")
    names = list(dict.fromkeys(zip(rows.graph, rows.rhs, strict=True)))
    figure, axes = plt.subplots(1, len(names), figsize=(2.4 * len(names), 2.6), squeeze=False, sharey=True)
    for panel, name in zip(axes[0], names, strict=True):
        row = rows[(rows.graph == name[0]) & (rows.rhs == name[1])].iloc[0]
        for way in row.ways_found:
            steps = pd.DataFrame(way["history"], columns=["iteration", "residual", "bits", "bytes"])
            for bits, part in steps.groupby("bits"):
                panel.semilogy(part.iteration, part.residual, ".", markersize=2, color=COLOURS.get(bits, "k"))
        panel.set_title(f"{name[0].removeprefix('stencil:')}, {name[1]}", fontsize=6)
    for bits, colour in COLOURS.items():
        axes[0][0].plot([], [], ".", color=colour, label=f"{bits} bits")
    axes[0][0].legend(fontsize=6)
    figure.supxlabel("iteration", fontsize=8)
    figure.supylabel("residual over the right-hand side", fontsize=8)
    out.figure(figure)


def _lines(row):
    first = row.ways_found[0]
    for way in row.ways_found:
        yield {
            "matrix": row.graph,
            "right-hand side": row.rhs,
            "method": way["used"],
            "engine": way["engine"],
            "storage": way["stored_as"],
            "vectors": " ".join(way["vectors"]),
            "status": way["status"],
            "iterations": way["iterations"],
            "residual": way["residual"],
            "GB read": way["bytes_read"] / 1e9,
            "solve ms": 1e3 * way["solve_s"],
            "times faster": first["solve_s"] / way["solve_s"] if way["solve_s"] else 1.0,
        }
