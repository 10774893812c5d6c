"""Rounding of arrays to a format by cpms, pychop, gfloat and casts, against a copy of the array.

Rows of a GPU, where arrays lie in its memory, are drawn where they exist.
"""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.intervals import UNSEEN
from cpms.experiment.report.palette import PALETTE, nearest
from cpms.formats.formats import format_named

NEEDS = ["rounding_cpu", "rounding_blocks_cpu"]
BESIDE = ["rounding_gpu"]
HEADS = {
    "median_ms": "median, ms", "least_ms": "least, ms", "most_ms": "most, ms", "copy_ms": "copy, ms",
    "differing": "values unlike those of cpms",
}  # fmt: skip
"""Heads of the table, by columns."""
MARKS = {"cpms": "o", "gfloat": "s", "pychop": "^", "cast": "D"}


def show(rows, out, beside):
    measured = [row for part in (rows, beside) for row in part.to_dict("records") if row["status"] == "ok"]
    table = pd.DataFrame(
        [
            {
                "device": row["gpu"] if row.get("device") == "cuda" else f"{row['threads']} threads, {row['cpu']}",
                "storage": _called(row["storage"]),
                "bits": format_named(row["storage"]).bits(None),
                "values": row["values"],
                "copy_ms": row["copy"]["median_ms"],
                **result,
            }
            for row in measured
            for result in row["results"]
        ]
    )
    copies = table.drop_duplicates(["device", "storage", "values"]).groupby(["device", "values"], sort=False).copy_ms
    of_size = copies.agg(["min", "median", "max"])
    sizes = pd.MultiIndex.from_frame(table[["device", "values"]])
    table["copy_of_all_ms"] = of_size["median"].reindex(sizes).to_numpy()
    table["over_copy"] = table.median_ms / table.copy_of_all_ms
    out.table(
        table[["device", "storage", "values", "contestant", *HEADS]].rename(columns=HEADS),
        caption="Rounding of float64 to a format, contestants in turn, medians, least and most of the samples"
        f"{_threads(table)}",
    )
    out.figure(
        _figure(table, out),
        caption="Time of rounding an array to a format over that of a copy of it, medians; lines: least to most of the "
        f"samples{UNSEEN}; axes differ. {_copied(of_size)}. Formats of blocks (mx) are rounded on processors in small "
        f"arrays{_small(table)}. Casts are of NumPy and ml_dtypes, on the GPU of "
        f"CuPy{_threads(table)}. Without a mark a contestant was not timed with that format. Colour: bits in which a "
        "value is stored, at least 8",
    )


def _copied(of_size):
    """Return the time of a copy by the number of values, and how far the copies of the rows differ, for a caption."""
    texts = [
        f"{line.median:.3g} ms ({line.min:.3g} to {line.max:.3g}) for {values:,} values"
        for (_, values), line in zip(of_size.index, of_size.itertuples(), strict=True)
    ]
    return f"The median of the copies beside each format counts: {', '.join(texts)}"


def _called(storage):
    """Return the name of a format, with its bits where its colour is that of more."""
    bits = format_named(storage).bits(None) - getattr(format_named(storage), "padding", 0)
    return f"{storage}, {bits} bits" if bits < min(PALETTE) or bits not in PALETTE else storage


def _small(table):
    """Return the number of values of formats of blocks on processors, and why, as a text for a caption."""
    blocks = table[table.storage.str.startswith("mx") & table.device.str.contains("threads")]
    if blocks.empty:
        return ""
    sizes = " or ".join(f"{size:,}" for size in sorted(set(blocks["values"])))
    others = [name for name in MARKS if name in set(blocks.contestant) - {"cpms", "cast"}]
    loops = f"{' and '.join(others)} loop{'s' * (len(others) == 1)} over blocks, and " if others else ""
    return f" of {sizes} values: {loops}copies of these stay in the cache"


def _threads(table):
    """Return on how many threads of a processor contestants run, as a sentence; empty if cpms ran alone there."""
    on_cpu = table[table.device.str.contains("threads")]
    others = {"gfloat": "gfloat", "pychop": "pychop", "cast": "casts"}
    names = [word for name, word in others.items() if name in set(on_cpu.contestant)]
    if not names:
        return ""
    most = on_cpu.device.iloc[0].partition(" ")[0]
    return f". Threads on processors: 1 of {', '.join(names)}; {most} of cpms and copies"


def _figure(table, out):
    devices = dict(list(table.groupby("device", sort=False)))
    most, order = range(max(part.storage.nunique() for part in devices.values())), list(dict.fromkeys(table.storage))
    figure, axes = panels.grid(out.width, len(devices), panels.rows_height(most, 0.17, 0.7), columns=(1, 2))
    for panel, (device, part) in zip(axes, devices.items(), strict=True):
        storages = sorted(dict.fromkeys(part.storage), key=lambda name: [*order, name].index(name))
        offered = part.groupby("storage").contestant.agg(set)
        for row in part.to_dict("records"):
            own = [name for name in MARKS if name in offered[row["storage"]]]
            interval = row["least_ms"] / row["copy_of_all_ms"], row["most_ms"] / row["copy_of_all_ms"]
            at = storages.index(row["storage"]) + panels.beside(own.index(row["contestant"]), len(own), 0.18 * len(own))
            panels.point(panel, row["over_copy"], at, row["bits"], MARKS[row["contestant"]], ends=interval)
        panels.named_rows(panel, storages)
        panels.unity(panel)
        if part.over_copy.max() > 10 * part.over_copy.min():
            panels.logarithmic(panel)
        else:
            panel.set_xlim(left=min(0.9, 0.95 * part.over_copy.min()))
        panel.set(title=device.partition(",")[0], xlabel="time over that of a copy")
    marks = {name: mark for name, mark in MARKS.items() if name in set(table.contestant)}
    panels.legend(figure, panels.key(map(nearest, table.bits), marks))
    return figure
