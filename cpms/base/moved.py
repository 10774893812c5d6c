"""Old import paths: lazy re-export of names from their new modules, with a deprecation warning, for one release.

The module attributes ``__getattr__`` and ``__dir__`` (PEP 562) import a new module at the first use of a name, so an
old path costs nothing until then.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def moved(old: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a module whose names have moved.

    Parameters
    ----------
    old : str
        The module's name.
    homes : mapping of str to str
        Each name and the module that defines it now.

    Examples
    --------
    >>> import warnings
    >>> find, _ = moved("cpms.old", {"InputError": "cpms.base.errors"})
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     find("InputError").__name__
    'InputError'
    >>> str(caught[0].message)
    'cpms.old.InputError has moved to cpms.base.errors; the old path goes with the next release'
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        message = f"{old}.{name} has moved to {homes[name]}; the old path goes with the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
        return getattr(import_module(homes[name]), name)

    return find, lambda: sorted(homes)
