"""Tables and figures of the speedup of one optimisation: each graph's sweeps without and with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends
from cpms.experiment.report.output import Output, label, shortened

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
    out.table(
        table.drop(columns=["low", "high"]), suffix=suffix, caption=caption.format(gpu=rows.gpu.iloc[0]),
        best={"times faster": "most"},
    )  # fmt: skip
    interval = "from the least to the most that samples of sweeps without and with it allow"
    faster_figure(table, out, by, interval, suffix=suffix, of=[str(rows.experiment.iloc[0])])


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
            **extremes(result, made),
        }


def extremes(without: dict[str, Any], made: dict[str, Any]) -> dict[str, float]:
    """Return the least and the most that the ratio of two sweeps can be, from the ends of their samples."""
    return {"low": without["least_us"] / made["most_us"], "high": without["most_us"] / made["least_us"]}


def faster_figure(
    table: pd.DataFrame, out: Output, by: str, interval: str, *, suffix: str, of: list[str], more: str = ""
) -> None:
    """Draw how many times faster each graph is, by the bits of a value, with intervals.

    Parameters
    ----------
    table : DataFrame
        Columns ``graph``, ``bits``, ``times faster``, ``low`` and ``high``.
    out : Output
    by : str
        A phrase for the optimisation.
    interval : str
        What the lines through the marks are.
    suffix : str
        Of the files' names.
    of : list of str
        The experiment.
    more : str
        More sentences of the caption.
    """
    out.figure(
        _figure(table, out, by, of),
        suffix=suffix,
        caption=f"Times faster {by} than without, by bits of a value, from the top from few to many; lines: "
        f"{interval}{more}",
        alt=ends(table, "times faster", ["graph", "bits"], f"Times faster {by}", "times"),
        of=of,
    )


def _figure(table: pd.DataFrame, out: Output, by: str, of: list[str]) -> Figure:
    graphs, widths = list(dict.fromkeys(table.graph)), sorted(set(table.bits.tolist()))
    names = out.names(graphs, of=of)
    figure, (axes,) = panels.grid(out.width, 1, panels.rows_height(names, 0.07 + 0.05 * len(widths)))
    of_graph = {graph: sorted(set(part.bits)) for graph, part in table.groupby("graph")}
    for line in table.to_dict("records"):
        own = of_graph[line["graph"]]
        place = graphs.index(line["graph"]) + panels.beside(own.index(line["bits"]), len(own))
        panels.point(
            axes, line["times faster"], place, line["bits"], ends=(line["low"], line["high"]), size=3.5, light=True
        )
    panels.unity(axes)
    panels.named_rows(axes, names)
    panels.logarithmic(axes)
    axes.set(xlabel=f"times faster {by}")
    panels.legend(figure, panels.key(widths))
    return figure
