"""The k largest values: time, bytes read a second over those a copy reads and writes, and what others take."""

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import threads_of_all
from cpms.experiment.report.intervals import UNSEEN
from cpms.experiment.report.palette import colour

NEEDS = ["topk", "gpu_topk"]
IN_ORDER = "launch in order"
"""A kernel that the table alone has."""

OTHERS = ["torch", "argpartition", "argsort"]
ORDERS = {"random": "uniformly random", "ranks": "of a power law (ranks)", "equal": "all equal"}
"""What names of orders mean that do not say it, by `cpms.experiment.kinds.topk.pattern`."""
PATTERNS = {"random": "o", "ranks": "s", "ascending": "^", "equal": "D"}
BITS = {"float32": 32, "float64": 64}
COPIED = ["copy ms", "copy least ms", "copy most ms"]
CALLED = {"cpms": ("cpms", "P"), "torch": ("PyTorch topk", "X")}
BY_LIBRARY = {"argpartition": "v", "argsort": ""}
"""Markers of others; argsort, which knows no k, is timed once and has none."""


FROM = 0.4
"""The beginning of an axis of shares that are all above it."""
_ABREAST = 1.09
"""The factor between the places of the orders at one k."""


def show(rows, out):
    rows = rows[rows.status == "ok"]
    for experiment, part in rows.groupby("experiment", sort=False):
        copies = _copies(part)
        lines = pd.DataFrame([line for _, row in part.iterrows() for line in _lines(row, copies)])
        table = lines.drop(columns=["low", "high"]).dropna(axis=1, how="all")
        device = part.gpu.iloc[0] if experiment == "gpu_topk" else f"{part.cpu.iloc[0]}, {part.threads.iloc[0]} threads"
        suffix = "_gpu" if experiment == "gpu_topk" else ""
        out.table(
            table,
            suffix=suffix,
            caption=f"The k largest values on {device}, medians: 'alone' is the kernel without memory to allocate or "
            "a host to wait for, 'in order' the same reading from first to last; 'GB/s' counts the bytes of the values "
            "once ('alone' on a GPU), 'share' is that over the bytes which a copy of them reads and writes, by the "
            f"median copy of all orders; others are times over ours{_threads(part, suffix)}",
            of=[experiment],
        )
        drawn = _drawn(part)
        out.figure(
            _figure(lines, drawn, out, _of_kernel(part), "CuPy" if suffix else "NumPy"),
            suffix=suffix,
            caption=f"The k largest of {lines['values'].max():,} {lines['type'].iloc[0]} values on {device}: "
            f"share of the copy bandwidth that cpms reaches{' (kernel alone)' if _of_kernel(part) else ''}, by the "
            f"values: {_orders(lines)}, "
            f"marks of one k beside each other; and times of whole calls for {lines.pattern.iloc[0]} values; lines: "
            f"least to most of the samples{UNSEEN}. {_copied(lines)}"
            + (f" The axis of shares begins at {FROM}." if _bottom(lines) else "")
            + (" Argsort, which takes no k, was timed once." if "argsort" in set(drawn.contestant) else "")
            + (" CuPy's argpartition sorts, too." if suffix and "argpartition" in set(drawn.contestant) else "")
            + _threads(part, suffix).removeprefix("."),
            of=[experiment],
            results=lambda result: result["contestant"] != IN_ORDER,
        )
        for line in _faults(part):
            out.say(line)


def _threads(rows, suffix):
    """Return on how many threads of a processor contestants run, as a sentence behind others."""
    return "" if suffix else f". NumPy uses one thread, cpms and copies {threads_of_all(rows)}"


def _copies(rows):
    """Return the copies by type and number of values: the median of all orders, and the least and most samples."""
    copies = pd.DataFrame(rows["copy"].tolist(), index=rows.index)[["median_ms", "least_ms", "most_ms"]]
    of_all = {"median_ms": "median", "least_ms": "min", "most_ms": "max"}
    return copies.groupby([rows["dtype"], rows["values"]]).agg(of_all).set_axis(COPIED, axis=1)


def _copied(lines):
    """Return how far copies of the largest arrays differ, and why shares may be above 1."""
    largest = _largest(lines)
    middle, least, most = largest[COPIED].iloc[0]
    above = " Copies write as much as they read, so that shares may be above 1." if (largest.share > 1).any() else ""
    return (
        f"A copy takes {middle:.3g} ms, the median of all, samples from {least:.3g} to {most:.3g} ms; the grey band is "
        f"from the slowest to the fastest of the copies timed beside each order, medians.{above}"
    )


def _largest(lines):
    of_one_type = lines[lines["type"] == lines["type"].iloc[0]]
    return of_one_type[of_one_type["values"] == of_one_type["values"].max()]


def _orders(lines):
    """Return the orders of the values, in words."""
    return ", ".join(ORDERS.get(name, name) for name in dict.fromkeys(_largest(lines).pattern))


