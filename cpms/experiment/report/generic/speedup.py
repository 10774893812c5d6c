"""Speed-up of each contestant over a baseline: geometric means over graphs, with bootstrap intervals."""

from __future__ import annotations

from typing import Any

import pandas as pd

from cpms.base.text.escape import abbreviate
from cpms.experiment.report import panels
from cpms.experiment.report.generic.parts import (
    FEWEST,
    Made,
    baseline_of,
    each_line,
    explain_bits,
    lines_of_names,
    range_of,
)
from cpms.experiment.report.intervals import bootstrap
from cpms.experiment.report.palette import NEUTRAL, colour


def speedup(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw the speed-up of each contestant over the baseline, with a bootstrap interval of 95 percent."""
    base = baseline_of(found, baseline)
    lines = speedups(found, baseline)
    if base is None or not lines:
        return None
    over = f"graphs{' and problems' if any(found.problem) else ''}"
    figure, axes, table, some = lines_of_names(pd.DataFrame(lines).sort_values("speedup", ascending=False), width)
    several = len(set(panels.kinds(table))) < len(table)  # Else each line is named by its engine.
    marker = panels.markers(table) if several else "o" * len(table)
    for place, line in enumerate(each_line(table)):
        error = [[line.speedup - line.low], [line.high - line.speedup]]
        axes.errorbar(
            line.speedup, place, xerr=error, color=colour(line.fewest_bits), marker=marker[place], markersize=4
        )
    axes.axvline(1.0, color=NEUTRAL, linewidth=0.6)
    panels.logarithmic(axes, most=5)
    names = [each.get_text() for each in axes.get_yticklabels()]
    panels.label_below(axes, f"speed-up over {abbreviate(base, 80)}", width, names)
    explain_bits(figure, table, marked=several)
    mean = f", geometric mean over {over}" if len(set(found.case)) > 1 else ""
    text = f"speed-up over {base}{mean}, with 95 % bootstrap interval{FEWEST}{some}"
    return figure, text, range_of(table, "speedup", f"Points of the speed-up over {base}", "times")


_SPEED, _GROWS = ("speedup", "low", "high"), "RANKS"
"""Columns, and a word in the names of graphs that grow with the ranks."""


def speedups(found: pd.DataFrame, baseline: str | None = None) -> list[dict[str, Any]]:
    """Return the observation of each other contestant with its ``speedup`` over the baseline, ``low`` and ``high``.

    Times of one graph and of one problem on it are compared, so that a looser tolerance is no speed-up. Graphs that
    grow with the number of ranks are left out.
    """
    base = baseline_of(found, baseline)
    found = found[(found.seconds > 0) & ~found.graph.astype(str).str.contains(_GROWS)]
    if base is None:
        return []
    samples = {line.case: line.samples for line in each_line(found[found.called == base])}
    lines = []
    for name, group in found[found.case.isin(samples)].groupby("called", sort=False):
        if name != base:
            pairs = [(samples[line.case], line.samples) for line in each_line(group)]
            first = {**group.iloc[0], "contestant": name, "graph": "", "problem": "", "case": ""}
            bits = {"fewest_bits": group.fewest_bits.min()}
            lines.append({**first, **bits, **dict(zip(_SPEED, bootstrap(pairs), strict=True))})
    return lines
