"""Series of contestants: those that differ in the bits that they read alone, and a choice that keeps a series whole.

A series has one marker, since its members have colours of their own on each graph. Its members differ in the parameter
``read``, or in the one format of their names. If two of these formats have one colour, those of one kind are a series,
such as fp64 and fp16, unless two of them have one colour. Where contestants are too many, whole series are chosen:
those of the baseline and of a user's plug-ins, then the longest, each with the float64 contestant whose name is the
most alike. The cost is a pass over the names for each series.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from cpms.base import plugins
from cpms.base.errors import InputError
from cpms.experiment.report.palette import colour
from cpms.formats.block_float import BLOCK_FLOATS
from cpms.formats.formats import format_named

if TYPE_CHECKING:
    import pandas as pd

_READ = re.compile(r"read=(\d+)")
_DIGITS = re.compile(r"\d+")
_FORMAT = re.compile(r"[a-z]+\d[\w-]*")
_OF_BLOCKS = {each.name for each in BLOCK_FLOATS}
_MOST_NAMED = 3
"""Most formats in the name of a series; of more, the first and the last are named."""


def series_of(found: pd.DataFrame) -> dict[str, str]:
    """Return the series of each contestant.

    Parameters
    ----------
    found : pandas.DataFrame
        Columns ``called``, ``case`` and ``fewest_bits``.

    Examples
    --------
    >>> import pandas as pd
    >>> names = ["cuda fp64 coo", "cuda fp32 coo", "cuda cpms4 csr read=1", "cuda cpms4 csr read=2", "scipy"]
    >>> series_of(pd.DataFrame({"called": names, "case": "g", "fewest_bits": [64, 32, 16, 32, 64]}))["cuda fp32 coo"]
    'cuda fp64/fp32 coo'
    """
    shades = {
        str(name): {(str(case), colour(bits)) for case, bits in zip(part.case, part.fewest_bits, strict=True)}
        for name, part in found.groupby("called", sort=False)
    }
    bits = {str(name): -float(part.fewest_bits.max()) for name, part in found.groupby("called", sort=False)}
    groups = _split(_grouped(shades, _without_levels), shades)
    alone = [group[0] for group in groups if len(group) == 1]
    of_formats = [each for group in _grouped(alone, _without_format) for each in _of_formats(group, shades)]
    whole = [group for group in groups if len(group) > 1] + of_formats
    called = {name: _called(sorted(group, key=lambda name: bits[name])) for group in whole for name in group}
    return {name: called[name] for name in shades}


def chosen_series(found: pd.DataFrame, staying: Collection[str | None], most: int) -> list[str]:
    """Return at most ``most`` contestants in the order of ``found``: whole series, those with some that stay first.

    Series that most cases lack come last. Of equally long ones, those of the first words, the engines, with the fewest
    contestants come first, so that no engine is left out for more contestants of another. Contestants of 64 bits alone
    are references, unless all are of 64 bits.
    """
    series, cases = series_of(found), found.case.nunique()
    members: dict[str, list[str]] = {}
    for name in series:
        members.setdefault(series[name], []).append(name)
    if len(series) <= most:
        return list(series)
    counts = found.groupby("called").case.nunique().to_dict()
    of_64 = {name for name, part in found.groupby("called", sort=False) if (part.fewest_bits == 64).all()}
    references = [name for name in series if name in of_64 and "fp64" in name.split()]
    staying, chosen = {*staying}, set[str]()

    engine_of = {name: name.partition(" ")[0] for name in series}
    of_engines = Counter(engine_of.values())

    def order(each: str) -> tuple[bool, bool, int, int]:
        held = {*members[each]}
        rare = 2 * min(counts[name] for name in held) < cases
        return staying.isdisjoint(held), rare, -len(held), min(of_engines[engine_of[name]] for name in held)

    ordered = sorted(members, key=order)
    if not of_64.issuperset(series):
        ordered = [
            each for each in ordered if not staying.isdisjoint(members[each]) or not of_64.issuperset(members[each])
        ]
    for each in ordered:
        reference = [other for name in _reference(members[each], references) for other in members[series[name]]]
        needed = {*members[each], *reference} - chosen
        if len(chosen) + len(needed) <= most or not staying.isdisjoint(members[each]):
            chosen |= needed
    return [name for name in series if name in chosen]


def _reference(names: Sequence[str], references: Sequence[str]) -> list[str]:
    """Return the float64 contestant most like a series without one; none if no word is shared."""
    if not {*names}.isdisjoint(references):
        return []
    words = {*_words(names[0])}
    shared = [len(words & {*_words(name)}) for name in references]
    return [references[shared.index(max(shared))]] if max(shared, default=0) > 0 else []


def _words(name: str) -> list[str]:
    return [word for word in name.split() if not _READ.fullmatch(word) and not _is_format(word)]


@functools.cache
def _is_format(word: str) -> bool:
    if word in _OF_BLOCKS or not _FORMAT.fullmatch(word):
        return word in _OF_BLOCKS
    try:
        with plugins.allowed(False):  # A name is data: it runs no code.
            format_named(word)
    except (TypeError, InputError):
        return False
    return True


def _grouped(names: Iterable[str], key_of: Callable[[str], str]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(key_of(name), []).append(name)
    return list(groups.values())


def _without_levels(name: str) -> str:
    return _READ.sub("read=", name)


def _without_format(name: str) -> str:
    """Return a name without its format; names of several formats are returned as they are."""
    words = name.split()
    formats = [place for place, word in enumerate(words) if _is_format(word)]
    if len(formats) != 1:
        return name
    return " ".join([*words[: formats[0]], "\0", *words[formats[0] + 1 :]])


def _of_formats(group: Sequence[str], shades: dict[str, set[tuple[str, str]]]) -> list[list[str]]:
    """Return the series of contestants that differ in their format: all, or those of formats of one kind, or none."""
    if len(_split([group], shades)) == 1:
        return [[*group]]
    families = [(family, len(_split([family], shades))) for family in _grouped(group, _family)]
    return [each for family, parts in families for each in ([family] if parts == 1 else [[name] for name in family])]


def _family(name: str) -> str:
    """Return a name with its format without numbers, such as fp of fp64 and fp16."""
    return " ".join(_DIGITS.sub("", word) if _is_format(word) else word for word in name.split())


def _split(groups: Iterable[Sequence[str]], shades: dict[str, set[tuple[str, str]]]) -> list[list[str]]:
    """Return groups of contestants of which no two have one colour on a graph."""
    found = list[list[str]]()
    for group in groups:
        own = list[list[str]]()
        for name in group:
            free = (each for each in own if all(shades[name].isdisjoint(shades[other]) for other in each))
            held = next(free, None)
            if held is None:
                own.append([name])
            else:
                held.append(name)
        found += own
    return found


def _called(names: Sequence[str]) -> str:
    """Return the name of a series: that of its only contestant, or one with all levels or formats."""
    if len(names) == 1:
        return names[0]
    levels = sorted(int(match[1]) for match in map(_READ.search, names) if match)
    if len(levels) == len(names) and len({*map(_without_levels, names)}) == 1:
        alike = levels[-1] - levels[0] + 1 == len(levels)
        text = f"{levels[0]}..{levels[-1]}" if alike else ",".join(map(str, levels))
        return _READ.sub(f"read={text}", names[0])
    place = next(place for place, words in enumerate(zip(*map(str.split, names), strict=True)) if len({*words}) > 1)
    words = [name.split()[place] for name in names]
    text = "/".join(words) if len(words) <= _MOST_NAMED else f"{words[0]}..{words[-1]}"
    held = names[0].split()
    return " ".join([*held[:place], text, *held[place + 1 :]])
