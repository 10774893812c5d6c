"""Checks of an edge list's first line that need all other lines."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.sources.readers.edge_lists.form import EdgeListForm
from cpms.sources.readers.edge_lists.header import HEADER_CHOICES, known_pairs
from cpms.sources.readers.edge_lists.lines import is_decimal
from cpms.sources.readers.entries import quoted

_WHOLE = re.compile(r"(\d+)[.,]0+", re.ASCII)
_CASES = (str.lower, str.capitalize, str.upper)


def refuse_counts(form: EdgeListForm, edges: int, largest_below: int, label: str) -> None:
    """Raise `InputError` if the first line may count nodes and edges rather than be an edge.

    Parameters
    ----------
    form : EdgeListForm
    edges : int
        Edges of the list, the first line among them.
    largest_below : int
        Largest id of the others.
    label : str
        What the error calls the file.

    Examples
    --------
    >>> form = EdgeListForm(None, (0, 1), numbered=True, doubtful=("4", "2"))
    >>> refuse_counts(form, 3, 5, "g.txt")  # an id is larger than 4
    >>> try:
    ...     refuse_counts(form, 3, 4, "g.txt")
    ... except InputError as error:
    ...     print(error)
    g.txt, line 1: '4 2' may be the numbers of nodes and of edges, ...
    """
    if len(form.doubtful) < 2 or not all(map(is_decimal, form.doubtful)) or edges < 2:
        return
    numbers = [float(number) for number in form.doubtful]
    *nodes, following = numbers
    counted = following == edges - 1 and min(nodes) >= largest_below and len(set(nodes)) == 1
    exact = {float(largest_below), largest_below + 1.0}
    turned = len(numbers) == 2 and numbers[0] == edges - 1 > 2 and numbers[1] in exact
    both_ways = 2 * following == edges - 1 > 2 and set(nodes) <= exact
    if counted or turned or both_ways:
        counts = quoted(" ".join(form.doubtful))
        raise InputError(
            f"{label}, line {form.first_line}: {counts} may be the numbers of nodes and of edges, "
            f"for {edges - 1:,} lines follow; {HEADER_CHOICES}"
        )


def refuse_titles(form: EdgeListForm, names: Container[str], label: str) -> None:
    """Raise `InputError` if what was taken for titles may be an edge, since nodes further down are called so."""
    ends = [] if form.header is None or form.trusted else [form.header[place] for place in form.columns[:2]]
    if found := [end for end in ends if end in names]:
        raise InputError(
            f"{label}: a node is called {quoted(found[0])}, as a column of the first line is, "
            f"so that line may be an edge; {HEADER_CHOICES}"
        )


def refuse_twins(names: Iterable[str], label: str) -> None:
    """Raise `InputError` if two nodes are called by one number, as ``1`` and ``1.0``.

    Examples
    --------
    >>> try:
    ...     refuse_twins({"1": 0, "a": 1, "1.0": 2}.keys(), "g.csv")
    ... except InputError as error:
    ...     print(error)
    g.csv: '1' and '1.0' may be one node; write its id in one way
    """
    decimals = (found for name in names if name.endswith("0") and (found := _WHOLE.fullmatch(name)))
    whole = {found[1]: found.group() for found in decimals}
    if whole and (twin := next((name for name in names if name in whole and name.isdecimal()), None)):
        raise InputError(f"{label}: {quoted(twin)} and {quoted(whole[twin])} may be one node; write its id in one way")


def refuse_titles_below(index: Mapping[str, int], ends: npt.NDArray[np.int64], label: str) -> None:
    """Raise `InputError` if an edge may be the titles of a file that was joined to others.

    They are a known pair whose two names no other edge has. ``ends`` are source and target of each edge in turn.

    Examples
    --------
    >>> try:
    ...     refuse_titles_below({"ann": 0, "bob": 1, "from": 2, "to": 3}, np.array([0, 1, 2, 3]), "g.csv")
    ... except InputError as error:
    ...     print(error)
    g.csv: the line 'from to' may hold titles of a file joined to another; ...
    """
    cases = (tuple(map(case, pair)) for pair in known_pairs() for case in _CASES)
    for source, target in (pair for pair in cases if pair[0] in index and pair[1] in index):
        touched = np.flatnonzero((ends == index[source]) | (ends == index[target]))
        edges = {(at & ~1, at % 2, int(ends[at])) for at in touched.tolist()}
        starts = {first for first, _, _ in edges}
        if all({(first, 0, index[source]), (first, 1, index[target])} <= edges for first in starts):
            raise InputError(
                f"{label}: the line {quoted(f'{source} {target}')} may hold titles of a file joined to another; remove "
                "it if so; header='yes' or 'no' (--header yes or no, as the first line is) reads it as an edge"
            )


def refuse_isolated(form: EdgeListForm, label: str) -> None:
    """Raise `InputError` for a first line that may hold titles: no other edge has one of its two names."""
    ends = form.doubtful[:2]
    raise InputError(
        f"{label}, line {form.first_line}: {quoted(' '.join(ends))} may be titles, for no other edge has one of these "
        f"names; {HEADER_CHOICES}"
    )
