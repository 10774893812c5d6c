"""Names of contestants: the parameters in which they differ, as short text; and contestants with the same marks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from cpms.base.text.counted import counted
from cpms.experiment.rows.series import TURNED_OFF

if TYPE_CHECKING:
    import pandas as pd

_OF_PROBLEMS = ("tol", "rhs", "pattern", "dtype", "k")
"""Parameters that may belong to the problem and not to the contestant.

They do if one contestant has several of their values on one graph. A tolerance does also if contestants differ in it,
since a looser tolerance is not a speed-up.
"""
_OF_PROBLEMS_OF = {"rounding": "storage", "spmv": "stage", "passes": "stage"}
"""Parameters that belong to the problem in a kind of experiment: the format of a conversion, the stage of the work."""
_TUNED = {"peers": "tol"}
"""Parameters that a kind sets for each contestant and graph, so that all errors are within one bound."""
_CHOSEN = {"method": ("used", ""), "storage": ("stored_as", "A "), "vectors_json": ("vectors_as_json", "vectors ")}
"""Parameters of linear solves, each with the column of the choice of ``auto``, and a word before it in labels."""
_AUTO = ("auto", '["auto"]')
_NEEDLESS = ("fixed",)
"""Parameters that labels have only where contestants differ in nothing else: many formats have one number of bits."""
_USUAL = ("work_group", "cores", "add", "read", "batch", "write_ahead", "indices", "compute", "vectors")
"""Parameters that the names in figures omit where a contestant has the value that most have."""
_ALIKE = ("device", "algorithm")
"""Parameters that the names in figures omit if all contestants with them have one value."""
_LEVEL = "read"
"""The parameter by which contestants are a series, whose members all have it in their names."""
_MOST_ALIKE = 150
"""Most characters of the names of contestants with the marks of others."""
_SPACED = {"local": "engine of each rank"}
"""Words for the columns of parameters whose names are no words."""


def split_parameters(lines: list[tuple[Any, dict[str, Any]]], differing: list[str]) -> tuple[list[str], list[str]]:
    """Return the parameters of the problem, and those that differ from graph to graph but not on one graph."""
    of_problems, of_graphs = list[str](), list[str]()
    candidates = {*_OF_PROBLEMS, *(_OF_PROBLEMS_OF.get(str(line.get("kind"))) for _, line in lines)}
    for name in [each for each in differing if each in candidates]:
        on_graph, anywhere = dict[Any, set[str]](), dict[Any, set[str]]()
        for graph, line in lines:
            others = tuple(str(line.get(other)) for other in differing if other != name)
            on_graph.setdefault((graph, () if name == "tol" else others), set()).add(str(line.get(name)))
            anywhere.setdefault(others, set()).add(str(line.get(name)))
        tuned = all(_TUNED.get(str(line.get("kind"))) == name for _, line in lines)
        if not tuned and any(len(values) > 1 for values in on_graph.values()):
            of_problems.append(name)
        elif tuned or any(len(values) > 1 for values in anywhere.values()):
            of_graphs.append(name)
    return of_problems, of_graphs


def is_tuned(found: pd.DataFrame) -> bool:
    """Return whether each result has a tolerance of its own, so that its error is within one bound of all."""
    return {_TUNED.get(kind) for kind in found.kind} == {"tol"}


def labels(lines: list[dict[str, Any]], names: list[str], chosen: dict[str, set[str]]) -> dict[tuple[str, ...], str]:
    """Return the labels of contestants; for linear solves by ``auto``, with the choices that are always the same."""
    plain = {key_of(line, names): _words(line, names, chosen) or _of_default(line, names) for line in lines}
    taken = dict[tuple[str, ...], dict[str, set[str]]]()
    found = dict(plain)
    for line in lines:
        key = key_of(line, names)
        free = [name for name in names if line.get(name) in _AUTO and name in _CHOSEN and "used" in line]
        stored = ["storage"] if "used" in line and "storage" not in names else []
        if not free and not stored:
            continue
        for name in [*free, *stored]:
            column, word = _CHOSEN[name]
            text = word + _word(column, line[column], set()) if column in line else ""
            taken.setdefault(key, {}).setdefault(name, set()).add(text)
        alike = ", ".join(text for texts in taken[key].values() if len(texts) == 1 for text in texts if text)
        asked = _words(line, [name for name in names if name not in free], chosen)
        word = "" if alike or len(free) != 1 else _CHOSEN[free[0]][1]  # The parameter that is ``auto``.
        found[key] = " ".join(filter(None, [asked, word + "auto" if free else "", f"({alike})" if alike else ""]))
    chosen_labels = found if len(set(found.values())) == len(set(plain.values())) else plain
    counts = Counter(chosen_labels.values())
    return {key: text if counts[text] == 1 else _with_names(key, names) for key, text in chosen_labels.items()}


def _with_names(key: tuple[str, ...], names: list[str]) -> str:
    """Return a contestant's parameters with their names, where the values alone are those of another one."""
    return " ".join(f"{spaced(name)}={value}" for name, value in zip(names, key, strict=True) if value != "None")


