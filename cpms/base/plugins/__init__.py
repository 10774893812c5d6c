"""Plug-ins: objects that are found by entry points, or by the module or file and the attribute that name them.

A plug-in is named in one of three ways: by an entry point of a group such as ``cpms.formats``, which an installed
package declares; as ``module:attribute``; or as ``file.py:attribute``, of a file relative to the current folder.
Loading one runs its code, which is logged and announced, and which `allowed` refuses. What was loaded is remembered
with its version and a digest of its file, for the rows of experiments; errors of its code name it.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from cpms.base.errors import CpmsError, InputError
from cpms.base.plugins.modules import digest, digests, imported, module_name
from cpms.base.plugins.modules import sentence as sentence
from cpms.base.validation import shortened

if TYPE_CHECKING:
    from importlib import metadata

GROUPS = (
    *("formats", "controllers", "engines", "layouts", "generators", "matrices", "solvers", "show_programs"),
    "experiment_kinds",
)
"""Groups of entry points, each after ``cpms.``."""
_PATH = r"(?! )[\w\u0300-\u036f./\\~ -]+\.py"
_DOTTED = r"[A-Za-z_][A-Za-z0-9_.]*"
_REFERENCE = re.compile(rf"(?P<home>{_PATH}|{_DOTTED}):(?P<attribute>{_DOTTED})")
_FILE = re.compile(_PATH)
_DECLARED = re.compile(r"(?P<home>[A-Za-z_][\w.]*)(?::(?P<attribute>[A-Za-z_][\w.]*))?", re.ASCII)
_SPOKEN = {"Callable": "function", "ModuleType": "module", "SimpleNamespace": "namespace"}
_log = logging.getLogger("cpms")


@dataclass(frozen=True)
class Origin:
    """Where a plug-in came from.

    Parameters
    ----------
    name : str
        As it was named.
    group : str
        One of `GROUPS`.
    version : str or None
        Of the distribution that declares or holds it.
    sha256 : str or None
        Of the file that defines it, when it was loaded.
    """

    name: str
    group: str
    version: str | None
    sha256: str | None


@dataclass
class _State:
    """What the process knows of plug-ins.

    ``found`` holds loaded objects by group, module and attribute, ``names`` their names by identity, and ``notes`` the
    plug-ins that each `noted` block has loaded.
    """

    allowed: bool = True
    announce: Callable[[str], None] | None = None
    announced: set[str] = field(default_factory=set)
    found: dict[tuple[str, str, str | None], Any] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    origins: dict[Origin, None] = field(default_factory=dict)
    notes: list[dict[Origin, None]] = field(default_factory=list)


_state = _State()


def is_reference(name: str) -> bool:
    """Return whether a name has the form ``module:attribute`` or ``file.py:attribute``.

    Examples
    --------
    >>> is_reference("mine.py:FORMAT"), is_reference("package.module:f"), is_reference("rmat:scale=4")
    (True, True, False)
    >>> is_reference("meine Läufe/löser.py:solve")
    True
    """
    return _REFERENCE.fullmatch(name) is not None


@contextmanager
def allowed(run_code: bool, announce: Callable[[str], None] | None = None) -> Iterator[None]:
    """Refuse plug-ins within the context, or allow them where they are not refused already.

    Parameters
    ----------
    run_code : bool
    announce : callable, optional
        Called with a sentence before the code of a plug-in runs, once for each plug-in.
    """
    before = _state.allowed, _state.announce, _state.announced
    _state.allowed = _state.allowed and run_code
    if announce is not None:
        _state.announce, _state.announced = announce, set()
    try:
        yield
    finally:
        _state.allowed, _state.announce, _state.announced = before


@contextmanager
def noted() -> Iterator[dict[Origin, None]]:
    """Yield the plug-ins that the block has asked for so far, in this order."""
    notes: dict[Origin, None] = {}
    _state.notes.append(notes)
    try:
        yield notes
    finally:
        _state.notes = [each for each in _state.notes if each is not notes]


def used() -> list[dict[str, str | None]]:
    """Return the plug-ins that this process has loaded: their names, groups, versions and digests, by name."""
    return as_columns(_state.origins)


def as_columns(origins: dict[Origin, None]) -> list[dict[str, str | None]]:
    """Return plug-ins as a row records them, by name."""
    return sorted((vars(origin) for origin in origins), key=lambda one: (str(one["name"]), str(one["group"])))


@lru_cache(maxsize=len(GROUPS))
def declared(group: str) -> dict[str, metadata.EntryPoint]:
    """Return the entry points of a group by their names."""
    from importlib import metadata

    return {point.name: point for point in metadata.entry_points(group=f"cpms.{group}")}


def offered(group: str) -> list[str]:
    """Return the names of a group's entry points, none where plug-ins are refused."""
    return list(declared(group)) if _state.allowed else []


