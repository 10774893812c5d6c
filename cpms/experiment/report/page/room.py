"""Fitting figures to a page: names in few lines, and a sample of contestants and graphs where there are too many.

A caption states how many were omitted. The sample is comparable: all its graphs have the same contestants, the baseline
among them. The cost is a sort of the observations.
"""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cpms.base.text.escape import abbreviate, drawn
from cpms.experiment.report import captions
from cpms.experiment.report.generic.words import cases_in_all, cases_in_words

if TYPE_CHECKING:
    import pandas as pd

MOST_LINES = 21
"""Most bars or points in a column of names."""
CHARACTER_IN = 0.054
"""Mean width of a character of 7 points, in inches; see `text_inches` for the width of a text."""
_PAGE_IN = 7.6
"""Height in inches of the names of all results above which names have one line."""
MOST_IN = 3.0
"""Most height of the panels beside a column of names, in inches, so that a figure has about four."""


_IN_PARENTHESES = re.compile(r"\([^()]*\)")
_NUMBERS = re.compile(r"(?<==)\d+\b")
"""Numbers of parameters in names of contestants."""


def wrapped(names: Sequence[str], most: int, room: int) -> list[str]:
    r"""Return names wrapped to lines of about ``most`` characters.

    Names have up to three lines if ``room`` names of that height fit on a page. Otherwise they are abbreviated to one
    line, unless names would then be equal.

    Examples
    --------
    >>> wrapped(["cuda power csr", "cuda refine csr"], 8, 40)
    ['cuda power\ncsr', 'cuda refine\ncsr']
    >>> wrapped(["fused refine sweeps"] * 90, 8, 40)[0]
    'fused…ps'
    """
    lines = ["\n".join(whole_words(abbreviate(name, 3 * most + 2), most + 4)) for name in names]
    needed = max((each.count("\n") + 1 for each in lines), default=1)
    short = [abbreviate(name, most) for name in names]
    fits = min(len(names), room) * (0.03 + 0.12 * needed) <= _PAGE_IN
    return short if not fits and len(set(short)) == len(set(names)) else lines


def whole_words(name: str, most: int) -> list[str]:
    """Return a name in lines, with the words in parentheses on one line if they fit.

    Examples
    --------
    >>> whole_words("cuda vectors fp64 jacobi (A fp64)", 30)
    ['cuda vectors fp64 jacobi', '(A fp64)']
    """
    bound = _IN_PARENTHESES.sub(lambda found: found[0].replace(" ", "\0"), name)
    whole = all(len(word) <= most for word in bound.split(" "))
    return [line.replace("\0", " ") for line in textwrap.wrap(bound if whole else name, most)]


@functools.cache
def text_inches(text: str) -> float:
    """Return the width of a text of 7 points as drawn in one line, in inches; pixels may widen it by some percent.

    Examples
    --------
    >>> text_inches("2000") > text_inches("1e-6") > 0
    True
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    across, _, _ = text_to_path.get_text_width_height_descent(drawn(text), FontProperties(size=7), ismath=False)
    return float(across) / 72


def line_height(labels: Sequence[str]) -> float:
    """Return the height of a name in a column of names, in inches."""
    return 0.03 + 0.12 * max(label.count("\n") + 1 for label in labels)


def own_names(found: pd.DataFrame) -> set[str]:
    """Return the names of a user's plug-ins among contestants."""
    return {*found[found.own].called} if "own" in found else set()


