"""Random matrices whose entries lie in a band: local access to x without the regularity of a grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cpms.base.errors import InputError

if TYPE_CHECKING:
    import scipy.sparse


def banded(*, rows: int, width: int = 1000, entries: int = 16, seed: int = 1) -> scipy.sparse.csr_array:
    """Return a square matrix of normal values at random places in a band.

    Parameters
    ----------
    rows : int
    width : int
        Columns of the band, which is centred on the diagonal and shifted at its ends.
    entries : int
        Of each row: one in each of so many equal parts of its band, at most ``width``.
    seed : int

    Examples
    --------
    >>> made = banded(rows=100, width=20, entries=4)
    >>> made.nnz, int(abs(made.tocoo().row - made.tocoo().col).max()) <= 20
    (400, True)
    """
    import scipy.sparse

    if not 1 <= entries <= width <= rows or rows * entries >= 2**31 or seed < 0:
        raise InputError(
            f"banded: entries is {entries}, width {width}, rows {rows} and seed {seed}; give 1 <= entries <= width <= "
            "rows, fewer than 2**31 entries in all, and a seed of 0 or more"
        )
    generator = np.random.default_rng(seed)
    part = width // entries
    starts = np.clip(np.arange(rows) - width // 2, 0, rows - width).astype(np.int32)
    columns = generator.integers(0, part, (rows, entries), dtype=np.int32)
    columns += part * np.arange(entries, dtype=np.int32)
    columns += starts[:, None]
    values = generator.standard_normal(rows * entries)
    ends = entries * np.arange(rows + 1, dtype=np.int32)
    return scipy.sparse.csr_array((values, columns.ravel(), ends), shape=(rows, rows))
