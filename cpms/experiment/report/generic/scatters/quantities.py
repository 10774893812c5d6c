"""Time against bytes, and error or iterations against bits: a panel for each graph, with its own ends of axes.

Each mark is at the values of its row. If there are more graphs and contestants than fit, a few graphs and whole series
are drawn, and the caption states how many. If too many of the marks of many contestants would be near each other or lie
on two others, or some would have to be left out since they do, each contestant has a row instead
(`cpms.experiment.report.generic.scatters.strips`). The cost is that of the panels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cpms.base.text.counted import counted
from cpms.experiment.report import captions
from cpms.experiment.report.generic.bandwidth import TRIMMED, of_one_quantity
from cpms.experiment.report.generic.conditions import at_one_tolerance
from cpms.experiment.report.generic.contestants import alike_in_words, drawn_once
from cpms.experiment.report.generic.flaws import exact, flawed_in_words, is_unconverged, wrong_in_words
from cpms.experiment.report.generic.parts import (
    SECONDS,
    Made,
    baseline_of,
    range_of,
)
from cpms.experiment.report.generic.scatters.choice import chosen
from cpms.experiment.report.generic.scatters.marks import Quantities, draw, keep_on_page
from cpms.experiment.report.generic.scatters.strips import strips
from cpms.experiment.report.generic.words import (
    all_or_count,
    bits_in_words,
    error_in_words,
    time_in_full,
    time_in_words,
)
from cpms.experiment.report.page import nested, room
from cpms.experiment.report.page.series import series_of
from cpms.formats.formats import DOUBLE_BITS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZES = {False: ((4, 9), (2, 9), (2, 6)), True: ((4, 12), (4, 9))}
"""Most graphs and contestants, in one column of a journal and in two, from the preferred ones."""
_HIGHEST_IN = 4.45
"""Most height of a figure, in inches."""
_LEAST_SPREAD = 1.1
"""Least ratio of the most bytes to the fewest for a panel; smaller differences of bytes are not significant."""
_FEW, _MOST_CROWDED = 5, 1 / 3
"""Number of series, and share of marks near another one (`nested.crowding`), above both of which contestants have rows;
colours and lines distinguish the members of a series, and of few series a reader names the marks of a group."""
_MOST_STACKED = 1 / 8
"""Share of marks that lie on two others above which contestants have rows, as a reader sees few such places apart."""
_DECADE = 10.0
"""Ratio of residuals below which their differences mean nothing, as a solve ends with the first below its tolerance."""
_BYTES = {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3, "bytes": 1.0}


def traffic(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw time against bytes, coloured by bits."""
    found = of_one_quantity(found[found.seconds > 0])
    lacking = ~(found.traffic > 0)
    trimmed = lacking & found.trims
    unknown = found[~trimmed].groupby("called", sort=False).traffic.max().isna()
    found, left = found[~lacking], f"; left out: {counted(int(trimmed.sum()), 'result')} {TRIMMED}"
    if found.empty:
        return None
    found, tolerance = at_one_tolerance(found)
    sizes = found.groupby("case").traffic
    spread = found.case.map(sizes.max() >= _LEAST_SPREAD * sizes.min())
    if not _relates(found[spread].traffic):
        return None
    names, shown = captions.in_words(found.traffic_name), found.assign(x=found.traffic, y=found.seconds)
    axes = Quantities("bytes", "time", names, time_in_words(found))
    figure, shown, more = _fitting(shown, spread, width, baseline_of(found, baseline), axes)
    lacking_names = all_or_count(map(str, unknown.index[unknown])) if unknown.any() else ""
    without = f"; not drawn, as without these bytes: {lacking_names}" if lacking_names else ""
    text = f"median {time_in_full(found)} against {names}{more}{tolerance}{left if trimmed.any() else ''}{without}"
    return figure, text, range_of(shown, "seconds", "Values of the time", "s"), {*shown.graph}


