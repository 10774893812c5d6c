"""Tables and figures of speedups: each graph's sweeps without and with an optimisation, and means by method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from cpms.experiment.derived.sweep_times import UPDATES, sweep_times
from cpms.experiment.external_solvers import ALL_THREADS, PEERS
from cpms.experiment.report import panels
from cpms.experiment.report.captions import spread, three_digits
from cpms.experiment.report.intervals import FEWEST, geometric
from cpms.experiment.report.output import Output, label, shortened
from cpms.experiment.report.palette import NEUTRAL, colour
from cpms.experiment.report.panels import DOT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEAN: dict[str, Any] = {"color": NEUTRAL, "marker": "D", "linestyle": "", "markersize": 4}
"""The entry of a legend for the means of `mean_rows`."""
_MOST_BEYOND, _FAR = 1.2, 1.3
"""Limits of the horizontal axis: it may end at the first number times the largest median.

It does so if the longest interval reaches beyond the second number times that end.
"""
_WITHIN = 0.9
"""Fraction of the intervals that such an axis shows whole, at least."""
OF_MEANS = f"lines: 95 % bootstrap intervals of means of {FEWEST} or more"


def mean_rows(
    axes: Axes, table: pd.DataFrame, names: list[str], value: str = "times faster",
    ends: tuple[str, str] | None = None,
) -> None:  # fmt: skip
    """Draw ratios on named rows of a logarithmic panel: a dot for each ratio, and their geometric means.

    Means of held-out matrices lie below the others, with their dots below them, and both are hollow. A mean of fewer
    than `FEWEST` ratios has no interval, as its dots show the range. A single ratio is a circle.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    table : DataFrame
        Columns ``name``, that of the row; ``held out``, whether the matrix is; ``bits``; and ``value``.
    names : list of str
        Names of the rows.
    value : str
        The column of the ratios.
    ends : tuple of two str, optional
        The columns of the ends of a thin line through each ratio.
    """
    two = len(set(table["held out"])) > 1
    for (name, held_out), part in table.dropna(subset=value).groupby(["name", "held out"]):
        side = 1 if held_out and two else -1
        place = names.index(str(name)) + (0.0 if two else 0.2)
        shades = part.bits.map(colour)
        for shade, dots in part.groupby(shades) if len(part) > 1 else ():
            style = {**DOT, "color": shade, "markerfacecolor": "none" if held_out else shade}
            axes.plot(dots[value], [place + 0.34 * side] * len(dots), **style)
            if ends:
                thin: dict[str, Any] = {"color": shade, "linewidth": 0.6}
                axes.hlines([place + 0.34 * side] * len(dots), dots[ends[0]], dots[ends[1]], **thin)
        found = geometric(part[value])
        reach = (found["low"], found["high"]) if len(part) >= FEWEST else None
        if ends and len(part) == 1:
            reach = (part[ends[0]].iloc[0], part[ends[1]].iloc[0])
        bits = part.bits.iloc[0] if len(set(shades)) == 1 else None
        mark = "D" if len(part) > 1 else "o"
        panels.point(axes, found["mean"], place + 0.12 * side, bits, mark, ends=reach, filled=not held_out)
    panels.unity(axes)
    panels.named_rows(axes, names)
    panels.logarithmic(axes)


def looks_of_means(filled: str, hollow: str, *, mean: str = "mean") -> dict[str, dict[str, Any]]:
    """Return the looks of the means and dots of `mean_rows` for a legend, by the names of their two kinds."""
    return {
        f"{mean}, {filled}": MEAN,
        f"{mean}, {hollow}": {**MEAN, "markerfacecolor": "white"},
        f"a matrix, {filled}": DOT,
        f"a matrix, {hollow}": {**DOT, "markerfacecolor": "none"},
    }


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
    more: str = "",
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
    more : str
        More sentences of the figure's caption.
    """
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in lines(row)])
    if table.empty:
        out.leave_out("table and figure", f"no graph has sweeps both {by} and not")
        return
    of, caption = [str(rows.experiment.iloc[0])], f"{caption.format(gpu=rows.gpu.iloc[0])}. {UPDATES}"
    out.table(
        table.drop(columns=["low", "high"]), suffix=suffix, caption=caption, best={"times faster": "most"}, of=of,
    )  # fmt: skip
    interval = "from the fastest run without it over the slowest with it to the slowest over the fastest"
    faster_figure(table, out, by, interval, suffix=suffix, of=of, more=more, compared="times of sweeps")


