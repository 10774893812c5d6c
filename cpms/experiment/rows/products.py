"""Contestants of rows of kind ``product``: those whose result is the product, and the fastest of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cpms.experiment.rows.rows import Row

LARGEST_ERROR = 2.0**-6
"""Largest relative error of a result that counts as the product: a few roundings to eight bits of mantissa."""
FAMILIES = {
    "stencils": ("stencil:",),
    "finite elements": ("elements:",),
    "graphs": ("rmat:", "weblike:", "web-", "cnr-"),
}
"""Beginnings of the names of matrices, by family."""


def is_product(contestant: dict[str, Any]) -> bool:
    """Return whether a contestant's result is the product.

    Examples
    --------
    >>> is_product({"error": 2e-16}), is_product({"error": 2068.0})
    (True, False)
    """
    return bool(contestant["error"] <= LARGEST_ERROR)


def fastest(
    row: Row, engine: str, layouts: Collection[str], storages: Collection[str], vectors: str, read: int | None = None
) -> dict[str, Any] | None:
    """Return the contestant with the least median of those whose results are products; None if there is none.

    Parameters
    ----------
    row : Row
        Of kind ``product``.
    engine, layouts, storages, vectors
        Parameters of the contestants that are compared.
    read : int, optional
        Segments of values that these read; any number by default.

    Examples
    --------
    >>> kind = {"engine": "cpu", "layout": "csr", "storage": "fp64", "vectors": "fp64", "read": None, "error": 0.0}
    >>> row = {"contestants": [kind | {"median_ms": 2.0}, kind | {"median_ms": 1.0}]}
    >>> fastest(row, "cpu", ("csr", "sell"), ("fp64",), "fp64")["median_ms"]
    1.0
    """
    found = (
        c
        for c in row["contestants"]
        if (c["engine"], c["vectors"]) == (engine, vectors)
        and c["layout"] in layouts
        and c["storage"] in storages
        and read in (None, c["read"])
        and is_product(c)
    )
    return min(found, key=lambda c: float(c["median_ms"]), default=None)
