"""Engines of products by name: those that multiply by a matrix of one's own. All others compute PageRank alone."""

from __future__ import annotations

from dataclasses import replace

from cpms.backends.products import HOMES, operator_of
from cpms.backends.products.split import SplitProduct
from cpms.base.errors import InputError, UnsupportedError
from cpms.base.text.phases import phase
from cpms.base.text.suggestions import unknown
from cpms.contracts.linear_operator import LinearOperator
from cpms.contracts.product_request import ProductRequest
from cpms.engines import get, get_any
from cpms.engines import names as names_of_engines
from cpms.sparse.matrix import Matrix

PREFERRED = ("cuda", "cpu")
"""Engines that ``auto`` tries, in this order."""


def names() -> list[str]:
    """Return the names of the engines that multiply with any matrix.

    Examples
    --------
    >>> "cpu" in names()
    True
    """
    return sorted(HOMES)


def chosen(name: str) -> str:
    """Return the name of an engine that this machine can run; ``auto`` is the first of `PREFERRED`.

    Raises
    ------
    InputError
        If there is no such engine of products.
    UnavailableError
        If this machine cannot run it.

    Examples
    --------
    >>> chosen("auto") in PREFERRED
    True
    """
    if isinstance(name, str) and name == "auto":
        return next(preferred for preferred in PREFERRED if not get_any(preferred).missing())
    if not isinstance(name, str) or name not in HOMES:
        if isinstance(name, str) and name in names_of_engines():
            possible = f"it can be one of {', '.join(names())}, or auto"
            raise InputError(f"engine {name!r} multiplies with transition matrices alone; {possible}")
        raise InputError(unknown("engine", name, [*names(), "auto"]))
    get(name)  # Its error says what this machine lacks.
    return name


def refusal(name: str, request: ProductRequest) -> str | None:
    """Return why an engine cannot prepare such products, as a sentence; None if it can."""
    if request.split is None:
        reason: str | None = operator_of(name).refusal(request)
        return reason
    reasons = [request.refusal()]
    for storage in request.split.formats:
        reasons.append(operator_of(name).refusal(replace(request, storage=storage, split=None)))
    return next((reason for reason in reasons if reason), None)


@phase("storing the matrix")
def prepare(name: str, matrix: Matrix, request: ProductRequest) -> LinearOperator:
    """Prepare a matrix for products by an engine.

    Raises
    ------
    UnsupportedError
        If the engine does not have this storage, layout, index width or compute precision.
    """
    reason = refusal(name, request)
    if reason:
        raise UnsupportedError(reason)
    of = operator_of(name).of
    prepared: LinearOperator = of(matrix, request) if request.split is None else SplitProduct.of(matrix, request, of)
    return prepared
