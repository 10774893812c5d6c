"""Modules of plug-ins: a module by its name, or that of a file, with its digest; and errors with their place in one.

A file is compiled as it is now, and its digest is taken before its code runs, so that rows state the code that ran.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import sys
from importlib import import_module
from pathlib import Path
from traceback import walk_tb
from types import CodeType, ModuleType, TracebackType

from cpms.base.errors import InputError
from cpms.base.plugins.siblings import importable
from cpms.base.validation import shortened

digests: dict[str, str | None] = {}
"""Digest of each module that plug-ins came from, by its name or file."""


def module_name(home: str) -> str:
    """Return the name under which a module, or that of a file, is imported."""
    return f"cpms_plugin_{hashlib.sha256(home.encode()).hexdigest()[:12]}" if home.endswith(".py") else home


class _SourceLoader(importlib.machinery.SourceFileLoader):
    """Compiles the file as it is now: cached bytecode serves a file that changed within a second and kept its size."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        return self.source_to_code(self.get_data(self.path), self.path)


def imported(home: str) -> ModuleType:
    """Return a module by its name, or that of a file, which is read once; its digest is taken before its code runs."""
    name = module_name(home)
    if home.endswith(".py"):
        if name in sys.modules:
            return sys.modules[name]
        path = Path(home)
        if not path.is_file():
            raise InputError(f"there is no file {path}")
        spec = importlib.util.spec_from_file_location(name, path, loader=_SourceLoader(name, home))
        if spec is None or spec.loader is None:
            raise InputError(f"{path} is no Python file")
        digests[home] = digest(home)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            with importable(path.parent):
                spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module
    digests.setdefault(home, None)
    found = import_module(home)
    digests[home] = digests[home] or digest(getattr(found, "__file__", None))
    return found


def digest(file: str | None) -> str | None:
    """Return the digest of a file; None if there is none, or it cannot be read."""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else None
    except OSError:
        return None


def sentence(error: BaseException) -> str:
    """Return an error as text, with the place in a plug-in's code where it was raised, if there is one.

    Examples
    --------
    >>> sentence(KeyError("k"))
    "KeyError: 'k'"
    """
    text = f"{type(error).__name__}: {shortened(str(error))}"
    place = _place(error.__traceback__)
    return text if place is None else f"{text}, {place}"


def _place(traceback: TracebackType | None) -> str | None:
    """Return file and line of the innermost frame of a plug-in."""
    files = {getattr(sys.modules.get(module_name(home)), "__file__", home): home for home in digests}
    places = [(frame.f_code.co_filename, line) for frame, line in walk_tb(traceback)]
    return next((f"{Path(file).name} line {line}" for file, line in reversed(places) if file in files), None)
