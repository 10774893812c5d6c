"""Graph generators, one a file: a module here with a function of its own name is a generator.

A generator raises `cpms.InputError` where a name is not known, a number is missing or out of range, or the graph would
not fit in memory. The same arguments make the same graph, by random numbers of its ``seed``.

Generators of one's own are plug-ins: functions that return a graph, or what `cpms.load` takes for one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from cpms.base import plugins
from cpms.base.errors import InputError
from cpms.base.text import specification
from cpms.base.text.phases import phase
from cpms.base.validation import described
from cpms.graph.graph import Graph
from cpms.sources.in_memory import graph_of


def names() -> list[str]:
    """Return the names of all generators: those of the package, and entry points of the group ``cpms.generators``.

    Examples
    --------
    >>> "rmat" in names()
    True
    """
    return sorted({*_own(), *plugins.offered("generators")})


@cache
def _own() -> tuple[str, ...]:
    """Return the modules of this folder, which is read once: each check of a configuration asks for the names."""
    return tuple(sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_")))


def generate(spec: str) -> Graph:
    """Return the graph that ``NAME:KEY=VALUE,…`` describes.

    Values are those of the generator's keyword arguments; a value in parentheses may be a specification of its own, as
    in ``copies:of=(rmat:scale=8),count=3``. A first value without a key belongs to the generator's first argument, as
    in ``standin:adaptive``. NAME can be that of a plug-in: an entry point of the group ``cpms.generators``,
    ``module:function`` or ``file.py:function``.

    Parameters
    ----------
    spec : str
        Such as ``rmat:scale=16,seed=1``; docs/graphs.md has a table of all generators.

    Returns
    -------
    Graph

    Raises
    ------
    InputError
        If the generator, a key or a value is not known or out of range; it says what is possible.

    Examples
    --------
    >>> import cpms
    >>> cpms.generate("grid:rows=2,columns=3").edges
    7
    """
    if not isinstance(spec, str):
        raise InputError(f"generator is {described(spec)}; give text such as rmat:scale=16")
    name, _, text = spec.partition(":")
    if name in _own():
        generator: Callable[..., Graph] = getattr(import_module(f"cpms.sources.generators.{name}"), name)
        with phase(f"generating {name}"):
            made: Graph = specification.call(generator, spec, text)
        return made
    function, text = plugin(spec)
    with phase(f"generating {name}"):
        returned = specification.call_plugin(function, spec, text)
    try:
        found = graph_of(returned)
    except InputError as error:
        raise InputError(f"{plugins.described_plugin(function)} returned no graph: {error}") from None
    if found is None:
        raise InputError(
            f"{plugins.described_plugin(function)} returned {described(returned)}; it must return a cpms.Graph, "
            "a tuple of sources and targets, a data frame, or a sparse matrix"
        )
    return replace(found, name=spec, read=None) if found.name == Graph.name else found


def checked(spec: str) -> str:
    """Return a specification whose generator is known; the code of a plug-in runs, and nothing is made.

    Examples
    --------
    >>> checked("rmat:scale=4")
    'rmat:scale=4'
    """
    if spec.partition(":")[0] not in _own():
        plugin(spec)
    return spec


def plugin(spec: str) -> tuple[Callable[..., Any], str]:
    """Return the function of a plug-in's specification, and the text of its arguments."""
    return specification.plugin("generators", "generator", spec, names())
