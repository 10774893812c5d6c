"""What a format's bits cost in sweeps: method refine by storage, and its error against a float64 solution."""

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends
from cpms.experiment.report.intervals import geometric
from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.page import labels
from cpms.experiment.report.palette import NEUTRAL
from cpms.formats.formats import format_named
from cpms.formats.quantization import quantiser

NEEDS = ["refine_formats"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([_line(row) for _, row in rows.iterrows()])
    out.table(
        table,
        best={"sweeps": "least by graph"},
        caption="Method refine to 1e-10 by what the residual is stored in: sweeps, and the L1 error against a float64 "
        "solution at 1e-14 beside the bound that was printed",
    )
    sweeps, gathered = _sweeps(table), _gathered(table)
    out.figure(
        _figure(sweeps, gathered, out),
        caption="Method refine to 1e-10: sweeps by the format of the residual (in brackets bits of its mantissa, one "
        "more if rounded to nearest), over those with the longest mantissa, and bytes gathered an edge in the whole "
        "solve by the bits of inner sweeps, of the format that gathers the fewest on each graph. Grey: graphs, marks: "
        "geometric means with 95 % bootstrap intervals over them; colour: bits of storage",
        alt=ends(sweeps, "ratio", ["graph", "storage"], "Sweeps over those with the longest mantissa", "times")
        + " " + ends(gathered, "bytes", ["graph", "bits"], "Bytes gathered an edge", "bytes"),
        timed=False,
    )  # fmt: skip


def _line(row):
    storage = quantiser(format_named(row.storage))
    low = sum(count for bits, count in row.iterations_by_bits.items() if bits != "64")
    return {
        "graph": label(row),
        "storage": row.storage,
        "bits": storage.width,
        "mantissa": storage.mantissa_bits + (storage.rounding == "nearest"),
        "full": row.iterations - low,
        "low": low,
        "sweeps": row.iterations,
        "low %": 100 * low / row.iterations,
        "error": row.error_l1,
        "bound": row.error_bound,
        "within": bool(row.error_l1 <= row.error_bound),
    }


def _sweeps(table):
    """Return the sweeps of each graph and format, over those with the longest mantissa, formats in order of it."""
    in_order = table.sort_values(["mantissa", "bits"], kind="stable")
    places = {name: place for place, name in enumerate(dict.fromkeys(in_order.storage), start=1)}
    longest = in_order.groupby("graph").sweeps.last()
    return in_order.assign(ratio=in_order.sweeps / in_order.graph.map(longest), place=in_order.storage.map(places))


def _gathered(table):
    """Return the fewest bytes gathered an edge, by graph and bits."""
    gathered = table.assign(bytes=(table.full * 64 + table.low * table.bits) / 8)
    return gathered.groupby(["graph", "bits"], sort=False).bytes.min().reset_index().sort_values("bits", kind="stable")


def _figure(sweeps, gathered, out):
    figure, (left, right) = panels.grid(out.width, 2, 3.0, columns=(1, 2))
    for panel, table, across, value in ((left, sweeps, "place", "ratio"), (right, gathered, "bits", "bytes")):
        for _, part in table.groupby("graph", sort=False):
            panel.plot(part[across], part[value], color="#bbbbbb", linewidth=0.6, zorder=0)
        for at, part in table.groupby(across):
            found = geometric(part[value])
            ends_of = (found["low"], found["high"])
            panels.point(panel, at, found["mean"], part.bits.iloc[0], "D", ends=ends_of, across=False)
    formats = sweeps.drop_duplicates("place")
    left.set(xlabel="format (mantissa bits)", ylabel=f"sweeps over those of {formats.storage.iloc[-1]}")
    names = [f"{name} ({mantissa})" for name, mantissa in zip(formats.storage, formats.mantissa, strict=True)]
    left.set_xticks(formats.place, names, rotation=90)
    right.set(xlabel="bits of inner sweeps", ylabel="bytes gathered an edge", ylim=(0, None))
    right.set_xticks(sorted(set(gathered.bits)))
    graph = {"a graph": {"color": "#bbbbbb", "linewidth": 0.8}}
    figure.get_layout_engine().set(w_pad=0.08)
    mean = {"geometric mean": {"color": NEUTRAL, "marker": "D", "linestyle": "", "markersize": 4}}
    panels.legend(figure, panels.key(table.bits, lines={**graph, **mean}))
    _name_extremes(left, sweeps, "place", "ratio", out)
    _name_extremes(right, gathered, "bits", "bytes", out)
    return figure


def _name_extremes(panel, table, across, value, out):
    """Name the graphs with the most and with the least, beside all lines."""
    at = np.geomspace(table[across].min(), table[across].max(), 100)
    lines = [np.interp(at, part[across], part[value]) for _, part in table.groupby("graph", sort=False)]
    means = {place: geometric(part[value]) for place, part in table.groupby(across)}
    intervals = [(np.full(20, place), np.linspace(each["low"], each["high"], 20)) for place, each in means.items()]
    others = np.concatenate([np.stack(each, axis=1) for each in [*((at, line) for line in lines), *intervals]])
    far = table.loc[[table[value].idxmax(), table[value].idxmin()]]
    points = [*far[[across, value]].to_numpy(float)[:, None]]
    labels.place(panel, out.names(map(shortened, far.graph)), points, others=others, all_or_none=False)
