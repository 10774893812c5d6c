"""When compiled loops repay their loading: not for the small arrays of a process's first call."""

from __future__ import annotations


class Repayment:
    """Says whether compiled loops repay their loading, from a second call or a large array on.

    Loading a loop takes time even from a cache, and far more without one. NumPy, or the interpreter, does the work of
    one call on a small graph in less. A process that calls once never loads those loops, and one that calls again uses
    loops alone, for arrays of any length.

    Parameters
    ----------
    uses : int
        How often a first call needs the loops.
    most : int
        Entries of the largest array of which loops do not repay.

    Examples
    --------
    >>> repays = Repayment(2)
    >>> repays(90), repays(90), repays(1)
    (False, False, True)
    >>> repays = Repayment(2, most=100)
    >>> repays(101), repays(1)
    (True, True)
    """

    def __init__(self, uses: int, most: int = 1 << 17) -> None:
        self._left, self._most = uses, most

    def __call__(self, entries: int) -> bool:
        """Return whether loops are to handle some entries; if not, count a use without them."""
        if entries > self._most or self._left == 0:
            self._left = 0
            return True
        self._left -= 1
        return False
