"""When compiled loops repay their loading: small arrays are left to NumPy until it has handled many of them."""

from __future__ import annotations


class Repayment:
    """Counts the entries that NumPy handled in place of compiled loops, and says when the loops repay their loading.

    Loading takes a tenth of a second from a cache and seconds without one; NumPy takes up to half a microsecond longer
    an entry. From then on loops are used, for arrays of any length.

    Parameters
    ----------
    most : int
        Entries of the largest array that is left to NumPy.
    total : int
        Entries of all those arrays together.

    Examples
    --------
    >>> repays = Repayment(100, 150)
    >>> repays(90), repays(90), repays(1)
    (False, True, True)
    >>> Repayment(100, 150)(101)
    True
    """

    def __init__(self, most: int = 1 << 17, total: int = 1 << 21) -> None:
        self._most, self._total, self._handled = most, total, 0

    def __call__(self, entries: int) -> bool:
        """Return whether loops are to handle some entries; if not, count them as handled by NumPy."""
        if entries > self._most or self._handled + entries > self._total:
            self._handled = self._total + 1
            return True
        self._handled += entries
        return False
