"""Products with values: times faster than the first contestant, bytes and error, by matrix and contestant."""

import pandas as pd

NEEDS = ["gpu_product"]


def show(rows, out):
    import matplotlib.pyplot as plt

    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    out.table(table, caption="Products: times faster than the first contestant, and the bytes that they must move")
    names = list(dict.fromkeys(table.matrix))
    figure, axes = plt.subplots(1, len(names), figsize=(2.2 * len(names), 2.6), squeeze=False, sharey=True)
    for panel, name in zip(axes[0], names, strict=True):
        part = table[table.matrix == name]
        for engine, here in part.groupby("engine", sort=False):
            panel.plot(here["bytes an entry"], here.ms / part.ms.iloc[0], "o", markersize=3, label=engine)
        panel.set_title(name.removeprefix("stencil:"), fontsize=6)
    figure.supxlabel("bytes that a product must move, an entry", fontsize=8)
    figure.supylabel("time over the first contestant's", fontsize=8)
    axes[0][0].legend()
    out.figure(figure)


def _lines(row):
    first = row.contestants[0]["median_ms"]
    for c in row.contestants:
        yield {
            "matrix": row.graph,
            "engine": c["engine"],
            "layout": c["layout"],
            "indices": c["indices"],
            "storage": c["stored_as"],
            "bits": c["bits"],
            "compute": c["compute"],
            "vectors": c["vectors"],
            "ms": c["median_ms"],
            "times faster": first / c["median_ms"],
            "bytes an entry": c["least_bytes"] / row.entries,
            "GB/s": c["least_bytes"] / c["median_ms"] / 1e6,
            "error": c["error"],
        }
