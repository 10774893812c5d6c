"""Graph generators, one a file: a module here with a function of its own name is a generator."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules

from cpms.base.errors import InputError
from cpms.base.text.suggestions import unknown
from cpms.base.validation import described
from cpms.graph.graph import Graph
from cpms.base.text import specification


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
    made: Graph = specification.call(generator, spec, text)
    return made
