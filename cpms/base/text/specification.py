"""Specifications ``NAME:KEY=VALUE,…`` of graphs, matrices and controllers: text that becomes keyword arguments."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from cpms.base import plugins
from cpms.base.errors import InputError
from cpms.base.text.suggestions import unknown
from cpms.base.validation import described, shortened

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_ANY = "int | float | str"


def call(function: Callable[..., Any], spec: str, text: str) -> Any:
    """Call a function with the keyword arguments that ``text``, the part of ``spec`` behind the colon, gives.

    Raises
    ------
    InputError
        If a key or a value is not known or out of range; it says what is possible.

    Examples
    --------
    >>> def add(*, a: int, b: float = 0.5): return a + b
    >>> call(add, "add:a=2", "a=2")
    2.5
    """
    try:
        return function(**arguments(function, spec, text))
    except TypeError as error:
        raise InputError(f"{shortened(spec)}: {error}") from None


def call_plugin(function: Callable[..., Any], spec: str, text: str) -> Any:
    """Call a plug-in's function as `call` does; an error in its code becomes a sentence that names it."""
    given = arguments(function, spec, text)
    with plugins.running(function):
        return function(**given)


def split_plugin(group: str, spec: str) -> tuple[str, str]:
    """Return the name of a plug-in that a specification begins with, and the text of its arguments; empty for none.

    ``module:function`` is distinguished from ``NAME:VALUE`` by whether there is such a module.

    Examples
    --------
    >>> split_plugin("generators", "mine.py:ring:nodes=4,seed=1"), split_plugin("generators", "standin:adaptive")
    (('mine.py:ring', 'nodes=4,seed=1'), ('', ''))
    """
    first, _, rest = spec.partition(":")
    if first in plugins.declared(group):
        return first, rest
    second, _, text = rest.partition(":")
    name = f"{first}:{second}"
    is_named = plugins.is_reference(name) and (first.endswith(".py") or "." in first or _is_module(first))
    return (name, text) if is_named else ("", "")


def plugin(group: str, kind: str, spec: str, possible: Iterable[str]) -> tuple[Callable[..., Any], str]:
    """Return the function of a plug-in's specification, and the text of its arguments.

    ``kind`` is what an error calls it, and ``possible`` are the names that the error lists.
    """
    name, text = split_plugin(group, spec)
    function = plugins.load(group, name, Callable) if name else None
    if function is None:
        raise InputError(unknown(kind, spec.partition(":")[0], possible, ", or file.py:function"))
    return function, text


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def arguments(function: Callable[..., Any], spec: str, text: str) -> dict[str, Any]:
    """Return the keyword arguments that ``text`` gives, without calling the function."""
    parameters = [each for each in inspect.signature(function).parameters.values() if each.kind in _BY_NAME]
    name = getattr(function, "__name__", spec.partition(":")[0])
    known = {parameter.name: parameter for parameter in parameters}
    given: dict[str, Any] = {}
    for place, item in enumerate(items(spec, text)):
        key, equals, value = item.partition("=")
        if not equals or item.startswith("("):
            key, value = (parameters[0].name, item) if place == 0 and parameters else (item, "")
        key = key.strip()
        if key not in known or key in given:
            reason = "is given twice" if key in given else "is not known"
            raise InputError(
                f"{shortened(spec)}: {described(key)} {reason}; {name} takes {', '.join(known) or 'nothing'}"
            )
        given[key] = _value(spec, key, value.strip(), _annotation(known[key]))
    missing = [p.name for p in parameters if p.default is inspect.Parameter.empty and p.name not in given]
    if missing:
        raise InputError(f"{shortened(spec)}: {', '.join(missing)} must be given; {name} takes {', '.join(known)}")
    return given


def items(spec: str, text: str) -> list[str]:
    """Split the text of a specification at commas that are not inside parentheses; errors show the specification.

    Examples
    --------
    >>> items("copies", "of=(rmat:scale=8,seed=1),count=3")
    ['of=(rmat:scale=8,seed=1)', 'count=3']
    """
    found, depth, current = [], 0, ""
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            found.append(current)
            current = ""
        else:
            current += character
        if depth < 0:
            break
    if depth != 0:
        raise InputError(f"{shortened(spec)}: its parentheses do not match")
    return [item for item in [*found, current] if item]


def _annotation(parameter: inspect.Parameter) -> str:
    """Return the types of a parameter as text; without any, a number or else text."""
    return _ANY if parameter.annotation is inspect.Parameter.empty else str(parameter.annotation)


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
