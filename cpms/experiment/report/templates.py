"""Figures of any experiment, drawn from its rows without a program.

In every figure a colour means a number of bits, and a marker an engine, a layout or a contestant. Times are medians,
and are compared on one graph and at one tolerance. Speed-ups are geometric means over graphs, with the percentile
interval of the bootstrap over graphs and over the samples of each (Efron and Tibshirani, An Introduction to the
Bootstrap, 1993, chapter 13). Figures are as wide as one column of a journal or two, with text of at least 7 points at
that size. The cost is that of Matplotlib.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from cpms.experiment.report import captions
from cpms.experiment.report.generic import bandwidth
from cpms.experiment.report.generic.bars import time_by_precision
from cpms.experiment.report.generic.conditions import conditions
from cpms.experiment.report.generic.curves import residuals
from cpms.experiment.report.generic.flaws import fair, unconverged
from cpms.experiment.report.generic.parts import Made, named_baseline
from cpms.experiment.report.generic.roofline import share_of_roofline
from cpms.experiment.report.generic.scatters.quantities import counts_iterations, error_by_bits, traffic
from cpms.experiment.report.generic.speedup import speedup
from cpms.experiment.report.generic.speedup import speedups as speedups
from cpms.experiment.report.generic.table import results
from cpms.experiment.report.generic.tolerances import time_to_tolerance
from cpms.experiment.report.observations import observations
from cpms.experiment.report.stand_ins import STARRED
from cpms.experiment.report.style import common_style, inches
from cpms.experiment.rows.rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Drawing(NamedTuple):
    """A figure with its texts.

    Parameters
    ----------
    name : str
        The name of the template.
    figure : matplotlib.figure.Figure
    caption : str
        What is shown, machine, commit, repetitions and spread.
    alt : str
        Alternative text: the figure in words, with the ends of its range.
    experiment : str
    cells : list of str
        The rows that it is drawn from.
    beside : list of dict
        Rows of other experiments that it takes the rate of a copy from; their cells are among ``cells``.
    """

    name: str
    figure: Figure
    caption: str
    alt: str
    experiment: str
    cells: list[str]
    beside: Sequence[Row] = ()


TEMPLATES: dict[str, Callable[[pd.DataFrame, float, str | None], Made]] = {
    "time": time_by_precision,
    "speedup": speedup,
    "residual": residuals,
    "tolerance": time_to_tolerance,
    "traffic": traffic,
    "roofline": share_of_roofline,
    "error": error_by_bits,
}
"""The templates by name; a figure's file has the name of its experiment and of its template (see `_called`)."""


_SINGLE = {
    "error": "error",
    "residual_by_bits": "residual",
    "iterations_by_bits": "number of iterations",
    "residual": "curve",
}
"""What figures without times draw, by their names: rows hold one for each result."""
_ONE_SAMPLE = re.compile(r"(Repetitions|Samples of each result): 1;")
"""The beginning of a text about the repetitions of results of which each has one sample."""


def drawings(
    rows: Sequence[Row], *, width: str = "single", baseline: str | None = None, beside: Iterable[Row] = ()
) -> Iterator[Drawing]:
    """Yield the figures that the rows of one experiment allow.

    Parameters
    ----------
    rows : sequence of dict
        Of one experiment.
    width : str
        ``single`` or ``double``, see `cpms.experiment.report.style.WIDTHS`.
    baseline : str, optional
        Part of the name of the contestant over which speed-ups are computed; by default the first with float64.
    beside : iterable of dict
        Rows of any experiments. They give the rate of a copy to results on a GPU whose own rows hold none.

    Raises
    ------
    InputError
        If the width or the baseline does not exist.
    """
    size = inches(width)
    found = observations(rows)
    if found.empty:
        return
    found = found.assign(full=found.called, called=found.short)
    baseline = named_baseline(found, baseline)
    given = found
    if len({*found.label}) == 1 and (found.problem != "").all():  # A caption states the only graph.
        found = found.assign(label="")
    timed, _ = fair(found)
    rated, rates = bandwidth.with_rates(timed, bandwidth.rates_of_gpus(beside))
    found_of = {"residual": found, "roofline": rated, "error": fair(found, of_times=False)[0]}
    for name, template in TEMPLATES.items():
        shown = found_of.get(name, timed)
        with common_style():
            made = template(shown, size, baseline)
        if made is not None:
            left = bandwidth.taken_from(rates) if name == "roofline" else ""
            if name != "residual":
                left += fair(found, of_times=name != "error", drawn=made[3])[1] + unconverged(rows)
            others = [rate.row for rate in rates] if name == "roofline" else []
            cells = [row["cell"] for row in [*rows, *others] if row["status"] == "ok"]
            starred = _is_starred(made[0]) and name != "speedup" and STARRED not in made[1]
            colours_of = [] if name == "speedup" else made[3]  # The bits of a mean are those of most graphs.
            alike = conditions(rows, given, against_tolerance=name == "tolerance", drawn=colours_of)
            called = _called(name, found)
            said = captions.provenance(rows, shown, single=_SINGLE.get(called, ""))
            text = _without_medians(made[1], said)
            what = f"Experiment {rows[0]['experiment']}: {text}{left}{f'; {STARRED}' if starred else ''}."
            caption = " ".join(filter(None, [what, alike, said]))
            yield Drawing(called, made[0], caption, made[2], rows[0]["experiment"], cells, others)


def table(rows: Sequence[Row]) -> tuple[pd.DataFrame, str]:
    """Return the table of the rows of one experiment, and its caption; empty if they hold no times."""
    found = observations(rows)
    made, what = results(found)
    said = captions.provenance(rows, found)
    what = _without_medians(what, said) + unconverged(rows, "not listed")
    caption = f"Experiment {rows[0]['experiment']}: {what}. {said}"
    return (made, "") if made.empty else (made, caption)


def _without_medians(text: str, said: str) -> str:
    """Return the text of a caption; where each result has one sample by the text on repetitions, none is a median.

    Examples
    --------
    >>> _without_medians("median time of a solve", "Repetitions: 1; the rows hold no spread.")
    'time of a solve'
    """
    return text.replace("median time", "time") if _ONE_SAMPLE.search(said) else text


def _is_starred(figure: Figure) -> bool:
    """Return whether a graph that a figure names is a stand-in."""
    texts = [axes.get_title() for axes in figure.axes]
    texts += [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    return any("*" in text for text in texts)


def _called(name: str, found: pd.DataFrame) -> str:
    """Return the name of a figure; that of errors shows residuals if the rows have no errors, or iterations."""
    if name == "error" and counts_iterations(found):
        return "iterations_by_bits"
    of_residuals = found.error_name[found.error > 0].str.startswith("residual").all()
    return "residual_by_bits" if name == "error" and of_residuals else name