def short_labels(
    lines: list[dict[str, Any]], names: list[str], called: dict[tuple[str, ...], str]
) -> tuple[dict[tuple[str, ...], str], dict[str, str]]:
    """Return the names of contestants without usual values, and the value that is omitted of each parameter.

    A name that another contestant would have, too, remains as it is. Where a format is read at several levels, its
    names have the level, and none is called omitted.

    Parameters
    ----------
    lines : list of dict
        Flattened results.
    names : list of str
        The parameters in which contestants differ.
    called : dict
        The result of `labels`.

    Examples
    --------
    >>> lines = [{"engine": "a", "batch": 0}, {"engine": "b", "batch": 0}, {"engine": "b", "batch": 50}]
    >>> short, omitted = short_labels(lines, ["engine", "batch"], labels(lines, ["engine", "batch"], {}))
    >>> [*short.values()], omitted
    (['a', 'b', 'b batch=50'], {'batch': '0'})
    """
    firsts = {key: line for line in lines for key in [key_of(line, names)]}
    if any("used" in line for line in lines):  # Names of linear solves by ``auto`` hold its choices.
        return called, {}
    omitted = _usual_values([*firsts.values()], names)
    short = {}
    for key, line in firsts.items():
        kept = dict(line)
        for name, value in omitted.items():
            if name == _LEVEL and _has_levels(line, [*firsts.values()], names):
                continue
            if str(line.get(name)) == value:
                del kept[name]
            elif isinstance(line.get(name), str) and name not in _ALIKE and not line[name].startswith(name):
                kept[name] = f"{name}={line[name]}"
        short[key] = _words(kept, names, {})
    counts = Counter(short.values())
    if any(_has_levels(line, [*firsts.values()], names) for line in firsts.values()):
        omitted = {name: value for name, value in omitted.items() if name != _LEVEL}
    return {key: text if text and counts[text] == 1 else called[key] for key, text in short.items()}, omitted


def _usual_values(lines: list[dict[str, Any]], names: list[str]) -> dict[str, str]:
    """Return the value that most contestants have of each parameter that names may omit."""
    found = dict[str, str]()
    of_products = all(line.get("kind") == "product" for line in lines)
    for name in names:
        values = Counter(str(line[name]) for line in lines if line.get(name) is not None)
        may_omit = name in _USUAL and (of_products or name != "vectors")
        if values and (may_omit or (name in _ALIKE and len(values) == 1)):
            found[name] = values.most_common(1)[0][0]
    return found


def _has_levels(line: dict[str, Any], lines: list[dict[str, Any]], names: list[str]) -> bool:
    """Return whether another contestant differs from one in the level that it reads alone."""
    others = [name for name in names if name != _LEVEL]
    return sum(key_of(each, others) == key_of(line, others) for each in lines) > 1


def own_name(line: dict[str, Any]) -> str:
    """Return the name of a contestant that is compared with none, whose label would be empty."""
    names = ("name", "contestant", "engine", "method", "storage", "layout")
    return " ".join(str(line[name]) for name in names if isinstance(line.get(name), str))


def without_needless(table: pd.DataFrame, names: list[str]) -> list[str]:
    """Return the names of differing parameters without those that no label needs."""
    for needless in [name for name in names if name in _NEEDLESS]:
        fewer = [name for name in names if name != needless]
        if fewer and len(table[fewer].astype(str).drop_duplicates()) == len(table[names].astype(str).drop_duplicates()):
            names = fewer
    return names


def spaced(column: str) -> str:
    """Return the name of a parameter's column as words."""
    if column in _SPACED:
        return _SPACED[column]
    return column.removesuffix("_json").replace("_", " ")


def chosen_by_default(column: pd.Series[Any]) -> set[str]:
    """Return the keys that are null in some of a column's JSON objects: null leaves the choice to cpms.

    For such a key, false means that it is turned off, which a label must state.
    """
    held = [json.loads(each) for each in column.dropna().unique() if each.startswith("{")]
    return {key for each in held for key, value in each.items() if value is None}


def key_of(line: dict[str, Any], names: list[str]) -> tuple[str, ...]:
    """Return the values of parameters as texts, which are a key of the result of `labels`."""
    return tuple(str(line.get(name)) for name in names)


