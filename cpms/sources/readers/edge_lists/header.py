"""Whether the first line of an edge list holds titles, where ``header`` is auto.

This is the rule. Evidence on one side decides; where there is some on both, the file is refused, and the error
names ``header="yes"`` and ``header="no"`` (``--header``).

======================================  ===================  ========================================================
first line                              lines below          result
======================================  ===================  ========================================================
two numbers as ids                      numbers              an edge; refused if it may count nodes and edges
no number at all                        numbers              titles
numbers and words                       numbers              refused
words alone                             names, each with a   titles
                                        number as third
two words and a number                  names, each with a   an edge
                                        number as third
a known pair of titles, unlike any      names                titles; refused if one of them is a node further down
name below
a known pair of titles, like some name  names                refused
below
other fields                            names                an edge if one of its two names is in another edge;
                                                             refused otherwise
======================================  ===================  ========================================================

A line that repeats the titles further down, as joined files have it, is no edge, between quotes too and, if they are
a known pair, in other cases. It is passed over and counted; a line of numbers never is, for an edge may have the same.
Other known titles further down, whose names no other edge has, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import product

from cpms.base.errors import InputError
from cpms.sources.readers.edge_lists.lines import is_decimal, is_word
from cpms.sources.readers.entries import quoted

_SOURCES = {"source", "src", "from", "start", "follower", "citing", "sender", "origin", "subject"}
_TARGETS = {"target", "dst", "dest", "to", "end", "followee", "cited", "receiver", "destination", "object"}
_PAIRS = {("u", "v"), ("node1", "node2"), ("id1", "id2"), ("head", "tail"), ("parent", "child")}
HEADER_CHOICES = "header='yes' (--header yes) passes over it, header='no' (--header no) reads it as an edge"


class FirstLine(Enum):
    """What a first line is."""

    TITLES = "titles"
    EDGE = "an edge"
    DOUBTFUL = "an edge, if the lines below bear it out"


def role_of(title: str) -> str | None:
    """Return ``"source"`` or ``"target"`` if a title stands for one of them.

    Examples
    --------
    >>> role_of("From Node ID"), role_of("dst"), role_of("kg")
    ('source', 'target', None)
    """
    word = re.sub(r"(?<=.)(nodeid|node|id|name)$", "", re.sub("[ _.-]", "", title.lower()))
    return "source" if word in _SOURCES else "target" if word in _TARGETS else None


def first_is(rows: list[list[str]], columns: tuple[int, ...], *, numbered: bool, where: str) -> FirstLine:
    """Return what the first of ``rows`` is, by the rule of this module.

    Parameters
    ----------
    rows : list of list of str
        Fields of the first lines.
    columns : tuple of int
        Source, target and perhaps weight, from 0.
    numbered : bool
        Whether the ids below are numbers.
    where : str
        What errors call the first line.

    Raises
    ------
    InputError
        If the first lines have evidence on both sides.
    """
    first, body = rows[0], rows[1:]
    ends = [first[place] for place in columns[:2]]
    judged = first if len(first) <= 3 else [first[place] for place in columns]
    if numbered:
        return _above_numbers(judged, ends, where) if body else FirstLine.EDGE
    words = all(map(is_word, judged))
    third = len(columns) == 3 and all(is_decimal(row[columns[2]]) for row in body if len(row) > columns[2])
    if words and body and third:
        return FirstLine.TITLES
    if third and all(map(is_word, ends)):
        return FirstLine.EDGE  # Its weight is a number, which no title is.
    if not words or not known_titles(ends):
        return FirstLine.DOUBTFUL
    below = {_shape(row[place]) for row in body for place in columns[:2] if len(row) > place and row != first}
    if below & set(map(_shape, ends)):
        raise InputError(f"{where}: {quoted(' '.join(ends))} may be titles or the names of two nodes; {HEADER_CHOICES}")
    return FirstLine.TITLES


def _above_numbers(judged: list[str], ends: list[str], where: str) -> FirstLine:
    if all(map(is_decimal, ends)):
        return FirstLine.DOUBTFUL
    if all(map(is_word, judged)):
        return FirstLine.TITLES
    word = next(field for field in ends if not is_decimal(field))
    raise InputError(
        f"{where}: {quoted(word)} is not a node id, as those below are; if the line is no edge, "
        "header='yes' (--header yes) passes over it"
    )


def known_titles(ends: Sequence[str]) -> bool:
    """Return whether two names are a known pair of titles.

    Examples
    --------
    >>> known_titles(["Citing", "cited"]), known_titles(["ann", "bob"])
    (True, False)
    """
    plain = tuple(re.sub("[ _.-]", "", title.lower()) for title in ends)
    return plain in _PAIRS or {role_of(title) for title in ends} == {"source", "target"}


def known_pairs() -> Iterator[tuple[str, str]]:
    """Yield the known pairs of titles, in small letters."""
    yield from product(sorted(_SOURCES), sorted(_TARGETS))
    yield from sorted(_PAIRS)


def _shape(name: str) -> str:
    """Return what names that differ in numbers alone, or are single letters, have in common."""
    return "x" if len(name) == 1 and name.isalpha() else re.sub(r"\d+", "9", name.lower())