def is_named(group: str, name: str) -> bool:
    """Return whether a name is that of an entry point, or a reference."""
    return name in declared(group) or is_reference(name)


def called(plugin: object) -> str | None:
    """Return the name by which an object, or its class, was loaded as a plug-in; None if it was not."""
    return _state.names.get(id(plugin)) or _state.names.get(id(type(plugin)))


def origins_of(plugin: object) -> list[dict[str, str | None]]:
    """Return where an object came from that was loaded as a plug-in, as a row records it; nothing for any other."""
    return as_columns({origin: None for origin in _state.origins if origin.name == called(plugin)})


def described_plugin(plugin: object, otherwise: str | None = None) -> str:
    """Return how an error names an object of a user: as a plug-in, or ``otherwise``, or by its own name or its class.

    Examples
    --------
    >>> described_plugin([3]), described_plugin(shortened)
    ('list', 'shortened')
    """
    name = called(plugin)
    own: str = getattr(plugin, "__name__", type(plugin).__name__)
    return (otherwise or own) if name is None else f"plug-in {shortened(name)}"


class running:  # noqa: N801 - used as a function; a generator takes longer to enter, in every sweep
    """Turn an error in the code of a plug-in into a sentence that names it; errors of other objects pass."""

    def __init__(self, plugin: object) -> None:
        self._plugin = plugin

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or called(self._plugin) is None:
            return
        who = described_plugin(self._plugin)
        if isinstance(error, InputError):
            if who not in str(error):
                raise InputError(f"{who}: {error}") from error
        elif isinstance(error, Exception | SystemExit) and not isinstance(error, CpmsError | MemoryError):
            raise InputError(f"{who} failed: {sentence(error)}") from error


def load(group: str, name: str, kinds: Any) -> Any | None:
    """Return the plug-in of a name, made if it is a class; None if the name is neither declared nor a reference.

    Parameters
    ----------
    group : str
        One of `GROUPS`.
    name : str
        Of an entry point, or a reference.
    kinds : type or tuple of types
        What the plug-in must be an instance of; `collections.abc.Callable` stands for functions.

    Raises
    ------
    InputError
        If it cannot be loaded, is no such object, or plug-ins are refused.
    """
    point = declared(group).get(name)
    if point is None and not is_reference(name):
        if _FILE.fullmatch(name) and Path(name).is_file():
            raise InputError(f"{shortened(name)} is a file; name an attribute of it, as in {shortened(name)}:NAME")
        return None
    what = _require_allowed(group, name)
    match = _REFERENCE.fullmatch(name) if point is None else _DECLARED.fullmatch(point.value.strip())
    if match is None:
        raise InputError(f"{what} is declared as {point.value if point else name!r}; give module:attribute")
    version = point.dist.version if point is not None and point.dist is not None else None
    return _loaded(group, name, match["home"], match["attribute"], kinds, version)


def load_file(group: str, file: str) -> ModuleType:
    """Return the module of a file that is a plug-in as a whole, as `load` does."""
    _require_allowed(group, file)
    module: ModuleType = _loaded(group, file, file, None, ModuleType, None)
    return module


