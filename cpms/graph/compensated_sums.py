"""Compensated sums of weights by key, such as the total weight of each node's out-edges.

Neumaier's summation stores the rounding errors of each sum beside it, so a node with many edges of small weight has as
exact a sum as any other. It needs two float64 a key and one pass over the weights.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cpms.base.compensated_loops import add_by_key


class WeightSums:
    """Sum of the weights of each key, with the sum of its rounding errors.

    Compensated summation (Neumaier, Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen, ZAMM 54,
    1974): of positive weights, the relative error is that of rounding once, and n u^2 for n weights.

    Parameters
    ----------
    keys : int
        Number of keys, from 0 on.

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
        """Sums in float64, and the sums of their rounding errors; shape (2, keys)."""

    def add(self, keys: npt.NDArray[np.integer], weights: npt.NDArray[np.float64]) -> None:
        """Add each weight to the sum of its key; keys may repeat."""
        sums, lost = self.parts
        add_by_key(sums, lost, keys, weights)

    def rounded(self) -> npt.NDArray[np.float64]:
        """Return the sums in float64; infinite where they overflow."""
        sums, lost = self.parts
        found: npt.NDArray[np.float64] = sums.copy()
        np.add(sums, lost, out=found, where=np.isfinite(sums))
        return found
