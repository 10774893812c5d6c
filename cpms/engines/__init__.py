"""Engines, one a file: a module here that defines ``ENGINE`` is an engine of that name."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from cpms.engine import Engine, Problem
from cpms.errors import InputError, UnavailableError
from cpms.format import FP64, Format

PREFERRED = ("cuda", "cuda_fused", "cpu")
"""What ``auto`` looks at, in this order."""


def names() -> list[str]:
    """Return the names of all engines, installed libraries or not.

    Examples
    --------
    >>> "cpu" in names()
    True
    """
    return sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))


def get(name: str) -> Engine:
    """Return an engine by name; ``auto`` is ``cuda`` where a device is there, else ``cpu``.

    Raises
    ------
    InputError
        If there is no engine of that name.
    UnavailableError
        If this machine cannot run it.
    """
    if name == "auto":
        return get("cpu" if get_any("cuda").missing() else "cuda")
    if name not in names():
        raise InputError(f"engine {name!r} is not known; it can be auto or one of {', '.join(names())}")
    engine = get_any(name)
    missing = engine.missing()
    if missing:
        raise UnavailableError(f"engine {name} cannot run here: {missing}")
    return engine


def get_any(name: str) -> Engine:
    """Return an engine by name, whether this machine can run it or not."""
    engine: Engine = import_module(f"cpms.engines.{name}").ENGINE
    return engine


def automatic(problem: Problem, storage: Format, layout: str, method: str) -> Engine:
    """Return the engine that ``auto`` stands for: the first of `PREFERRED` that can do this here.

    That is one of a CUDA device, where there is one, it has the method, and the graph fits in its
    memory; else ``cpu``.

    Examples
    --------
    >>> from cpms import CPMS2, Graph
    >>> automatic(Problem(Graph.from_edges([0], [1])), CPMS2, "csr", "power").name in PREFERRED
    True
    """
    if method == "refine":  # It keeps its matrix as float64 power iteration does.
        storage, layout = FP64, "pattern"
    for name in PREFERRED[:-1]:
        engine = get_any(name)
        if method in engine.methods and not engine.missing() and not engine.unsupported(problem, storage, layout):
            return engine
    return get(PREFERRED[-1])
