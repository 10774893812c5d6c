"""Customized precision for iterative solvers; the first solver is PageRank.

Names load when they are first used, so that ``import cpms`` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "CpmsError": "errors",
    "InputError": "errors",
    "UnavailableError": "errors",
    "UnsupportedError": "errors",
    "Graph": "graph",
}

if TYPE_CHECKING:
    from cpms.errors import CpmsError as CpmsError
    from cpms.errors import InputError as InputError
    from cpms.errors import UnavailableError as UnavailableError
    from cpms.errors import UnsupportedError as UnsupportedError
    from cpms.graph import Graph as Graph

__all__ = ["__version__", *sorted(_HOME)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"cpms.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'cpms' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
