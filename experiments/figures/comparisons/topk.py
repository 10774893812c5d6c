"""The k largest values: time, bytes read a second over those a copy reads and writes, and what others take."""

import pandas as pd

from cpms.experiment.report.output import PALETTE

NEEDS = ["topk", "gpu_topk"]

OTHERS = ["torch", "argpartition", "argsort"]
PATTERNS = {"random": PALETTE[64], "ranks": PALETTE[16], "ascending": PALETTE[48], "equal": PALETTE[32]}


def show(rows, out):
    rows = rows[rows.status == "ok"]
    for experiment, part in rows.groupby("experiment", sort=False):
        table = pd.DataFrame([line for _, row in part.iterrows() for line in _lines(row)]).dropna(axis=1, how="all")
        device = part.gpu.iloc[0] if experiment == "gpu_topk" else f"{part.cpu.iloc[0]}, {part.threads.iloc[0]} threads"
        suffix = "_gpu" if experiment == "gpu_topk" else ""
        out.table(
            table,
            suffix=suffix,
            caption=f"The k largest values on {device}, medians: 'alone' is the kernel without memory to allocate or "
            "a host to wait for, 'in order' the same reading from first to last; 'GB/s' counts the bytes of the values "
            "once ('alone' on a GPU), 'share' is that over the bytes which a copy of them reads and writes; others are "
            "times over ours",
        )
        out.figure(_figure(table), suffix=suffix)
        for line in _faults(part):
            out.say(line)


def _lines(row):
    times = {(result["contestant"], result["k"]): result["median_ms"] for result in row.results}
    sorting = next((result["median_ms"] for result in row.results if result["contestant"] == "argsort"), None)
    for k in (k for k in row.ks if ("cpms", k) in times):
        ours = times["cpms", k]
        alone = times.get(("launch", k), ours)
        yield {
            "values": row["values"],
            "type": row["dtype"],
            "pattern": row.pattern,
            "k": k,
            "ms": ours,
            "alone ms": times.get(("launch", k)),
            "in order ms": times.get(("launch in order", k)),
            "GB/s": row.bytes / alone / 1e6,
            "share": row["copy"]["median_ms"] / alone / 2,
            "torch": _over(times.get(("torch", k)), ours),
            "argpartition": _over(times.get(("argpartition", k)), ours),
            "argsort": _over(sorting, ours),
        }


def _over(other_ms, ours_ms):
    return None if other_ms is None else other_ms / ours_ms


def _faults(rows):
    """Say where a contestant found other values, or other places, than a stable sort."""
    results = [result for found in rows.results for result in found]
    for name in dict.fromkeys(result["contestant"] for result in results):
        mine = [result for result in results if result["contestant"] == name]
        values, places = (sum(not result[key] for result in mine) for key in ("same_values", "same_places"))
        if values or places:
            yield f"{name}: of {len(mine)} answers {values} have other values, {places} other places among ties"


def _figure(table):
    import matplotlib.pyplot as plt

    of_one_type = table[table["type"] == table["type"].iloc[0]]
    largest = of_one_type[of_one_type["values"] == of_one_type["values"].max()]
    figure, (left, right) = plt.subplots(1, 2, figsize=(7, 2.8))
    for pattern, part in largest.groupby("pattern", sort=False):
        left.plot(part.k, part.share, "o-", ms=3, color=PATTERNS.get(pattern, "#222222"), label=pattern)
    left.axhline(0.6, color="#222222", linewidth=0.6, label="aimed at, k to 32")
    left.set(xscale="log", xlabel="k", ylabel="bytes read / copy bandwidth", ylim=(0, None))
    left.legend()
    part = largest[largest.pattern == largest.pattern.iloc[0]]
    right.plot(part.k, part.ms, "o-", ms=3, color=PALETTE[64], label="cpms")
    for other, colour in zip(OTHERS, (PALETTE[16], PALETTE[48], PALETTE[40]), strict=True):
        if other in part:
            right.plot(part.k, part.ms * part[other], "o-", ms=3, color=colour, label=other)
    right.set(xscale="log", yscale="log", xlabel="k", ylabel=f"ms, {part['values'].iloc[0]:,} {part.pattern.iloc[0]}")
    right.set_ylim(top=8 * right.get_ylim()[1])
    right.legend(ncols=2, loc="upper left")
    return figure
