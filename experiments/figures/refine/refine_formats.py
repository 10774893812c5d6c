"""What a format's bits cost in sweeps: method refine by storage, and its error against a float64 solution."""

import numpy as np
import pandas as pd

from cpms.experiment.report.output import label
from cpms.formats.formats import format_named
from cpms.formats.quantization import quantiser

NEEDS = ["refine_formats"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([_line(row) for _, row in rows.iterrows()])
    out.table(
        table,
        caption="Method refine to 1e-10 by what the residual is stored in: sweeps, and the L1 error against a float64 "
        "solution at 1e-14 beside the bound that was printed",
    )
    out.figure(_figure(table))


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


def _figure(table):
    import matplotlib.pyplot as plt

    figure, (sweeps, traffic) = plt.subplots(1, 2, figsize=(7, 2.8))
    for graph, part in table.groupby("graph", sort=False):
        best = part.sort_values("sweeps").groupby("mantissa").first()
        sweeps.plot(best.index, best.sweeps, "o-", ms=2.5, label=graph)
        gathered = (part.full * 64 + part.low * part.bits) / 8
        cheapest = pd.DataFrame({"bits": part.bits, "bytes": gathered}).groupby("bits").min()
        traffic.plot(cheapest.index, cheapest.bytes, "o-", ms=2.5)
    sweeps.set(xscale="log", xlabel="mantissa bits, one more where rounded to nearest", ylabel="sweeps to 1e-10")
    sweeps.set_xticks([3, 5, 8, 12, 24], ["3", "5", "8", "12", "24"])
    sweeps.minorticks_off()
    traffic.set(xlabel="bits of a low sweep's gather", ylabel="bytes gathered an edge, whole solve", ylim=(0, None))
    traffic.set_xticks(sorted(np.unique(table.bits)))
    figure.legend(*sweeps.get_legend_handles_labels(), loc="outside right center")
    return figure
