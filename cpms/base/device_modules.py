"""The modules that serve arrays in device memory, by the service that each offers.

Rooms below the backends use these services and cannot import a backend. The package states the modules when it is
imported (dependency inversion), and the first device array loads them, so a machine without a GPU never does.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES: dict[str, str] = {}


def provide(**modules: str) -> None:
    """State the module of each service by its name."""
    _MODULES.update(modules)


def device_module(service: str) -> Any:
    """Return the module of a service, loaded at its first use.

    Examples
    --------
    >>> device_module("codec").__name__
    'cpms.backends.cuda.arrays.codec'
    """
    return import_module(_MODULES[service])
