"""Tables and figures of the speedup of one optimisation: each graph's sweeps without and with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

from cpms.experiment.report.output import PALETTE, Output, label, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def without_and_with(row: pd.Series[Any], lever: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the results of a row of kind ``sweeps`` without and with an optimisation, for each format."""
    found = {(result["arrangement"][lever], result["storage"]): result for result in row.results}
    for (taken, storage), result in found.items():
        if not taken and (True, storage) in found:
            yield result, found[True, storage]


def show_faster(
    rows: pd.DataFrame,
    out: Output,
    lines: Callable[[pd.Series[Any]], Iterable[dict[str, Any]]],
    by: str,
    caption: str,
    suffix: str = "",
) -> None:
    """Write the table of all lines of rows of kind ``sweeps``, and its `faster_figure`.

    Parameters
    ----------
    rows : DataFrame
    out : Output
    lines : callable
        Returns the lines of a row, with the columns of the figure.
    by : str
        A phrase for the optimisation.
    caption : str
        A caption with ``{gpu}`` for the device.
    suffix : str
        Of the files' names.
    """
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in lines(row)])
    if table.empty:
        out.leave_out("table and figure", f"no graph has sweeps both {by} and not")
        return
    out.table(table, suffix=suffix, caption=caption.format(gpu=rows.gpu.iloc[0]))
    out.figure(faster_figure(table, by), suffix=suffix)


def faster_lines(row: pd.Series[Any], lever: str, called: str) -> Iterator[dict[str, Any]]:
    """Yield a line for each format: the microseconds of a row's sweeps without and with an optimisation."""
    for result, made in without_and_with(row, lever):
        yield {
            "graph": shortened(label(row)),
            "edges": row.edges,
            "storage": result["storage"],
            "bits": result["bits"],
            "us": result["sweep_us"],
            f"{called} us": made["sweep_us"],
            "apart us": made["most_us"] - made["least_us"],
            "times faster": result["sweep_us"] / made["sweep_us"],
            "bytes": made["bytes"] / result["bytes"],
            "gathers us": made["gather_us"],
        }


def faster_figure(table: pd.DataFrame, by: str) -> Figure:
    """Draw how many times faster each graph's sweeps are, by the bits of a value: columns graph, bits and times faster.

    Parameters
    ----------
    table : DataFrame
    by : str
        A phrase for the optimisation.
    """
    import matplotlib.pyplot as plt

    graphs = list(dict.fromkeys(table.graph))
    figure, axes = plt.subplots(figsize=(7, 0.8 + 0.2 * len(graphs)))
    for index, bits in enumerate(sorted(set(table.bits.tolist()))):
        part = table[table.bits == bits]
        faster = part.set_index("graph").reindex(graphs)["times faster"]
        heights = [i + 0.12 * (index - 1.5) for i in range(len(graphs))]
        axes.plot(faster, heights, "o", ms=3.5, color=PALETTE[bits], label=f"{bits} bits a value")
    axes.axvline(1.0, color="#222222", linewidth=0.6)
    axes.set(xlabel=f"times faster {by}")
    axes.set_yticks(range(len(graphs)), graphs)
    axes.invert_yaxis()
    axes.legend()
    return figure