def fitting(
    found: pd.DataFrame, names: Sequence[str], width: float, base: str | None = None, headings_in: float = 0.0
) -> tuple[pd.DataFrame, list[str], str]:
    """Return as many lines of a table as fit into `MOST_IN`, evenly chosen, their names, and a text about the others.

    Parameters
    ----------
    found : pandas.DataFrame
        Columns ``case``, ``called`` and, for plug-ins, ``own``; these are kept where each contestant has one line.
    names : sequence of str
        Names of the lines.
    width : float
        Width of the figure, in inches.
    base : str, optional
        A contestant that is kept, too.
    headings_in : float
        Height of headings between the lines, in inches.
    """
    most_in = MOST_IN - headings_in
    labels = wrapped(names, name_length(width), MOST_LINES)
    heights, kept = [line_height([label]) for label in labels], list(range(len(found)))
    own = (found.called == base) | (found.own.astype(bool) if "own" in found else False)
    staying = {int(place) for place in np.flatnonzero(own)} if found.called.is_unique else set[int]()
    if found.called.is_unique and sum(heights) > most_in:
        height_of = dict(zip(found.called, heights, strict=True))
        chosen, text = whole_series(
            found,
            list(found.called),
            {found.called.iloc[place] for place in staying},
            lambda few: sum(height_of[name] for name in few) <= most_in,
        )
        kept = [place for place, name in enumerate(found.called) if name in chosen]
        return found.iloc[kept].reset_index(drop=True), [labels[place] for place in kept], text
    while len(kept) > 1 and sum(heights[place] for place in kept) > most_in:
        fewer = evenly_with(range(len(found)), staying, len(kept) - 1)
        if len(fewer) == len(kept):
            break
        kept = fewer
    if len(kept) == len(found):
        return found.reset_index(drop=True), labels, ""
    what = "contestants" if len(set(found.case)) == 1 else "results"
    what = cases_in_words(found) if len(set(found.called)) == 1 else what
    text = f"; {len(kept)} of {len(found)} {what}, evenly chosen"
    return found.iloc[kept].reset_index(drop=True), [labels[place] for place in kept], text


def sample(
    found: pd.DataFrame, base: str | None, most_cases: int, most_names: int, *, full: bool = True
) -> tuple[pd.DataFrame, str]:
    """Return the lines of limited numbers of cases and contestants, and a text about the others.

    Cases are chosen evenly from the fastest to the slowest, and contestants by relative time. The baseline and a user's
    plug-ins are always kept.

    Parameters
    ----------
    found : pandas.DataFrame
        Columns ``case``, ``called``, ``problem``, ``seconds`` and, for plug-ins, ``own``.
    base : str or None
        The contestant over which speed-ups are computed.
    most_cases, most_names : int
        Most cases, and most contestants.
    full : bool
        Omit nearly empty cases, which have less than half as many contestants as the fullest.
    """
    names, cases = by_time(found, full)
    shown, kept = evenly(cases, most_cases), evenly(names, most_names)
    own = own_names(found)
    staying = [name for name in names if name == base or name in own]
    for name in staying:
        free = [place for place in range(len(kept)) if kept[place] not in staying]
        if name not in kept and free:
            nearest = min(free, key=lambda place: abs(names.index(kept[place]) - names.index(name)))
            kept[nearest] = name
    chosen = found[found.case.isin(shown) & found.called.isin(kept)]
    drawn, count, of_names = chosen.called.nunique(), cases_in_all(found), len(names)
    evenly_chosen = ", evenly chosen" if len(kept) < of_names else ""
    texts = [
        f"; {chosen.case.nunique()} of {count} {cases_in_words(found)}" if chosen.case.nunique() < count else "",
        f"; {drawn} of {of_names} contestants{evenly_chosen}" if drawn < of_names else "",
    ]
    found = chosen.assign(place=found.case.map({case: place for place, case in enumerate(shown)}))
    return found.sort_values(["place", "seconds"]).reset_index(drop=True), "".join(texts)


def by_time(found: pd.DataFrame, full: bool = True) -> tuple[list[str], list[str]]:
    """Return contestants in the order of their median relative time, and cases in that of their median time."""
    counts = found.groupby("case").size()
    kept = found[found.case.isin(counts.index[2 * counts >= counts.max()])] if full else found
    relative = found.seconds / found.groupby("case").seconds.transform("min")
    names = relative.groupby(found.called).median().sort_values().index
    return [*names], [*kept.groupby("case").seconds.median().sort_values().index]


