"""Graph generators, one a file: a module here with a function of its own name is a generator."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from cpms.base.errors import InputError
from cpms.base.text.suggestions import unknown
from cpms.base.validation import described, shortened
from cpms.graph.graph import Graph


def names() -> list[str]:
    """Return the names of all generators.

    Examples
    --------
    >>> "rmat" in names()
    True
    """
    return sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))


def generate(spec: str) -> Graph:
    """Return the graph that ``NAME:KEY=VALUE,…`` describes.

    Values are those of the generator's keyword arguments; a value in parentheses may be a
    specification of its own, as in ``copies:of=(rmat:scale=8),count=3``. A first value without a
    key belongs to the generator's first argument, as in ``standin:adaptive``.

    Raises
    ------
    InputError
        If the generator, a key or a value is not known or out of range; it says what is possible.

    Examples
    --------
    >>> generate("grid:rows=2,columns=3").edges
    7
    """
    if not isinstance(spec, str):
        raise InputError(f"generator is {described(spec)}; give text such as rmat:scale=16")
    name, _, text = spec.partition(":")
    if name not in names():
        raise InputError(unknown("generator", name, names()))
    generator: Callable[..., Graph] = getattr(import_module(f"cpms.sources.generators.{name}"), name)
    given = _arguments(spec, text, list(inspect.signature(generator).parameters.values()))
    try:
        return generator(**given)
    except TypeError as error:
        raise InputError(f"{shortened(spec)}: {error}") from None


def _arguments(spec: str, text: str, parameters: list[inspect.Parameter]) -> dict[str, Any]:
    known = {parameter.name: parameter for parameter in parameters}
    given: dict[str, Any] = {}
    for place, item in enumerate(_items(spec, text)):
        key, equals, value = item.partition("=")
        if not equals or item.startswith("("):
            key, value = (parameters[0].name, item) if place == 0 else (item, "")
        key = key.strip()
        if key not in known or key in given:
            reason = "is given twice" if key in given else "is not known"
            raise InputError(
                f"{shortened(spec)}: {described(key)} {reason}; {spec.partition(':')[0]} takes {', '.join(known)}"
            )
        given[key] = _value(spec, key, value.strip(), str(known[key].annotation))
    missing = [p.name for p in parameters if p.default is inspect.Parameter.empty and p.name not in given]
    if missing:
        raise InputError(
            f"{shortened(spec)}: {', '.join(missing)} must be given; {spec.partition(':')[0]} takes {', '.join(known)}"
        )
    return given


def _items(spec: str, text: str) -> list[str]:
    """Split at commas that are not inside parentheses."""
    items, depth, current = [], 0, ""
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            items.append(current)
            current = ""
        else:
            current += character
        if depth < 0:
            break
    if depth != 0:
        raise InputError(f"{shortened(spec)}: its parentheses do not match")
    return [item for item in [*items, current] if item]


def _value(spec: str, key: str, value: str, annotation: str) -> Any:
    if value.startswith("(") and value.endswith(")"):
        value = value[1:-1]
    kinds: list[tuple[str, str, Callable[[str], Any]]] = [
        ("int", r"[+-]?\d{1,40}", int),
        ("float", r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", float),
    ]
    for kind, form, convert in kinds:
        if kind in annotation and re.fullmatch(form, value):
            return convert(value)
    if "str" in annotation:
        return value
    possible = "a number" if annotation == "float" else "a whole number"
    raise InputError(f"{shortened(spec)}: {key} is {described(value)}; it must be {possible}")
