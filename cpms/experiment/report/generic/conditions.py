"""Sentences of a caption about what results have in common: the contestant or its name, the graph, the tolerance."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from cpms.experiment.report.generic.contestants import is_tuned
from cpms.experiment.report.generic.words import all_or_count, case_in_words, case_words, of_systems
from cpms.experiment.rows.rows import Row
from cpms.experiment.rows.series import results_of

if TYPE_CHECKING:
    import pandas as pd


_PLAIN = ("", "name", "contestant")
"""Parameters that name contestants with nothing to state, as they are the names themselves."""
_RUNS = "A run is of a graph, for a purpose that the configuration names."
"""Sentence about the runs of OpenCL, whose names have a graph and a purpose."""
_ACYCLIC = "On a graph without a cycle, refine takes one pass of 64 bits."
"""Sentence about solves by method refine that have the colour of 64 bits, though their names have a format of fewer."""
_MOST_FORMATS = 3
"""Most formats of matrices that a caption counts."""


def conditions(
    rows: Sequence[Row],
    found: pd.DataFrame,
    *,
    against_tolerance: bool = False,
    drawn: Collection[str] | None = None,
) -> str:
    """Return what the results of rows have in common, and what contestants are named by, as sentences.

    Where a figure draws something against the tolerance, theirs is called that of the solves. If it draws a part of the
    graphs only, ``drawn`` has these.

    Examples
    --------
    >>> from cpms.experiment.report.observations import observations
    >>> row = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "path", "engine": "cpu", "solve_s": 2.0}
    >>> conditions([{**row, "tol": 1e-6}], observations([{**row, "tol": 1e-6}]))
    'Contestant: cpu. Graph: path. Tolerance: 1e-06.'
    """
    names = {str({**row, **result}.get("name", "")) for row in rows for result in results_of(row)}
    alike = f", all of {min(names)}" if len(names) == 1 and any(names) else ""
    named_by, graphs = found.named_by.iloc[0], list(dict.fromkeys(found.label))
    omitted = "; values in parentheses are omitted" if "(" in named_by else ""
    shown = found if drawn is None else found[found.graph.isin(drawn)]
    tolerances = {{**row, **result}.get("tol") for row in rows if row["status"] == "ok" for result in results_of(row)}
    alone, of_solves = len(set(found.called)) == 1, " of the solves" if against_tolerance else ""
    return " ".join(
        filter(
            None,
            [
                f"Contestant: {found.named.iloc[0]}." if alone and found.named.iloc[0] else "",
                f"Contestants are named by {named_by}{omitted}{alike}." if not alone and named_by not in _PLAIN else "",
                f"{case_in_words(found).capitalize()}: {label}." if len(graphs) == 1 and (label := graphs[0]) else "",
                _RUNS if case_words(found) == ["run"] else "",
                "Times are of conversions from float64 to the format." if set(found.kind) == {"conversion"} else "",
                _stored(found),
                _ACYCLIC if _in_one_pass(shown).any() else "",
                _of_bound(rows, found)
                if is_tuned(found)
                else f"Tolerance{of_solves}: {tolerances.pop():g}."
                if len(tolerances) == 1 and None not in tolerances
                else "",
            ],
        )
    )


def _in_one_pass(found: pd.DataFrame) -> pd.Series[bool]:
    return (found.method == "refine") & (found.bits == 64) & (found.iterations == 1) & (found.kind != "linear")


def _of_bound(rows: Sequence[Row], found: pd.DataFrame) -> str:
    """Return the bound of the errors of results, each with the loosest tolerance that keeps it, as a sentence."""
    bounds = " or ".join(f"{each:g}" for each in sorted({float(row["error"]) for row in rows if "error" in row}))
    without = all_or_count(dict.fromkeys(found.called[found.tol == 0]))
    least = f"; {without} takes none" if without else ""
    return f"Tolerance of each result: the loosest tried whose error is at most {bounds}{least}." if bounds else ""


def at_one_tolerance(found: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the lines of each graph at its smallest tolerance, and a text about it; their problem lacks it."""
    least = found.groupby("graph", dropna=False).tol.transform("min")
    kept = found[~(found.tol > least)]
    if len(kept) == len(found):
        return found, ""
    cases = [", ".join(filter(None, each)) for each in zip(kept.graph.astype(str), kept.besides, strict=True)]
    alike = len(set(kept.tol)) == 1
    text = f"tolerance {kept.tol.max():g}, the smallest of {found.tol.nunique()}"
    kept = kept.drop(columns="in_all", errors="ignore").assign(problem=kept.besides, case=cases)
    return kept, f"; {text if alike else 'smallest tolerance of each graph'}"


def _stored(found: pd.DataFrame) -> str:
    """Return the formats of the matrices of linear solves as a sentence, with the number of results of each."""
    if not of_systems(found):
        return ""
    counts = found.stored.value_counts()
    if len(counts) == 1:
        return f"The matrix A is stored as {counts.index[0]}."
    each = [f"{stored} ({count})" for stored, count in counts.items()]
    more = f" and {len(each) - _MOST_FORMATS} more" if len(each) > _MOST_FORMATS else ""
    return f"Formats of the matrix A in all {counts.sum()} results: {', '.join(each[:_MOST_FORMATS])}{more}."
