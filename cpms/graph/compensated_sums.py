"""Sums of many weights by their keys, as exact as if they had been added up in twice the digits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cpms.base.compensated_loops import add_by_key


class WeightSums:
    """Sum of the weights that are added to each of some keys, with what rounding lost.

    Compensated summation (Neumaier, Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen, ZAMM 54,
    1974): of positive weights, the relative error is that of rounding once, and n u^2 for n weights.

    Parameters
    ----------
    keys : int
        How many keys there are, from 0 on.

    Examples
    --------
    >>> sums = WeightSums(2)
    >>> sums.add(np.array([0, 1, 1]), np.array([0.5, 1.0, 2.0**-53]))
    >>> sums.add(np.array([1]), np.array([2.0**-53]))
    >>> sums.rounded().tolist()
    [0.5, 1.0000000000000002]
    """

    def __init__(self, keys: int) -> None:
        self.parts: npt.NDArray[np.float64] = np.zeros((2, keys))
        """Sums as float64 adds them up, and what that lost of them; shape (2, keys)."""

    def add(self, keys: npt.NDArray[np.integer], weights: npt.NDArray[np.float64]) -> None:
        """Add a weight to each of the keys named, one of which may be named often."""
        sums, lost = self.parts
        add_by_key(sums, lost, keys, weights)

    def rounded(self) -> npt.NDArray[np.float64]:
        """Return the sums in float64; infinite where they outgrow it."""
        sums, lost = self.parts
        found: npt.NDArray[np.float64] = sums.copy()
        np.add(sums, lost, out=found, where=np.isfinite(sums))
        return found
