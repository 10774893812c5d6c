"""Unknown keyword arguments of public functions: an error that names the nearest one, in place of a ``TypeError``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from cpms.base.errors import InputError, page_of
from cpms.base.text.suggestions import unknown

_P = ParamSpec("_P")
_R = TypeVar("_R")


def checked_keywords(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function that refuses keyword arguments which its signature does not name.

    The signature is read at the first unknown name, so that a call costs one comparison of names.

    Raises
    ------
    InputError
        By the function, where an argument is unknown.

    Examples
    --------
    >>> @checked_keywords
    ... def solve(A, *, tol=1e-10): ...
    >>> solve(1.0, tolerance=1e-8)
    Traceback (most recent call last):
    cpms.base.errors.InputError: solve: argument 'tolerance' is not known; did you mean tol? It can be one of A, tol
    """
    code = function.__code__  # type: ignore[attr-defined]
    named = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

    @wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not named.issuperset(kwargs):
            parameters = inspect.signature(checked).parameters.values()
            wrong = next((name for name in kwargs if name not in {each.name for each in parameters}), None)
            if wrong is not None:
                options = [each.name for each in parameters if each.name != "self"]
                raise _refusal(function, f"{_name(function)}: {unknown('argument', wrong, options)}")
        return function(*args, **kwargs)

    return checked


def _name(function: Callable[..., object]) -> str:
    return function.__qualname__.removesuffix(".__init__")


def _refusal(function: Callable[..., object], text: str) -> InputError:
    """Return an error with the page of the function's module, not of this one."""
    error = InputError(text)
    error.page = page_of(function.__module__)
    if error.page is not None:
        error.add_note(f"see {error.page}")
    return error
