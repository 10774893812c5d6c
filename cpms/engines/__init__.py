"""Engines, one a file: a module here that defines ``ENGINE`` is an engine of that name."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from cpms.engine import Engine
from cpms.errors import InputError, UnavailableError


def names() -> list[str]:
    """Return the names of all engines, installed libraries or not.

    Examples
    --------
    >>> "cpu" in names()
    True
    """
    return sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))


def get(name: str) -> Engine:
    """Return an engine by name; ``auto`` is the fastest that runs here.

    Raises
    ------
    InputError
        If there is no engine of that name.
    UnavailableError
        If this machine cannot run it.
    """
    if name == "auto":
        return get("cpu")
    if name not in names():
        raise InputError(f"engine {name!r} is not known; it can be auto or one of {', '.join(names())}")
    engine: Engine = import_module(f"cpms.engines.{name}").ENGINE
    missing = engine.missing()
    if missing:
        raise UnavailableError(f"engine {name} cannot run here: {missing}")
    return engine