def _bottom(lines):
    """Return where the axis of shares begins: above 0 if all of them are far above."""
    return FROM if _largest(lines).low.min() > FROM else 0


def _of_kernel(rows):
    """Return whether shares are of the kernel alone, as where it is timed by itself."""
    return any(result["contestant"] == "launch" for found in rows.results for result in found)


def _lines(row, copies):
    times = {(result["contestant"], result["k"]): result["median_ms"] for result in row.results}
    held = {(result["contestant"], result["k"]): result for result in row.results}
    sorting = next((result["median_ms"] for result in row.results if result["contestant"] == "argsort"), None)
    copy = copies.loc[(row["dtype"], row["values"])]
    for k in (k for k in row.ks if ("cpms", k) in times):
        ours = times["cpms", k]
        own = held.get(("launch", k), held["cpms", k])
        alone = own["median_ms"]
        yield {
            "values": row["values"],
            "type": row["dtype"],
            "pattern": row.pattern,
            "k": k,
            "ms": ours,
            "alone ms": times.get(("launch", k)),
            "in order ms": times.get((IN_ORDER, k)),
            "spread, %": 100 * (own["most_ms"] - own["least_ms"]) / own["median_ms"],
            "GB/s": row.bytes / alone / 1e6,
            "share": copy["copy ms"] / alone / 2,
            "low": copy["copy ms"] / own["most_ms"] / 2,
            "high": copy["copy ms"] / own["least_ms"] / 2,
            **copy,
            "own copy ms": row["copy"]["median_ms"],
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


def _drawn(rows):
    """Return the time of each contestant for the largest arrays of the first type and order."""
    first = rows.iloc[0]
    same = rows[(rows["dtype"] == first["dtype"]) & (rows.pattern == first.pattern)]
    row = same[same["values"] == same["values"].max()].iloc[0]
    sorting = next((result for result in row.results if result["contestant"] == "argsort"), None)
    found = [result for result in row.results if result["contestant"] in ("cpms", *OTHERS[:2])]
    found += [{**sorting, "k": k} for k in row.ks] if sorting else []
    table = pd.DataFrame(found).drop_duplicates(["contestant", "k"], keep="last")
    return table.assign(bits=BITS.get(row["dtype"], 64), values=row["values"], pattern=row.pattern)


def _figure(lines, drawn, out, of_kernel, library):
    largest = _largest(lines)
    bits = BITS.get(largest["type"].iloc[0], 64)
    figure, (left, right) = panels.grid(out.width, 2, 2.4, columns=(1, 2))
    patterns = list(dict.fromkeys(largest.pattern))
    for pattern, part in largest.groupby("pattern", sort=False):
        apart = panels.abreast(part.k, patterns.index(pattern), len(patterns), _ABREAST)
        _line(left, part, "share", ("low", "high"), bits, PATTERNS.get(pattern, "X"), pattern, apart)
    copies = largest["copy ms"] / largest["own copy ms"]
    left.axhspan(copies.min(), copies.max(), facecolor="#e6e6e6", edgecolor="#999999", linewidth=0.5, zorder=0)
    panels.unity(left, across=True)
    share = f"{'kernel: ' if of_kernel else ''}share of copy bandwidth"
    left.set(xscale="log", xlabel="k", ylabel=share, ylim=(_bottom(lines), None))
    called = {**CALLED, **{name: (f"{library} {name}", mark) for name, mark in BY_LIBRARY.items()}}
    for name, part in drawn.groupby("contestant", sort=False):
        label, mark = called[name]
        _line(right, part.sort_values("k"), "median_ms", ("least_ms", "most_ms"), bits, mark, label)
    right.set(xscale="log", yscale="log", xlabel="k")
    right.set_ylabel(f"ms a call, {drawn.pattern.iloc[0]} values")
    for panel, columns in ((left, 4), (right, 2)):
        panel.xaxis.set_major_formatter(lambda value, _: panels.number(value))
        panel.legend(
            ncols=columns,
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            handletextpad=0.4,
            columnspacing=0.8,
            handlelength=1.5,
        )
    panels.logarithmic(right, "y")
    right.set_ylim(bottom=10.0 ** np.floor(np.log10(drawn.least_ms.min())))
    right.margins(x=0.08)
    return figure


def _line(panel, part, value, ends_of, bits, mark, name, at=None):
    """Draw the values of a contestant or an order by k, at places beside k where these are given."""
    from matplotlib.colors import to_rgba

    low, high = (part[end].to_numpy(float) for end in ends_of)
    middle = part[value].to_numpy(float)
    marks = panel.errorbar(
        part.k if at is None else at, middle, yerr=[middle - low, high - middle], color=colour(bits), marker=mark,
        ms={"o": 3}.get(mark, 4), markerfacecolor=colour(bits) if mark in "oXP" else "none", elinewidth=0.7,
        ecolor=to_rgba(colour(bits), 0.55), label=name, lw=0.8,
    )  # fmt: skip
    panels.name_places(marks[0], part.k)
