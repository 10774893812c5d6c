"""Plug-ins: objects that are found by entry points, or by the module or file and the attribute that name them.

A plug-in is named in one of three ways: by an entry point of a group such as ``cpms.formats``, which an installed
package declares; as ``module:attribute``; or as ``file.py:attribute``, of a file relative to the current folder.
Loading one runs its code, which is logged, and which `allowed` refuses. What was loaded is remembered with its version
and a digest of its file, for the rows of experiments.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cpms.base.errors import CpmsError, InputError
from cpms.base.validation import shortened

if TYPE_CHECKING:
    from importlib import metadata

GROUPS = ("formats", "controllers", "engines", "experiment_kinds")
"""Groups of entry points, each after ``cpms.``."""
_REFERENCE = re.compile(r"(?P<home>[\w./\\~-]+\.py|[A-Za-z_][\w.]*):(?P<attribute>[A-Za-z_][\w.]*)", re.ASCII)
_log = logging.getLogger("cpms")
_state = {"allowed": True}


@dataclass(frozen=True)
class Origin:
    """Where a plug-in came from.

    Parameters
    ----------
    name : str
        As it was named.
    version : str or None
        Of the distribution that declares it.
    sha256 : str or None
        Of the file that defines it.
    """

    name: str
    version: str | None
    sha256: str | None


_loaded: dict[str, Origin] = {}


def is_reference(name: str) -> bool:
    """Return whether a name has the form ``module:attribute`` or ``file.py:attribute``.

    Examples
    --------
    >>> is_reference("mine.py:FORMAT"), is_reference("package.module:f"), is_reference("rmat:scale=4")
    (True, True, False)
    """
    return _REFERENCE.fullmatch(name) is not None


@contextmanager
def allowed(run_code: bool) -> Iterator[None]:
    """Refuse plug-ins within the context, or allow them."""
    before = _state["allowed"]
    _state["allowed"] = run_code
    try:
        yield
    finally:
        _state["allowed"] = before


def used() -> list[dict[str, str | None]]:
    """Return the plug-ins that were loaded: their names, versions and digests, by name."""
    return [vars(origin) for _, origin in sorted(_loaded.items())]


@lru_cache(maxsize=len(GROUPS))
def declared(group: str) -> dict[str, metadata.EntryPoint]:
    """Return the entry points of a group by their names."""
    from importlib import metadata

    return {point.name: point for point in metadata.entry_points(group=f"cpms.{group}")}


def load(group: str, name: str, kinds: type[Any] | tuple[type[Any], ...]) -> Any | None:
    """Return the plug-in of a name, made if it is a class; None if the name is neither declared nor a reference.

    Parameters
    ----------
    group : str
        One of `GROUPS`.
    name : str
        Of an entry point, or a reference.
    kinds : type or tuple of types
        What the plug-in must be an instance of.

    Raises
    ------
    InputError
        If it cannot be loaded, is no such object, or plug-ins are refused.
    """
    point = declared(group).get(name)
    if point is None and not is_reference(name):
        return None
    what = f"plug-in {shortened(name)} of cpms.{group}"
    if not _state["allowed"]:
        raise InputError(f"{what} would run code, which --no-plugins refuses; leave the option out, or the plug-in")
    match = _REFERENCE.fullmatch(name if point is None else point.value)
    if match is None:
        raise InputError(f"{what} is declared as {point.value if point else name!r}; give module:attribute")
    try:
        module = _module(match["home"])
        found: Any = module
        for part in match["attribute"].split("."):
            found = getattr(found, part)
        if isinstance(found, type) and issubclass(found, kinds):
            found = found()
    except AttributeError as error:
        raise InputError(f"{what}: there is no attribute {match['attribute']!r} ({error})") from None
    except CpmsError as error:
        raise InputError(f"{what}: {error}") from None
    except Exception as error:
        raise InputError(f"{what} cannot be imported ({type(error).__name__}: {shortened(str(error))})") from error
    if not isinstance(found, kinds):
        wanted = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
        raise InputError(f"{what} is {type(found).__name__}; it must be a {wanted}")
    if name not in _loaded:
        version = point.dist.version if point is not None and point.dist is not None else None
        file = getattr(module, "__file__", None)
        digest = hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else None
        _loaded[name] = Origin(name, version, digest)
        _log.info("cpms: code of plug-in %s runs, of %s", name, file)
    return found


def _module(home: str) -> ModuleType:
    """Return a module by its name, or that of a file, which is read once."""
    if not home.endswith(".py"):
        return import_module(home)
    path = Path(home).expanduser().resolve()
    name = f"cpms_plugin_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
