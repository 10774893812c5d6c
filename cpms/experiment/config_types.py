"""Types of names in configurations: an unknown name is refused without loading or importing anything."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from cpms import engines
from cpms.api.given_matrix import named_storage
from cpms.backends.mpi.shares import weblike_share
from cpms.base import plugins
from cpms.base.errors import InputError
from cpms.base.text import specification
from cpms.base.text.suggestions import unknown
from cpms.contracts.engine import Engine
from cpms.engines.mpi import LOCAL
from cpms.formats.formats import format_named
from cpms.sources import datasets, generators, readers
from cpms.sparse.arrangement import Layout

AUTO = "auto"


def one_of(what: str, possible: Callable[[], Iterable[str]]) -> AfterValidator:
    """Return a validator of names that ``possible`` returns.

    Examples
    --------
    >>> one_of("fruit", lambda: ["apple", "pear"]).func("plum")
    Traceback (most recent call last):
    cpms.base.errors.InputError: fruit 'plum' is not known; it can be one of apple, pear
    """

    def known(name: str) -> str:
        names = list(possible())
        if name not in names:
            raise InputError(unknown(what, name, names))
        return name

    return AfterValidator(known)


def or_plugin(what: str, possible: Callable[[], Iterable[str]], load: Callable[[str], object]) -> AfterValidator:
    """Return a validator of names that ``possible`` returns, or that ``load`` finds as a plug-in.

    Examples
    --------
    >>> or_plugin("fruit", lambda: ["apple"], lambda name: None).func("plum")
    Traceback (most recent call last):
    cpms.base.errors.InputError: fruit 'plum' is not known; it can be one of apple, or file.py:attribute
    """

    def known(name: str) -> str:
        if name not in (names := list(possible())) and load(name) is None:
            raise InputError(unknown(what, name, names, ", or file.py:attribute"))
        return name

    return AfterValidator(known)


def layout_names() -> list[str]:
    """Return the layouts of the package's engines.

    Examples
    --------
    >>> "ell" in layout_names()
    True
    """
    return sorted({layout for name in engines.own_names() for layout in engines.get_any(name).layouts})


def _engine_plugin(name: str) -> Engine | None:
    return engines.get_any(name) if plugins.is_named("engines", name) else None


def _layout_plugin(name: str) -> object | None:
    """Return a layout of a plug-in: one of its own, or one that an engine has."""
    if any(name in engines.get_any(engine).layouts for engine in plugins.offered("engines")):
        return name
    own: object = plugins.load("layouts", name, Layout)
    return own


def loadable(name: str) -> str:
    """Return the name of a data set, the specification of a generator, or a path; none of them needs to exist.

    Raises
    ------
    InputError
        If it is none of these.

    Examples
    --------
    >>> loadable("wiki-Vote"), loadable("rmat:scale=4"), loadable("not/here.mtx")
    ('wiki-Vote', 'rmat:scale=4', 'not/here.mtx')
    """
    return _graph(name, generators.names())


def shareable(name: str) -> str:
    """Return a name as `loadable` does, or the specification of a graph that only ranks generate."""
    return _graph(name, [*generators.names(), weblike_share.NAME])


def storage(name: str) -> str:
    """Return the name of a storage format.

    Raises
    ------
    InputError
        If there is no format of this name.
    """
    format_named(name)
    return name


def matrix_storage(name: str) -> str:
    """Return the name of a storage format of matrices; ``lossless`` chooses one for each matrix."""
    if name != "lossless":
        named_storage(name)
    return name


def _or_auto(checked: Callable[[str], str]) -> AfterValidator:
    """Return a validator of ``auto``, and of names that a function returns."""
    return AfterValidator(lambda name: name if name == AUTO else checked(name))


EngineName = Annotated[str, or_plugin("engine", engines.names, _engine_plugin)]
EngineOrAuto = Annotated[str, or_plugin("engine", lambda: [AUTO, *engines.names()], _engine_plugin)]
LocalEngine = Annotated[str, one_of("engine of ranks", lambda: LOCAL)]
LayoutName = Annotated[str, or_plugin("layout", layout_names, _layout_plugin)]
LayoutOrAuto = Annotated[str, or_plugin("layout", lambda: [AUTO, *layout_names()], _layout_plugin)]
StorageName = Annotated[str, AfterValidator(storage)]
StorageOrAuto = Annotated[str, _or_auto(storage)]
MatrixStorage = Annotated[str, AfterValidator(matrix_storage)]
MatrixStorageOrAuto = Annotated[str, _or_auto(matrix_storage)]
GraphName = Annotated[str, AfterValidator(loadable)]
SharedGraphName = Annotated[str, AfterValidator(shareable)]


def _graph(name: str, makers: list[str]) -> str:
    maker, colon, _ = name.partition(":")
    if not readers.is_file(name) and specification.split_plugin("generators", name)[0]:
        return generators.checked(name)
    if name in datasets.DATASETS or maker in makers or _may_be_file(name):
        return name
    if colon:
        raise InputError(unknown("generator", maker, makers, ", or file.py:function"))
    if datasets.locate(name):
        return name
    near = difflib.get_close_matches(name, datasets.DATASETS, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else ";"
    raise InputError(
        f"graph {name!r} is not known{hint} it can be one of {', '.join(datasets.DATASETS)}; from a generator, such as "
        f"rmat:scale=16, of {', '.join(makers)}; or a file that ends in {readers.ENDINGS}"
    )


def _may_be_file(name: str) -> bool:
    return bool(readers.is_file(name) or readers.module_for(Path(name)) or os.sep in name)