def error_by_bits(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw the error, or in its place the iterations (`counts_iterations`), against the mean number of bits read."""
    given, counts = found, counts_iterations(found)
    up = "iterations" if counts else "error"
    found = found[(found.error > 0) & (found.bits > 0) & (found[up] > 0)]
    if found.empty or (_is_of_tolerances(found) and not counts):
        return None
    found, others = _of_one_error(found) if not counts else (found, "")
    wrong, base = wrong_in_words(found), baseline_of(found, baseline)
    found, alike = drawn_once(found, up, base)
    several = found.case.map(found.groupby("case").bits.agg(np.ptp) > 0)
    if not _relates(found[several].bits):
        return None
    names = "iterations" if counts else error_in_words(found)
    mean = bool((found.bits != found.fewest_bits).any())
    across = f"bits {bits_in_words(found)}{', mean over iterations' if mean else ''}"
    axes = Quantities("bits", up, across, names, coloured=not counts)
    shown = found.assign(x=found.bits, y=found[up])
    figure, shown, more = _fitting(shown, several, width, base, axes)
    against = f", against {'the mean of ' if mean else ''}the bits {bits_in_words(found)}" if _has_bits(figure) else ""
    reference = "" if counts or {*found.error_name} != {"error_l1"} else ", from a float64 reference answer"
    text = f"{names}{reference}{against}{more}{alike_in_words(alike, {*shown.called})}{exact(given, {*shown.case})}"
    text += f"{wrong}{others}{_twice(shown)}{flawed_in_words('struck through', shown, is_unconverged(shown))}"
    noun = "residual" if found.error_name.str.startswith("residual").all() and not counts else up
    return figure, text, range_of(shown, up, f"Values of the {noun}", "") + _struck(shown), {*shown.graph}


def _has_bits(figure: Figure) -> bool:
    """Return whether an axis has bits; rows of contestants may have them as colours alone."""
    return any("bits" in text for text in [figure.get_supxlabel(), *(axes.get_xlabel() for axes in figure.axes)])


def _struck(shown: pd.DataFrame) -> str:
    """Return a sentence of an alternative text about results that did not converge."""
    count = int(is_unconverged(shown).sum())
    return f" Struck through are {count} of these, which did not converge." if count else ""


def _twice(found: pd.DataFrame) -> str:
    """Return a text about solves that read more bits of a value than a value has."""
    again = (found.kind == "vector_bits") & (found.bits > DOUBLE_BITS)
    return "; above 64 bits: a second pass of Gram-Schmidt reads the basis again" if again.any() else ""


def _of_one_error(found: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the results whose error is of the kind that most have, since no axis can have two, and a text."""
    most = found.error_name.mode()[0]
    others = found[found.error_name != most]
    text = f"; not drawn: {counted(len(others), 'result')} with {captions.in_words(others.error_name)} alone"
    return found[found.error_name == most], text if len(others) else ""


def counts_iterations(found: pd.DataFrame) -> bool:
    """Return whether results are compared by their iterations: those without times whose residuals show nothing."""
    known = found[(found.error > 0) & (found.iterations > 0)]
    return len(known) > 0 and not (found.seconds > 0).any() and _is_of_tolerances(known)


def _is_of_tolerances(found: pd.DataFrame) -> bool:
    """Return whether errors are residuals that only show the tolerance.

    They do if solves are to several tolerances, or if on each graph all residuals are within a decade.
    """
    errors = found.groupby("case").error
    alike = len(set(found.tol.dropna())) > 1 or (errors.max() < _DECADE * errors.min()).all()
    return bool(found.error_name.str.startswith("residual").all() and alike)


def _relates(across: pd.Series[float]) -> bool:
    """Return whether points are enough to show how something depends on a quantity: three, not all in one place."""
    return len(across) >= 3 and bool(across.min() < across.max())


def _fitting(
    found: pd.DataFrame, drawable: pd.Series[bool], width: float, base: str | None, axes: Quantities
) -> tuple[Figure, pd.DataFrame, str]:
    """Return a figure that is not too high, the results in it, and a text about it."""
    for graphs, contestants in _SIZES[width > 5]:
        shown, some = chosen(found, drawable, base, graphs, contestants)
        figure, more = draw(*_in_units(shown, axes), width, base)
        if figure.get_figheight() <= _HIGHEST_IN:
            break
    series, left = series_of(shown), list[str]()
    staying = {series[name] for name in series if name == base or name in room.own_names(found)}
    is_crowded = len({*series.values()}) > _FEW and nested.crowding(figure) > _MOST_CROWDED
    if is_crowded or nested.stacked(figure) > _MOST_STACKED or nested.crowded(figure, staying):
        rows = strips(found, drawable, width, base, axes)
        if rows is not None:
            return rows
    while crowd := nested.crowded(figure, staying):
        left += crowd
        shown = shown[~shown.called.map(series).isin(crowd)].reset_index(drop=True)
        figure, more = draw(*_in_units(shown, axes), width, base)
    keep_on_page(figure)
    sizes = "; nested marks: the centre of each is its value" if nested.nest(figure) else ""
    crowds = f"; left out, as over {nested.MOST} marks would lie on one another: {all_or_count(left)}" if left else ""
    return figure, shown, more + sizes + some + crowds


def _in_units(found: pd.DataFrame, axes: Quantities) -> tuple[pd.DataFrame, Quantities]:
    """Return results and axes in the units of bytes and time with the shortest numbers."""
    if axes.across != "bytes":
        return found, axes
    size, time = _shortest(found, "x", _BYTES), _shortest(found, "y", SECONDS)
    xlabel = axes.xlabel if size == "bytes" else f"{axes.xlabel}, in {size}"
    scaled = found.assign(x=found.x / _BYTES[size], y=found.y / SECONDS[time])
    return scaled, axes._replace(xlabel=xlabel, ylabel=f"{axes.ylabel} in {time}")


def _shortest(found: pd.DataFrame, column: str, units: dict[str, float]) -> str:
    """Return the unit in which the longest number at an end of a panel is the shortest; the largest such unit."""
    ends = found.groupby("case")[column].agg(["min", "max"]).to_numpy(float).ravel()
    longest = {
        name: max(len(np.format_float_positional(value / size, 2, fractional=False, trim="-")) for value in ends)
        for name, size in units.items()
    }
    return min(longest, key=lambda name: longest[name])
