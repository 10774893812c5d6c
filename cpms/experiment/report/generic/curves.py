"""Residual against iteration: a curve for each solve, in the colour of the bits that were read.

Curves of one graph nearly coincide if contestants differ in storage alone, and those of several graphs could not be
distinguished. So only the graph with the most iterations is drawn, and each curve is thinner than those below it.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from cpms.experiment.report import captions, panels
from cpms.experiment.report.generic.parts import Made, each_line, explain, short_names
from cpms.experiment.report.generic.words import bits_in_words, cases_in_words, of_systems
from cpms.experiment.report.palette import colour

_MOST_HISTORIES = 6
_WIDEST_PT, _THINNEST_PT = 2.6, 0.8
"""Widths of curves, from the one that is drawn first to the last."""
_NORMS = {"l1": "residual, 1-norm", "l2": "residual, 2-norm", "linf": "residual, largest entry"}
_MARKS_OF_HISTORY = 10
"""About the number of marks of a curve; more would cover each other."""


def residuals(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw residual against iteration, each part of a curve in the colour of the bits that were read."""
    del baseline
    held = found[found.history.map(bool)]
    if held.empty:
        return None
    slowest = held.case.iloc[int(np.argmax([history[-1][0] for history in held.history]))]
    own = held[held.case == slowest]
    found = own.iloc[:_MOST_HISTORIES]
    widths = np.linspace(_WIDEST_PT, _THINNEST_PT, len(found)) if len(found) > 1 else [1.2]
    figure, (axes,) = panels.grid(width, 1, 2.4)
    for place, (marker, line) in enumerate(zip(panels.ALL_MARKERS, each_line(found), strict=False)):
        iterations, values, bits = (np.array(each) for each in zip(*line.history, strict=True))
        step = max(1, len(bits) // _MARKS_OF_HISTORY)
        marked = np.arange(len(bits))[place * step // len(found) :: step]
        ends = [0, *(np.flatnonzero(np.diff(bits)) + 1), len(bits)]
        for start, end in itertools.pairwise(ends):
            at = slice(max(start - 1, 0), end)
            axes.plot(iterations[at], values[at], color=colour(bits[start]), linewidth=widths[place], zorder=1)
        shades = [colour(each) for each in bits[marked]]
        axes.scatter(
            iterations[marked],
            values[marked],
            s=18,
            c=shades,
            marker=marker,
            zorder=2,
            linewidths=0.3,
            edgecolors="white",
            clip_on=False,
        )
    panels.logarithmic(axes, "y")
    named_norm = _NORMS.get(found.norm.iloc[0], "residual")
    norm = "relative residual, 2-norm" if of_systems(found) else named_norm
    axes.set(xlabel="iteration", ylabel=norm, title=captions.case_label(*found[["graph", "problem"]].iloc[0]))
    named = dict(zip(short_names(found), panels.ALL_MARKERS, strict=False))
    swept = {int(each) for line in found.history for _, _, each in line}
    explain(figure, panels.key(swept, named))
    last = min(line[-1][1] for line in found.history)
    count = held.case.nunique()
    texts = [
        f"{norm}, against iteration, by bits {bits_in_words(found)}",
        f"; of {count} {cases_in_words(held)} the one with the most iterations" if count > 1 else "",
        f"; first {len(found)} of its {len(own)} solves" if len(found) < len(own) else "",
        "; a curve is thinner than those below it" if len(found) > 1 else "",
    ]
    return figure, "".join(texts), f"{len(found)} falling curves; the least ends at {last:.1e}."