def _words(line: dict[str, Any], names: list[str], chosen: dict[str, set[str]]) -> str:
    """Return parameters as text; for linear solves, with words before the formats of matrix and vectors."""
    before = {name: word for name, (_, word) in _CHOSEN.items()} if "used" in line else {}
    words = [(before.get(name, ""), _word(name, line[name], chosen.get(name, set()))) for name in names if name in line]
    return " ".join(before + word for before, word in words)


def _word(name: str, value: object, chosen: set[str]) -> str:
    """Return a parameter as text; for a JSON object, its keys that are set, and those that are off (``chosen``)."""
    if isinstance(value, str) and name.endswith("_json"):
        held = json.loads(value)
        if not isinstance(held, dict):
            return "+".join(map(str, held))
        off = {key for key, each in held.items() if key in chosen and each is not None and not each}
        rule = [str(held.pop("rule"))] if held.get("rule") else []
        parts = [*rule, *(key if each is True else f"{key}={_brief(each)}" for key, each in held.items() if each)]
        return "+".join([*parts, *(f"no {key}" for key in held if key in off)])
    if name == "device":  # PoCL's name also contains the processor and its instructions.
        return "CPU" if str(value).startswith("cpu-") else str(value).removeprefix("NVIDIA ")
    if isinstance(value, bool) and (value or name in TURNED_OFF):
        return spaced(name) if value else f"no {spaced(name)}"
    return value if isinstance(value, str) else f"{name}={value}"


def _of_default(line: dict[str, Any], names: list[str]) -> str:
    """Return a label for a contestant all of whose differing parameters are tables without a key, else nothing."""
    empty = [spaced(name) for name in names if line.get(name) == "{}"]
    return f"default {', '.join(empty)}" if empty else ""


def _brief(value: object) -> str:
    return ",".join(f"{key}:{each}" for key, each in value.items()) if isinstance(value, dict) else str(value)


def drawn_once(found: pd.DataFrame, column: str, base: str | None) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Return the results without contestants whose marks are all those of another one, and these by that one.

    Parameters
    ----------
    found : pandas.DataFrame
        Columns ``called``, ``case``, ``bits``, and ``column``, which has a logarithmic axis.
    column : str
    base : str, optional
        The baseline, which remains.

    Examples
    --------
    >>> import pandas as pd
    >>> marks = pd.DataFrame({"called": ["a", "b", "c"], "case": "g", "bits": 64.0, "error": [1e-9, 1.01e-9, 2e-9]})
    >>> kept, alike = drawn_once(marks, "error", "b")
    >>> [*kept.called], alike
    (['b', 'c'], {'b': ['a']})
    """
    marks = [*zip(found.case, found.bits.round(1).map(str), np.log10(found[column]).round(1).map(str), strict=True)]
    held = dict[str, set[tuple[str, ...]]]()
    for name, mark in zip(found.called, marks, strict=True):
        held.setdefault(name, set()).add(mark)
    drawn = dict[frozenset[tuple[str, ...]], list[str]]()
    for name in sorted(held, key=lambda name: name != base):
        drawn.setdefault(frozenset(held[name]), []).append(name)
    alike = {first: others for first, *others in drawn.values()}
    return found[found.called.isin([*alike])], {name: others for name, others in alike.items() if others}


def alike_in_words(alike: dict[str, list[str]], drawn: Collection[str]) -> str:
    """Return a text about contestants that are not drawn, as their marks are those of another one.

    It names them beside that one; if this is too long, it gives their number.

    Parameters
    ----------
    alike : dict
        The result of `drawn_once`.
    drawn : collection of str
        The contestants in the figure; those with the marks of others are left out with these.

    Examples
    --------
    >>> alike_in_words({"a": ["b", "c"], "d": ["e"]}, ["a", "d"])
    '; not drawn, with the marks of a: b, c; of d: e'
    >>> alike_in_words({"a": [f"contestant-{number}" for number in range(20)], "d": ["e"]}, ["a"])
    '; not drawn, with the marks of a: 20 contestants; of those left out: 1 contestant'
    """
    shown = {name: others for name, others in alike.items() if name in drawn}
    left = sum(map(len, alike.values())) - sum(map(len, shown.values()))
    of_left = [f"of those left out: {counted(left, 'contestant')}"] * (left > 0)
    texts = (
        [*(f"of {name}: {', '.join(others)}" for name, others in shown.items()), *of_left],
        [*(f"of {name}: {counted(len(others), 'contestant')}" for name, others in shown.items()), *of_left],
        [f"of others: {counted(sum(map(len, alike.values())), 'contestant')}"],
    )
    text = next((text for each in texts[:-1] if len(text := "; ".join(each)) <= _MOST_ALIKE), "; ".join(texts[-1]))
    return f"; not drawn, with the marks {text}" if alike else ""
