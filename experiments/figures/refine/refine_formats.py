"""What a format's bits cost in sweeps: method refine by storage, and its error against a float64 solution."""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.output import label
from cpms.experiment.report.speedup_figures import DOT, MEAN, OF_MEANS, mean_rows
from cpms.formats.formats import format_named
from cpms.formats.quantization import quantiser

NEEDS = ["refine_formats"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([_line(row) for _, row in rows.iterrows()])
    out.table(
        table,
        best={"sweeps": "least by graph"},
        timed=False,
        caption="Method refine to 1e-10 by what the residual is stored in: sweeps, and the L1 error against a float64 "
        "solution at 1e-14 beside the bound that was printed",
    )
    sweeps, gathered = _sweeps(table), _gathered(table)
    out.figure(
        _figure(sweeps, gathered, out),
        caption=f"Method refine to 1e-10. By format: sweeps over those of {_firsts(sweeps, 'place')[-1].storage}, the "
        "format with the longest mantissa; in brackets the bits of a mantissa: those stored, and one more if values "
        "are rounded to nearest. By bits: bytes that whole solves gather, over those in 32 bits, on each graph in the "
        "format of that width that gathers the fewest. Dots are graphs, "
        f"{_counted(sweeps)}, of which many lie at 1 on each other, diamonds their geometric means; {OF_MEANS}; "
        "colour: bits of storage",
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


def _counted(sweeps):
    """Return how many graphs the rows of formats have: their number, or the least and the most."""
    of_formats = sweeps.groupby("storage").graph.nunique()
    least, most = of_formats.min(), of_formats.max()
    return f"{least} in each row" if least == most else f"{least} to {most} in a row"


def _gathered(table):
    """Return the fewest bytes gathered an edge, by graph and bits."""
    gathered = table.assign(bytes=(table.full * 64 + table.low * table.bits) / 8)
    return gathered.groupby(["graph", "bits"], sort=False).bytes.min().reset_index().sort_values("bits", kind="stable")


def _figure(sweeps, gathered, out):
    formats = [f"{line.storage} ({line.mantissa})" for line in _firsts(sweeps, "place")]
    most = gathered.groupby("graph").bytes.last()
    over = gathered.assign(ratio=gathered.bytes / gathered.graph.map(most))
    parts = [
        _with_names(sweeps, "place", formats),
        _with_names(over, "bits", [f"{line.bits} bits" for line in _firsts(gathered, "bits")]),
    ]
    counts = [len(set(table.name)) + 3 for table in parts]
    figure, axes = panels.grid(out.width, 2, panels.rows_height(range(8), 0.2), columns=(1, 2))
    if not out.double:
        axes[0].get_gridspec().set_height_ratios(counts)
    for panel, table in zip(axes, parts, strict=True):
        mean_rows(panel, table, list(dict.fromkeys(table.name)), "ratio")
    longest = _firsts(sweeps, "place")[-1].storage
    axes[0].set(title="by format (bits of its mantissa)", xlabel=f"sweeps over those of {longest}")
    axes[1].set(title="by bits of inner sweeps", xlabel=f"bytes gathered over those in {gathered.bits.max()} bits")
    panels.legend(figure, panels.key(sweeps.bits, lines={"geometric mean": MEAN, "a graph": DOT}))
    return figure


def _firsts(table, column):
    """Return the first line of each value of a column, in order."""
    return list(table.sort_values(column, kind="stable").drop_duplicates(column).itertuples())


def _with_names(table, column, names):
    """Return a table with a name for each value of a column, in order, none of which is held out."""
    named = dict(zip(sorted(set(table[column])), names, strict=True))
    return table.assign(name=table[column].map(named), **{"held out": False}).sort_values(column, kind="stable")