def _require_allowed(group: str, name: str) -> str:
    """Return how errors name a plug-in; refuse it where plug-ins are refused."""
    what = f"plug-in {shortened(name)} of cpms.{group}"
    if not _state.allowed:
        raise InputError(f"{what} would run code, which --no-plugins refuses; leave the option out, or the plug-in")
    return what


def _loaded(group: str, name: str, home: str, attribute: str | None, kinds: Any, version: str | None) -> Any:
    """Return a plug-in, imported anew where its file has changed, and note that it was asked for."""
    what = f"plug-in {shortened(name)} of cpms.{group}"
    if home.endswith(".py"):
        home = str(Path(home).expanduser().resolve())
        if home in digests and digests[home] != digest(home):
            sys.modules.pop(module_name(home), None)
            for changed in [key for key in _state.found if key[1] == home]:
                before = _state.found.pop(changed)
                for one in (before, type(before)):
                    _state.names.pop(id(one), None)
    elif version is None:
        version = _version_of(home.partition(".")[0])
    _announce(what, home)
    key = group, home, attribute
    if key not in _state.found:
        _state.found[key] = _object(what, home, attribute, kinds)
    found = _state.found[key]
    _state.names[id(found)] = name
    if type(found).__module__ == module_name(home):
        _state.names.setdefault(id(type(found)), name)
    origin = Origin(name, group, version, digests[home])
    for notes in (_state.origins, *_state.notes):
        notes[origin] = None
    return found


def _announce(what: str, home: str) -> None:
    sentence = f"{what} runs code of {home}"
    if _state.announce is not None and sentence not in _state.announced:
        _state.announced.add(sentence)
        _state.announce(sentence)


def _object(what: str, home: str, attribute: str | None, kinds: Any) -> Any:
    """Return an attribute of a module that is imported for it, checked and made if it is a class."""
    try:
        found: Any = imported(home)
    except CpmsError as error:
        raise InputError(f"{what}: {error}") from None
    except (Exception, SystemExit) as error:
        near = f"; name the file, as in {home}.py:{attribute}" if Path(f"{home}.py").is_file() else ""
        raise InputError(f"{what} cannot be imported ({sentence(error)}){near}") from error
    _log.info("cpms: %s runs code of %s", what, home)
    try:
        for part in attribute.split(".") if attribute else ():
            found = getattr(found, part)
    except AttributeError:
        raise InputError(f"{what}: there is no attribute {attribute!r}{_attributes_of(home, kinds)}") from None
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    is_class = isinstance(found, type)
    if is_class and issubclass(found, kinds):
        try:
            found = found()
        except CpmsError as error:
            raise InputError(f"{what}: {error}") from None
        except Exception as error:
            raise InputError(f"{what} cannot be made without arguments ({sentence(error)})") from error
    elif is_class or not isinstance(found, kinds):
        wanted = " or ".join(_SPOKEN.get(kind.__name__, kind.__name__) for kind in kinds)
        is_what = f"the class {found.__name__}" if is_class else type(found).__name__
        article = "an" if wanted[0] in "AEIOU" else "a"
        raise InputError(f"{what} is {is_what}; it must be {article} {wanted}")
    return found


def _attributes_of(home: str, kinds: Any) -> str:
    """Return, for an error, which attributes that a module defines could be meant."""
    module = imported(home)
    own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    possible = [
        name
        for name, value in own.items()
        if getattr(value, "__module__", module.__name__) == module.__name__
        and (isinstance(value, kinds) or (isinstance(value, type) and issubclass(value, kinds)))
    ]
    return f"; it has {shortened(', '.join(possible))}" if possible else ""


@lru_cache
def _version_of(package: str) -> str | None:
    """Return the version of the distribution that holds a package."""
    from importlib import metadata

    holders = metadata.packages_distributions().get(package)
    return metadata.version(holders[0]) if holders else None
