"""Rounding of arrays to a format by cpms, pychop, gfloat and casts, against a copy of the array.

Rows of a GPU, where arrays lie in its memory, are drawn where they exist.
"""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends
from cpms.experiment.report.palette import PALETTE, nearest
from cpms.formats.formats import format_named

NEEDS = ["rounding_cpu", "rounding_blocks_cpu"]
BESIDE = ["rounding_gpu"]
MARKS = {"cpms": "o", "gfloat": "s", "pychop": "^", "cast": "D"}


def show(rows, out, beside):
    measured = [row for part in (rows, beside) for row in part.to_dict("records") if row["status"] == "ok"]
    table = pd.DataFrame(
        [
            {
                "storage": _called(row),
                "bits": format_named(row["storage"]).bits(None),
                "values": row["values"],
                "copy_ms": row["copy"]["median_ms"],
                **result,
            }
            for row in measured
            for result in row["results"]
        ]
    )
    table["over_copy"] = table.median_ms / table.copy_ms
    out.table(
        table[["storage", "values", "contestant", "median_ms", "copy_ms", "differing"]].rename(
            columns={"median_ms": "median, ms", "copy_ms": "copy, ms", "differing": "values unlike those of cpms"}
        ),
        caption="Rounding of float64 to a format, contestants in turn, medians",
    )
    out.figure(
        _figure(table, out),
        caption="Time of rounding an array to a format over that of a copy of it in one run, medians; lines: least to "
        "most of the samples. Formats of blocks are rounded in small arrays, since two contestants take one block "
        "after the other. Colour: bits of the format; those of fewer than 8 bits have the colour of 8, and their names "
        "end in the bits",
        alt=ends(table, "over_copy", ["storage", "contestant"], "Time of rounding over copy"),
    )


def _called(row):
    """Return the name of a format, with its bits where its colour is that of more, and where it was rounded."""
    bits = format_named(row["storage"]).bits(None)
    few = f"{bits} bits" if bits < min(PALETTE) else ""
    return ", ".join(filter(None, [row["storage"], few, "GPU" if row.get("device") == "cuda" else ""]))


def _figure(table, out):
    storages = list(dict.fromkeys(table.storage))
    figure, [panel] = panels.grid(out.width, 1, panels.rows_height(storages, 0.17, 0.6), columns=(1, 1))
    for row in table.to_dict("records"):
        interval = row["least_ms"] / row["copy_ms"], row["most_ms"] / row["copy_ms"]
        at = storages.index(row["storage"]) + 0.18 * (list(MARKS).index(row["contestant"]) - 1.5)
        panels.point(panel, row["over_copy"], at, row["bits"], MARKS[row["contestant"]], ends=interval)
    panels.named_rows(panel, storages)
    panels.logarithmic(panel)
    figure.supxlabel("time over that of a copy")
    panels.legend(figure, panels.key(map(nearest, table.bits), MARKS))
    return figure
