"""The graphs and contestants of scatters: a few graphs by size, and whole series of contestants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from cpms.experiment.report.generic.words import all_of, case_words, cases_in_all, cases_in_words
from cpms.experiment.report.page import room
from cpms.experiment.report.page.series import chosen_series


def chosen(
    found: pd.DataFrame, drawable: pd.Series[bool], base: str | None, most_cases: int, most_names: int
) -> tuple[pd.DataFrame, str]:
    """Return the results of a few graphs by size and of whole series, and a text about the others.

    Drawn are graphs with all of these contestants, if there are enough, and each graph with one problem if there are
    more than fit.
    """
    shown = spread(found[drawable], chosen_series(found[drawable], {base, *room.own_names(found)}, most_names))
    if shown.empty:  # The contestants left out alone differ in their bytes or bits.
        fullest = found[drawable & (found.case == found[drawable].case.mode()[0])].sort_values("x")
        shown = spread(found[drawable], room.evenly(list(fullest.called), most_names))
    counts = shown.groupby("case").size()
    complete = counts.index[counts == counts.max()]
    fullest = complete if len(complete) >= most_cases else counts.index[2 * counts >= counts.max()]
    lines = shown[shown.case.isin(fullest)].drop_duplicates("case")
    lines = lines.assign(lacking=-lines.case.map(counts)).sort_values(["size", "lacking", "case"], kind="stable")
    lines = lines.drop_duplicates("graph") if lines.graph.nunique() >= most_cases else lines
    cases, order = (
        [str(case) for case in lines.case],
        f", evenly chosen{' by size' if len({*lines['size']}) > 1 else ''}",
    )
    if most_cases < len(cases) // 2:
        cases, order = cases[len(cases) // 2 :], f"{order} among the larger half"
    kept = room.evenly(cases, most_cases)
    if len(kept) == len(cases):  # All on which contestants differ across.
        order = ", on which contestants differ"
    shown = shown[shown.case.isin(kept)]
    kept = _loosest_first(shown, kept)
    shown = shown.assign(place=shown.case.map(kept.index)).sort_values("place", kind="stable")
    return shown.reset_index(drop=True), "".join(_left_out(found, shown, order))


def _loosest_first(found: pd.DataFrame, cases: Sequence[str]) -> list[str]:
    """Return cases in their order, but with those of one graph together, from the loosest tolerance on."""
    first = found.drop_duplicates("case").set_index("case")
    of_graph = first.graph.astype(str)  # Rows of an own kind may have none.
    graphs = list(dict.fromkeys(of_graph[case] for case in cases))
    return sorted(cases, key=lambda case: (graphs.index(of_graph[case]), -np.nan_to_num(first.tol[case])))


def spread(found: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return the results of some contestants on the graphs on which these are not all in one place across."""
    shown = found[found.called.isin(names)]
    across = shown.groupby("case").x
    return shown[across.transform("max") > across.transform("min")]


def _left_out(found: pd.DataFrame, shown: pd.DataFrame, order: str) -> Iterator[str]:
    """Yield texts about the panels, and about the graphs and contestants that are not drawn."""
    cases, of_cases = shown.case.nunique(), cases_in_all(found)
    names, of_names = shown.called.nunique(), found.called.nunique()
    if cases > 1:
        yield f"; a panel for each {' and '.join(case_words(found))}, with axes of its own"
    if cases < of_cases:
        yield f"; {cases} of {of_cases} {cases_in_words(found)}{order}"
    if names < of_names:
        left = [name for name in dict.fromkeys(found.called) if name not in {*shown.called}]
        named = all_of(left)
        yield f"; {names} of {of_names} contestants, in whole series{f'; left out: {named}' if named else ''}"
    if len(shown) < cases * names:
        yield "; no mark: no such result"
