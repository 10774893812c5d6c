"""Products with values: times faster than the first contestant, bytes and error, by matrix and contestant."""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends
from cpms.experiment.report.output import shortened

NEEDS = ["gpu_product"]
LIBRARIES = ("cusparse", "scipy")
VALUES = {"planes": "planes", "blocks": "bfp"}
"""Layouts of values, by a part of the names of their storages."""
OF_VALUES = {"sell, planes": "D", "sell, blocks": "p"}
ASIDE = {"sell, planes": 0.4}
"""Bytes by which marks lie beside those of the same bytes, so that none hides another."""


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    out.table(
        table.drop(columns=["asked", "least ms", "most ms"]),
        best={"ms": "least by matrix"},
        caption="Products: times faster than the first contestant, and the bytes that they must move",
    )
    out.figure(
        _figure(table, out),
        caption=f"Time of a product over that of {_first(table)}, against the bytes that it must move an entry: "
        "medians, lines from the least to the most of the samples; colour: bits, marker: layout, or the library, "
        "planes and blocks: layouts of values in sell, of one array that is read to different bits and of blocks with "
        f"one exponent, planes drawn {ASIDE['sell, planes']} bytes to the right of their place; hollow: compressed "
        "indices where they were asked for, lossless and bfp16 leave them to cpms; small: vectors in float32, of sums "
        "in float32 or float64 the faster. "
        f"{_storages(table)}",
        alt=ends(table, "times faster", ["matrix", "storage"], "Times faster than the first contestant", "times"),
    )


def _first(table):
    """Return the name of the first contestant."""
    return " ".join(table.iloc[0][["engine", "layout", "asked"]])


def _storages(table):
    """Return what is stored in each number of bits, as sentences; of a choice for each matrix, what it chose, too."""
    lossless = ", ".join(dict.fromkeys(table[table.asked == "lossless"].storage))
    bits = "; ".join(
        f"{bits:g} bits, {', '.join(dict.fromkeys(part.asked))}"
        for bits, part in table.sort_values("bits", ascending=False, kind="stable").groupby("bits", sort=False)
    )
    chosen = f" Lossless is the shortest format that holds all values of a matrix, here {lossless}." if lossless else ""
    return f"Storages: {bits}.{chosen}"


def _figure(table, out):
    names = list(dict.fromkeys(table.matrix))
    figure, axes = panels.grid(out.width, len(names), 2.0, columns=(2, 4), sharex=True, sharey=True)
    marks = {}
    for panel, name, shown in zip(axes, names, out.names(map(shortened, names)), strict=True):
        part = table[table.matrix == name]
        first = part.ms.iloc[0]
        part = part.sort_values("ms").drop_duplicates(["engine", "layout", "indices", "asked", "bits", "vectors"])
        for line in part.sort_index().to_dict("records"):
            kind = line["engine"] if line["engine"] in LIBRARIES else _layout(line)
            marks[kind] = OF_VALUES.get(kind) or panels.marker(kind)
            panels.point(
                panel, line["bytes an entry"] + ASIDE.get(kind, 0.0), line["ms"] / first, line["bits"], marks[kind],
                ends=(line["least ms"] / first, line["most ms"] / first), across=False, light=True,
                filled=line["indices"] != "compressed", size=2.6 if line["vectors"] == "fp32" else 4.2,
            )  # fmt: skip
        panels.unity(panel, across=True)
        panel.set_title(shown)
        panel.set_ylim(bottom=0)
    figure.supxlabel("bytes to move an entry")
    figure.supylabel(f"time over {_first(table)}")
    ways = {"compressed indices": panels.HOLLOW} if (table.indices == "compressed").any() else {}
    panels.legend(figure, panels.key(table.bits, marks, ways))
    return figure


def _layout(line):
    """Return the layout of a matrix, or that of its values where these are not stored one after the other."""
    of_values = next((name for name, part in VALUES.items() if part in line["asked"]), None)
    return f"{line['layout']}, {of_values}" if of_values else line["layout"]


def _lines(row):
    first = row.contestants[0]["median_ms"]
    for c in row.contestants:
        yield {
            "matrix": row.graph,
            "engine": c["engine"],
            "layout": c["layout"],
            "indices": c["indices"],
            "asked": c["storage"],
            "storage": c["stored_as"],
            "bits": c["bits"],
            "compute": c["compute"],
            "vectors": c["vectors"],
            "ms": c["median_ms"],
            "least ms": c["least_ms"],
            "most ms": c["most_ms"],
            "spread, %": 100 * (c["most_ms"] - c["least_ms"]) / c["median_ms"],
            "times faster": first / c["median_ms"],
            "bytes an entry": c["least_bytes"] / row.entries,
            "GB/s": c["least_bytes"] / c["median_ms"] / 1e6,
            "error": c["error"],
        }