def faster_lines(row: pd.Series[Any], lever: str, called: str) -> Iterator[dict[str, Any]]:
    """Yield a line for each format: the microseconds of a row's sweeps without and with an optimisation."""
    for result, made in without_and_with(row, lever):
        without, taken = sweep_times(row, result), sweep_times(row, made)
        yield {
            "graph": shortened(label(row)),
            "edges": row.edges,
            "storage": result["storage"],
            "bits": result["bits"],
            "us": without.us,
            "median us": without.plain_us,
            f"{called} us": taken.us,
            f"{called} median us": taken.plain_us,
            "apart us": taken.range_us,
            "times faster": without.us / taken.us,
            "bytes": made["bytes"] / result["bytes"],
            "gathers us": made["gather_us"],
            "low": without.least_us / taken.most_us,
            "high": without.most_us / taken.least_us,
        }


def faster_figure(
    table: pd.DataFrame, out: Output, by: str, interval: str, *, suffix: str, of: list[str], more: str = "",
    compared: str = "medians",
) -> None:  # fmt: skip
    """Draw how many times faster each graph is, by the bits of a value, with intervals.

    Parameters
    ----------
    table : DataFrame
        Columns ``graph``, ``bits``, ``times faster``, ``low`` and ``high``; marks of other ``bits without`` the
        optimisation are hollow.
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
    compared : str
        What the ratios are of.
    """
    figure, beyond = _figure(table, out, by, of)
    arrows = f", where arrows are up to {three_digits(max(beyond))}" if beyond else ""
    widths = sorted(set(table.bits.tolist()))
    full = len(widths) > 1 and (table.groupby("graph").bits.nunique() == len(widths)).all()
    order = f", in a row from the top {', '.join(map(str, widths))}" if full else ""
    out.figure(
        figure,
        suffix=suffix,
        caption=f"Times faster {by} than without, ratios of {compared}, above 1 faster with it; colour: the bits of a "
        f"value{order}; lines: {interval}{arrows}{more}",
        of=of,
    )


def peers_details(rows: pd.DataFrame, timed: str, ms: str, more: Mapping[str, str], settings: Iterable[str]) -> Any:
    """Return the table of every contestant: times, verified error and settings, or why it was not measured.

    Parameters
    ----------
    rows : DataFrame
        Of kind ``peers``.
    timed : str
        The time of a result, ``solve`` or ``road``.
    ms : str
        The column of its median.
    more : dict of str to str
        Further columns before the settings, and what results call them.
    settings : iterable of str
        What results call their settings, each an object.
    """
    lines, words = [], {"True": "yes", "False": "no"}
    for _, row in rows.iterrows():
        for result in row.results:
            lines.append({"graph": label(row), "name": result["name"], "status": result["status"]})
            if result["status"] != "ok":
                lines[-1]["setting"] = result["reason"]
                continue
            samples = result[f"{timed}_samples_s"]
            lines[-1] |= {
                ms: 1e3 * result[f"{timed}_s"],
                "least ms": 1e3 * min(samples),
                "most ms": 1e3 * max(samples),
                "spread, %": 100 * spread(samples),
                "error": result["error_l1"],
                "tol": result["tol"],
                **{column: result[name] for column, name in more.items()},
                "setting": ", ".join(
                    f"{key}: {words.get(str(each), each)}"
                    for name in settings
                    for key, each in result.get(name, {}).items()
                ),
            }
    return pd.DataFrame(lines)


def peers_figure(drawn: pd.DataFrame, ours: dict[str, str], out: Output) -> Figure:
    """Return the figure of the time of each graph's fastest other program, named at the right, over ours.

    Parameters
    ----------
    drawn : DataFrame
        Columns ``graph``, ``ours``, ``peer``, ``bits``, ``ratio``, ``low`` and ``high``.
    ours : dict of str to str
        The marker of each of ours.
    out : Output
    """
    graphs, places = list(dict.fromkeys(drawn.graph)), list(ours)
    names = out.names(graphs, 20)
    figure, (axes,) = panels.grid(out.width, 1, panels.rows_height(names, 0.17))
    places_of = [
        graphs.index(graph) + panels.beside(places.index(name), len(places), 0.7)
        for graph, name in zip(drawn.graph, drawn.ours, strict=True)
    ]
    for place, line in zip(places_of, drawn.to_dict("records"), strict=True):
        ends_of = (line["low"], line["high"])
        panels.point(axes, line["ratio"], place, line["bits"], ours[line["ours"]], ends=ends_of, size=3.5)
    panels.unity(axes)
    panels.named_rows(axes, names)
    right = axes.secondary_yaxis("right")
    peers = drawn.drop_duplicates("graph").peer.map(_peer_in_words)
    right.set_yticks(range(len(graphs)), peers)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    panels.logarithmic(axes)
    limit = _MOST_BEYOND * drawn.ratio.max()
    if drawn.high.max() > _FAR * limit:
        panels.cut(axes, limit, places_of, [*drawn.high])
    axes.set_xlabel("time of the fastest other over ours")
    panels.legend(figure, panels.key(drawn.bits, ours))
    return figure


