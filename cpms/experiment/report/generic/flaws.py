"""Results that must not be compared: solves that did not converge, and wrong answers.

Figures of times omit both, and figures of errors wrong answers; the caption names them with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cpms.base.text.counted import counted
from cpms.experiment.report import captions
from cpms.experiment.report.generic.words import all_of, case_in_words, cases_in_words, plural
from cpms.experiment.rows.rows import Row
from cpms.experiment.rows.series import results_of

if TYPE_CHECKING:
    import pandas as pd

_WRONG_WAYS = ("add_plainly", "add_nothing")
"""Variants of sums that measure the cost of atomic additions and give wrong ranks."""
_WRONG_ERROR = 1.0
"""Relative error at which a result is wrong."""
_WRONG_PRODUCT = 1.0
"""Relative error at which a product has no right digit."""
_MOST_NAMED = 2
"""Most contestants with flaws that differ in numbers alone that a caption names."""
_MEASURED = ("CONVERGED", "UNSUPPORTED")
"""Statuses of linear solves that are not failures to converge."""


def flaw(lines: Sequence[dict[str, Any]]) -> str:
    """Return why the time of a result must not be compared, given its flattened repetitions; empty if it may be.

    Examples
    --------
    >>> flaw([{"solver_converged": 99, "answered": 100}]), flaw([{"kind": "product", "error": 816.0}])
    ('99 of 100 queries converged', '816 times the largest value is the error of its product')
    >>> flaw([{"converged": False}]), flaw([{"add": "add_nothing"}]), flaw([{"solver_status": "converged"}])
    ('not converged', 'wrong ranks', '')
    """
    return next(filter(None, map(_flaw, lines)), "")


def _flaw(line: dict[str, Any]) -> str:
    if line.get("add") in _WRONG_WAYS:
        return "wrong ranks"
    if line.get("same_values") is False:
        return "other values"
    if line.get("kind") == "product" and float(line.get("error", 0.0)) >= _WRONG_PRODUCT:
        return f"{float(line['error']):.4g} times the largest value is the error of its product"
    converged, answered = int(line.get("solver_converged", 0)), int(line.get("answered", 0))
    if "solver_converged" in line and converged < answered:
        return f"{converged} of {answered} queries converged"
    if not line.get("converged", True) or line.get("solver_status", "converged") != "converged":
        return "not converged"
    return ""


def fair(
    found: pd.DataFrame, *, of_times: bool = True, drawn: Collection[str] | None = None
) -> tuple[pd.DataFrame, str]:
    """Return the observations that may be compared, and a text about the contestants that the others are of.

    Errors of solves that have not converged may be compared, unlike their times: they show what a format can reach. The
    text is about the graphs in ``drawn``, by default about all.

    Examples
    --------
    >>> import pandas as pd
    >>> lines = [("a", "g", ""), ("b", "f", "3 of 9 converged"), ("b", "g", "8 of 9 converged"), ("b", "h", "")]
    >>> fair(pd.DataFrame(lines, columns=["called", "case", "flaw"]))[1]
    '; results left out: b (3 to 8 of 9 converged, 2 of 3 results)'
    """
    unfair = (found.flaw != "") & (of_times | ~is_unconverged(found))
    stated = found if drawn is None else found[found.graph.isin([*drawn])]
    return found[~unfair], flawed_in_words("results left out", stated, unfair[stated.index])


def flawed_in_words(what: str, found: pd.DataFrame, flawed: pd.Series[bool]) -> str:
    """Return a text about the contestants of some results, and the flaws of these; empty if there are none.

    Of more than `_MOST_NAMED` contestants whose flaws differ in numbers alone, it gives their number.

    Examples
    --------
    >>> import pandas as pd
    >>> found = pd.DataFrame({"called": [*"abc"], "flaw": "wrong ranks"})
    >>> flawed_in_words("left out", found, found.called != "c"), flawed_in_words("left out", found, found.flaw != "")
    ('; left out: a (wrong ranks), b (wrong ranks)', '; left out: 3 contestants (wrong ranks)')
    """
    alike = dict[tuple[str, ...], list[str]]()
    for name, part in found[flawed].groupby("called", sort=False):
        alike.setdefault(tuple(dict.fromkeys(map(_without_number, part.flaw))), []).append(str(name))
    texts = []
    for names in alike.values():
        for group in [names] if len(names) > _MOST_NAMED else [[name] for name in names]:
            of_group = found.called.isin(group)
            part, every = found[flawed & of_group], int(of_group.sum())
            where = f", {len(part)} of {every} results" if len(part) < every else ""
            what_of = group[0] if len(group) == 1 else f"{len(group)} contestants"
            texts.append(f"{what_of} ({_joined(part.flaw)}{where})")
    return f"; {what}: {captions.some(texts)}" if texts else ""


def _without_number(flaw: str) -> str:
    return _parts(flaw)[-1]


def _parts(flaw: str) -> tuple[str, str, str]:
    """Return the leading number of a flaw, the number of which it is a part, and the words that follow these.

    Examples
    --------
    >>> _parts("9 of 10 queries converged"), _parts("32.5 times the largest value"), _parts("not converged")
    (('9', '10', 'queries converged'), ('32.5', '', 'times the largest value'), ('', '', 'not converged'))
    """
    found = re.fullmatch(r"([\d.]+) (?:of (\d+) )?(.*)", flaw)
    return (found[1], found[2] or "", found[3]) if found else ("", "", flaw)


def _joined(flaws: Iterable[str]) -> str:
    """Return the flaws of a contestant; flaws that differ in their numbers alone become one with their ranges.

    Examples
    --------
    >>> _joined(["9 of 10 queries converged", "3 of 25 queries converged", "wrong ranks"])
    '3 to 9 of 10 to 25 queries converged or wrong ranks'
    """
    by_rest: dict[str, tuple[list[str], list[str]]] = {}
    for number, total, rest in map(_parts, dict.fromkeys(flaws)):
        numbers, totals = by_rest.setdefault(rest, ([], []))
        numbers.append(number)
        totals.append(total)
    texts = {rest: (_range(numbers), _range(totals)) for rest, (numbers, totals) in by_rest.items()}
    return " or ".join(
        " ".join(filter(None, [number, f"of {total}" if total else "", rest]))
        for rest, (number, total) in texts.items()
    )


def _range(numbers: Sequence[str]) -> str:
    """Return the least and the largest of some numbers, or the only one; empty without numbers."""
    ordered = sorted({*filter(None, numbers)}, key=float)
    return f"{ordered[0]} to {ordered[-1]}" if len(ordered) > 1 else "".join(ordered)


def unconverged(rows: Iterable[Row], absent: str = "not drawn") -> str:
    """Return a text about linear solves that did not converge, for which there are no observations.

    Examples
    --------
    >>> unconverged([{"status": "ok", "ways_found": [{"status": "CONVERGED"}, {"status": "STAGNATED"}]}])
    '; not drawn: 1 of 2 solves, which did not converge'
    """
    statuses = [str(each.get("status")) for row in rows if row["status"] == "ok" for each in results_of(row)]
    solved = [each for each in statuses if each.isupper()]
    count = sum(each not in _MEASURED for each in solved)
    return f"; {absent}: {count} of {len(solved)} solves, which did not converge" if count else ""


def exact(found: pd.DataFrame, drawn: Collection[str]) -> str:
    """Return a text about products without an error, which a logarithmic axis cannot show.

    In other results, an error of zero is one that was not measured.

    Parameters
    ----------
    found : pandas.DataFrame
    drawn : collection of str
        The cases in the figure.

    Examples
    --------
    >>> import pandas as pd
    >>> lines = [("a", "g", 0.0), ("a", "h", 0.0), ("b", "g", 0.0), ("b", "h", 1.0), ("b", "i", 0.0)]
    >>> found = pd.DataFrame(lines, columns=["called", "graph", "error"]).assign(kind="product")
    >>> exact(found.assign(problem="", case=found.graph), ["g", "h"])
    '; error 0, on so many of the matrices: a (2), b (1); no error above 0: 2 matrices'
    """
    one = case_in_words(found)
    products = found[found.kind == "product"]
    without = products[~(products.error > 0) & products.case.isin(drawn)]
    counts = {str(name): len(part) for name, part in without.groupby("called", sort=False)}
    of_one = len({*drawn}) == 1
    named = all_of(counts if of_one else [f"{name} ({count})" for name, count in counts.items()])
    many = " to ".join(map(str, sorted({min(counts.values()), max(counts.values())}))) if counts else ""
    where = "" if of_one else f", on {'so many' if named else many} of the {cases_in_words(found)}"
    others = int((~(products.groupby("case").error.max() > 0)).sum())
    texts = [
        f"; error 0{where}: {named or counted(len(counts), 'contestant')}" if counts else "",
        f"; no error above 0: {counted(others, one, plural(one))}" if others else "",
    ]
    return "".join(texts)


def is_unconverged(found: pd.DataFrame) -> pd.Series[bool]:
    """Return which of some results that may be compared by their errors are of solves that have not converged."""
    return found.flaw.str.endswith("converged")


def is_wrong(found: pd.DataFrame) -> pd.Series[bool]:
    """Return which results have a relative error at which they are wrong."""
    return (found.error > _WRONG_ERROR) & ~found.error_name.str.startswith("residual")


def wrong_in_words(found: pd.DataFrame) -> str:
    """Return a text about the results that are wrong."""
    wrong = found[is_wrong(found)]
    names = captions.some(dict.fromkeys(wrong.called))
    return f"; wrong, ringed where drawn: error above 1, {len(wrong)} of {len(found)} ({names})" if names else ""