def in_series(names: Sequence[str]) -> list[str]:
    """Return names of which those that differ in numbers of parameters alone follow each other, by these numbers.

    Examples
    --------
    >>> in_series(["a ranks=1", "b ranks=1", "a ranks=4", "a ranks=2"])
    ['a ranks=1', 'a ranks=2', 'a ranks=4', 'b ranks=1']
    """
    series = list(dict.fromkeys(map(_series, names)))
    return sorted(names, key=lambda name: (series.index(_series(name)), *map(int, _NUMBERS.findall(name))))


def _series(name: str) -> str:
    return _NUMBERS.sub("", name)


def whole_series(
    found: pd.DataFrame, names: Sequence[str], staying: Collection[str], fits: Callable[[Sequence[str]], bool]
) -> tuple[list[str], str]:
    """Return as many contestants as fit, in whole series, and a text about the others.

    A series has one engine, layout and method; so the float64 of a layout stays with its other formats. If no such
    series fits, or they would leave most of the space empty, a series differs in numbers of parameters alone, and if
    these do not fit either, contestants are evenly chosen. Series of most cases are first, then those of the first
    names. Contestants that stay are of every choice.

    Parameters
    ----------
    found : pandas.DataFrame
        Columns ``called``, ``case``, ``engine``, ``layout`` and ``method``.
    names : sequence of str
        All contestants.
    staying : collection of str
        Contestants that are kept.
    fits : callable
        Whether there is space for a sequence of contestants.
    """
    even = next((few for most in range(len(names), 1, -1) if fits(few := evenly_with(names, staying, most))), None)
    even = evenly_with(names, staying, 1) if even is None else even
    first = found.drop_duplicates("called").set_index("called")
    columns = [each for each in ("engine", "layout", "method") if each in found]
    kinds = {name: " ".join(filter(None, map(_text, first.loc[name, columns]))) for name in names}
    series = {name: " ".join(word for word in name.split() if not _NUMBERS.search(word)) for name in names}
    counts = found.groupby("called").case.nunique()
    for kind_of in (kinds, series):
        members = {kind: [name for name in names if kind_of[name] == kind] for kind in dict.fromkeys(kind_of.values())}
        if not 1 < len(members) <= len(names) / 2:
            continue
        kept = set(staying)
        for each in sorted(members.values(), key=lambda each: -max(counts[name] for name in each)):
            more = kept | {*each}
            kept = more if fits([name for name in names if name in more]) else kept
        if 2 * len(kept) >= len(even):
            left = [kind for kind, each in members.items() if not kept >= {*each}]
            chosen = [name for name in names if name in kept]
            text = f"; {len(chosen)} of {len(names)} contestants, in whole series; left out: {captions.some(left)}"
            return chosen, text if left else ""
    return even, f"; {len(even)} of {len(names)} contestants, evenly chosen"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def evenly(held: Sequence[Any], most: int) -> list[Any]:
    """Return at most ``most`` elements of a sequence, evenly chosen, with the first and the last.

    Examples
    --------
    >>> evenly("abcdefg", 3), evenly("ab", 3)
    (['a', 'd', 'g'], ['a', 'b'])
    """
    if len(held) <= most:
        return list(held)
    return [held[int(place)] for place in np.linspace(0, len(held) - 1, most).round()]


def evenly_with(held: Sequence[Any], staying: Collection[Any], most: int) -> list[Any]:
    """Return about ``most`` elements of a sequence in their order: those that stay, and others evenly chosen.

    Examples
    --------
    >>> evenly_with("abcdefg", {"b"}, 3), evenly_with("abc", {"a", "b"}, 1)
    (['a', 'b', 'g'], ['a', 'b', 'c'])
    """
    others = [each for each in held if each not in staying]
    kept = evenly(others, max(1, most - (len(held) - len(others))))
    return [each for each in held if each in staying or each in kept]


def name_length(width: float) -> int:
    """Return the number of characters of a name at the left of a figure, by the figure's width in inches."""
    return 26 if width < 5 else 40
