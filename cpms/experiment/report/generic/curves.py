"""Residual against iteration: a curve for each solve, in the colour of the bits that were read."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.generic.parts import Made, each_line, explain, panel, short_names
from cpms.experiment.report.palette import colour

_MOST_HISTORIES = 6
_MARKS_OF_HISTORY = 10
"""About so many marks tell a history from others; more would cover each other."""


def residuals(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw residual against iteration, each stretch in the colour of the bits that were read."""
    del baseline
    held = found[found.history.map(bool)]
    found = held.iloc[:_MOST_HISTORIES]
    if found.empty:
        return None
    figure, axes = panel(width, 2.4)
    for place, (marker, line) in enumerate(zip(panels.ALL_MARKERS, each_line(found), strict=False)):
        iterations, values, bits = (np.array(each) for each in zip(*line.history, strict=True))
        step = max(1, len(bits) // _MARKS_OF_HISTORY)
        marked = np.arange(len(bits))[place * step // len(found) :: step]
        ends = [0, *(np.flatnonzero(np.diff(bits)) + 1), len(bits)]
        for start, end in itertools.pairwise(ends):
            at = slice(max(start - 1, 0), end)
            axes.plot(iterations[at], values[at], color=colour(bits[start]), zorder=1)
        shades = [colour(each) for each in bits[marked]]
        axes.scatter(
            iterations[marked], values[marked], s=9, c=shades, marker=marker, zorder=2, linewidths=0, clip_on=False
        )
    panels.logarithmic(axes, "y")
    axes.set(xlabel="iteration", ylabel="residual")
    named = dict(zip(short_names(found), panels.ALL_MARKERS, strict=False))
    swept = {int(each) for line in found.history for _, _, each in line}
    explain(figure, panels.key(swept, named))
    last = min(line[-1][1] for line in found.history)
    some = f"; {len(found)} of {len(held)} solves" if len(found) < len(held) else ""
    return (
        figure,
        f"residual against iteration by bits read{some}",
        f"{len(found)} falling curves; the least ends at {last:.1e}.",
    )
