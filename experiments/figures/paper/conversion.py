"""Conversion in place against the copy bandwidth of the same run, on processors and GPUs."""

from cpms.experiment.report import panels
from cpms.formats.formats import format_named

NEEDS = ["conversion_cpu", "gpu_conversion"]
WAYS = {"convert": ("to the format", "o"), "restore": ("back to float64", "s")}


def show(rows, out):
    rows = rows[rows.status == "ok"].copy()
    rows["device"] = [_device(row) for _, row in rows.iterrows()]
    table = rows[["device", "storage", "values"]].assign(**{"copy, GB/s": rows.copy_gbps})
    for way in WAYS:
        table[f"{way}, GB/s"] = rows[f"{way}_gbps"]
        for end in ("least", "most"):
            table[f"{way}, {end}"] = rows.get(f"{way}_{end}_gbps")
        table[f"{way} / copy"] = rows[f"{way}_gbps"] / rows.copy_gbps
    out.table(
        table,
        caption="Conversion in place, bytes read plus written in a second, medians, least and most; bold: the most of "
        "a device",
        best=dict.fromkeys((f"{way} / copy" for way in WAYS), "most by device"),
    )
    figure = _figure(rows, out)
    out.figure(
        figure,
        caption="Conversion in place: bytes read plus written in a second over those of a copy of the same array in "
        f"the same run, medians; lines: least to most of the samples, within the mark where none is seen. Copies go to "
        f"another array, {_copies(rows)}; above 1, conversion in place is faster than such a copy. Other work shares "
        f"the processors' memory. Blocked formats permute within groups of {_groups(rows)} bytes, planes across the "
        "array; seg16-16-32 has segments of 16, 16 and 32 bits",
    )


def _device(row):
    gpu = row.get("gpu")
    return gpu if isinstance(gpu, str) and row.experiment == "gpu_conversion" else f"{row.threads:g} threads, {row.cpu}"


def _groups(rows):
    """Return the bytes within which blocked formats permute, from the least to the most."""
    found = [format_named(each) for each in rows.storage]
    sizes = sorted({8 * storage.block for storage in found if storage.block})
    return " or ".join(filter(None, [", ".join(map(str, sizes[:-1])), *map(str, sizes[-1:])]))


def _copies(rows):
    """Return the least and the most rates of copies on each device, in three digits."""
    ends_of = rows.groupby("device", sort=False).copy_gbps.agg(["min", "max"])
    rates = {device: [f"{float(f'{end:.3g}'):g}" for end in pair] for device, pair in ends_of.T.items()}
    return ", ".join(f"from {least} to {most} GB/s on {device}" for device, (least, most) in rates.items())


def _figure(rows, out):
    devices, storages = (list(dict.fromkeys(rows[column])) for column in ("device", "storage"))
    height = panels.rows_height(storages, 0.2, 0.75)
    figure, axes = panels.grid(out.width, len(devices), height, columns=(1, 2), sharex=True)
    for panel, device in zip(axes, devices, strict=True):
        for row in rows[rows.device == device].to_dict("records"):
            for k, (way, (_, mark)) in enumerate(WAYS.items()):
                least, most = (row.get(f"{way}_{end}_gbps") for end in ("least", "most"))
                known = least is not None and most is not None
                interval = (least / row["copy_gbps"], most / row["copy_gbps"]) if known else None
                at = storages.index(row["storage"]) + panels.beside(k, len(WAYS), 0.6)
                ratio = row[f"{way}_gbps"] / row["copy_gbps"]
                panels.point(panel, ratio, at, None, mark, ends=interval)
        panels.unity(panel)
        panels.named_rows(panel, storages)
        threads, _, processor = device.partition(", ")
        panel.set_title(f"{processor}, {threads}" if processor else device)
    axes[0].set_xlim(left=0)  # Of all panels, which share their axis.
    figure.supxlabel("rate over that of a copy")
    panels.legend(figure, panels.key(marks=dict(WAYS.values())))
    return figure