def threads_of(rows: pd.DataFrame) -> str:
    """Return on how many threads other programs run, as a sentence; ours runs on all.

    Parameters
    ----------
    rows : DataFrame
        Of kind ``peers``.

    Examples
    --------
    >>> names = ["cpms refine auto", "scipy", "igraph PRPACK", "GraphBLAS"]
    >>> threads_of(pd.DataFrame({"results": [[{"name": name, "status": "ok"} for name in names]]}))
    'SciPy and PRPACK run on one thread; GraphBLAS runs on all threads, as does ours'
    """
    solved = dict.fromkeys(result["name"] for results in rows.results for result in results if result["status"] == "ok")
    on = dict[str, list[str]]()
    for name in solved:
        if name in PEERS:
            on.setdefault(PEERS[name].runs_on, []).append(_peer_in_words(name))
    parts = []
    for threads, names in on.items():
        as_ours = ", as does ours" if threads == ALL_THREADS else ""
        parts.append(f"{' and '.join(names)} run{'s' * (len(names) == 1)} on {threads}{as_ours}")
    return "; ".join(parts)


def _peer_in_words(name: str) -> str:
    return name.replace("igraph ", "").replace("scipy", "SciPy")


def alone(drawn: pd.DataFrame) -> str:
    """Return a text about numbers of bits that one mark alone has, with its graph, since grey print has no colours.

    Examples
    --------
    >>> alone(pd.DataFrame({"graph": ["a", "b", "c"], "bits": [8, 32, 32]}))
    ' (8 bits on a alone)'
    """
    counts = drawn.bits.value_counts()
    single = drawn[drawn.bits.map(counts) == 1].sort_values("bits")
    found = [f"{bits} bits on {graph} alone" for bits, graph in zip(single.bits, single.graph, strict=True)]
    return f" ({'; '.join(found)})" if found else ""


def _figure(table: pd.DataFrame, out: Output, by: str, of: list[str]) -> tuple[Figure, list[float]]:
    """Return the figure, and the ends of the intervals that are longer than its axis."""
    graphs, widths = list(dict.fromkeys(table.graph)), sorted(set(table.bits.tolist()))
    names = out.names(graphs, of=of)
    figure, (axes,) = panels.grid(out.width, 1, panels.rows_height(names, 0.09 + 0.065 * len(widths)))
    of_graph = {graph: sorted(set(part.bits)) for graph, part in table.groupby("graph")}
    looks: dict[str, dict[str, Any]] = {}
    places = list[float]()
    for line in table.to_dict("records"):
        own = of_graph[line["graph"]]
        places.append(graphs.index(line["graph"]) + panels.beside(own.index(line["bits"]), len(own)))
        alike = line.get("bits without", line["bits"]) == line["bits"]
        style = {"ends": (line["low"], line["high"]), "size": 3.5, "light": True, "filled": alike}
        panels.point(axes, line["times faster"], places[-1], line["bits"], **style)
        looks |= {"same bits without it": panels.FILLED} if alike else {"other bits without it": panels.HOLLOW}
    panels.unity(axes)
    panels.named_rows(axes, names)
    panels.logarithmic(axes)
    limit = max(_MOST_BEYOND * table["times faster"].max(), float(table.high.quantile(_WITHIN)))
    beyond = panels.cut(axes, limit, places, [*table.high]) if table.high.max() > _FAR * limit else []
    axes.set(xlabel=f"times faster {by}")
    panels.legend(figure, panels.key(widths, lines=looks if len(looks) > 1 else {}))
    return figure, beyond
