"""Ranks compare their options before they begin: different ones would end in a hang, or in the answer of one rank.

The launcher of a rank chooses its command line, its package and its files, so each may differ by mistake: another
command line on one host, an older version of the package, a file that was copied while it was written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import groupby
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from cpms.backends.mpi.exchange import world
from cpms.base import package_data
from cpms.base.errors import CpmsError, InputError
from cpms.base.validation import described, shortened
from cpms.formats.formats import FloatFormat, SegmentFormat, format_of
from cpms.graph.graph import Graph
from cpms.storage.device import host_float64, on_device

OF_RANKS = ("mpi", "mpi_cuda")
"""Engines whose solves are collective."""
_LOCAL = ("on_step",)
"""Arguments in which ranks may differ, since a callback changes no answer."""
_agreed: ContextVar[bool] = ContextVar("agreed", default=False)
_SHOWN_DIGITS = 12
_LONG = 50


def require_same(communicator: Any, options: Mapping[str, Any]) -> None:
    """Refuse options that differ between ranks, and ranks whose code does; every rank calls this before all else.

    It is one collective call, and every rank raises the same error.

    Parameters
    ----------
    communicator : mpi4py communicator
    options : mapping of names to values

    Raises
    ------
    InputError
        If ranks differ; the text names each option, its values, and the ranks that have them.

    Examples
    --------
    >>> class Two:
    ...     size = 2
    ...     def allgather(self, mine):
    ...         return [mine, mine.replace("0.85", "0.9")]
    >>> require_same(Two(), {"damping": 0.85})
    Traceback (most recent call last):
    cpms.base.errors.InputError: ranks differ in damping: 0.85 on rank 0, 0.9 on rank 1; start all ranks with the same
    """
    if communicator.size == 1:
        return
    mine = {"version of cpms": package_data.__version__, "code of cpms": code_digest()}
    mine |= {name: as_text(value) for name, value in options.items()}
    given = [json.loads(text) for text in communicator.allgather(json.dumps(mine))]
    # A rank that runs other code, or has no options because its command line is wrong, lacks some.
    names = [name for name in given[0] if all(name in of_rank for of_rank in given)]
    differing = [found for name in names if (found := _difference(name, [of_rank[name] for of_rank in given]))]
    if differing:
        raise InputError(f"ranks differ in {'; in '.join(differing)}; start all ranks with the same")


def require_same_call(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments of a solve that differ between ranks, if its ``engine`` is one that ranks are; see `OF_RANKS`.

    Examples
    --------
    >>> require_same_call({"engine": "cpu", "damping": 0.85})
    """
    engine = arguments.get("engine")
    if _agreed.get() or not isinstance(engine, str) or engine not in OF_RANKS or world.missing():
        return
    compared = {name: value for name, value in arguments.items() if name not in _LOCAL}
    if "storage" in compared:
        compared["storage"] = _storage(compared["storage"])
    require_same(world.world(), compared)


@contextmanager
def same_call(arguments: Mapping[str, Any]) -> Iterator[None]:
    """Compare arguments as `require_same_call` does, and compare none of the calls within the block.

    Examples
    --------
    >>> with same_call({"engine": "cpu", "damping": 0.85}):
    ...     require_same_call({"engine": "mpi"})
    """
    require_same_call(arguments)
    token = _agreed.set(True)
    try:
        yield
    finally:
        _agreed.reset(token)


def as_text(value: Any) -> str:
    """Return a text that is the same for equal values on any rank; a long one is cut, and has a digest.

    Examples
    --------
    >>> as_text(1000) == as_text(1e3), as_text(np.ones(3))
    (True, 'float64 array of shape (3,) with digest 643b831c09ef')
    """
    if isinstance(value, Graph):
        return _of_graph(value)
    if on_device(value):
        value = host_float64(value)
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return f"{value.dtype} array of shape {value.shape} with digest {_digest(np.ascontiguousarray(value))}"
    if isinstance(value, Real) and not isinstance(value, bool | np.bool_):
        return _of_number(value)
    if isinstance(value, Mapping):
        return _short(f"{{{', '.join(f'{as_text(key)}: {as_text(item)}' for key, item in value.items())}}}")
    if isinstance(value, list | tuple):
        return _short(f"[{', '.join(map(as_text, value))}]")
    try:
        # An object's default text has its address, which says nothing.
        return _short(re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value)))
    except Exception:  # noqa: BLE001 - objects of others raise anything
        return described(value)


@cache
def code_digest() -> str:
    """Return the beginning of the digest of the package and its kernels, the same for the same code anywhere.

    Examples
    --------
    >>> len(code_digest())
    12
    """
    return package_data.code_digest(*_code_folders())[:_SHOWN_DIGITS]


def _code_folders() -> tuple[Path, Path | None]:
    """Return the folders of the package and of the kernels; None for kernels that an installation lacks."""
    package = Path(package_data.__file__).parents[1]
    try:
        return package, package_data.folder("kernels")
    except FileNotFoundError:
        return package, None


def _difference(name: str, texts: list[str]) -> str | None:
    """Return the values of an option with their ranks; None if all ranks have the same."""
    ranks: dict[str, list[int]] = {}
    for rank, text in enumerate(texts):
        ranks.setdefault(text, []).append(rank)
    if len(ranks) == 1:
        return None
    held = [f"{text} on {_named(members)}" for text, members in ranks.items()]
    return f"{name}: {', '.join(held)}"


def _named(ranks: list[int]) -> str:
    """Return ranks in words, consecutive ones by the first and the last."""
    words: list[str] = []
    for _, consecutive in groupby(enumerate(ranks), lambda placed: placed[1] - placed[0]):
        members = [rank for _, rank in consecutive]
        words += [f"{members[0]} to {members[-1]}"] if len(members) > 2 else map(str, members)
    listed = " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {listed}"


def _storage(storage: Any) -> Any:
    """Return a format by its name where the name says all of it."""
    if isinstance(storage, SegmentFormat | FloatFormat):
        try:
            return storage.name if format_of(storage.name) == storage else storage
        except CpmsError:
            return storage
    return storage


def _of_graph(graph: Graph) -> str:
    parts = (graph.indptr, graph.sources, graph.weights, graph.names)
    return f"{graph!r} with digest {_digest(*(part for part in parts if part is not None))}, first id {graph.first_id}"


def _of_number(value: Any) -> str:
    try:
        number = float(value)
        return str(int(number)) if number.is_integer() and number == value else repr(number)
    except (OverflowError, ValueError):
        return described(value)


def _digest(*arrays: Any) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype} {array.shape} ".encode())
        found.update("\0".join(map(str, array)).encode("utf-8", "surrogatepass") if array.dtype.kind == "O" else array)
    return found.hexdigest()[:_SHOWN_DIGITS]


def _short(text: str) -> str:
    if len(text) <= _LONG:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_SHOWN_DIGITS]
    return f"{shortened(text)} with digest {digest}"
