"""What the results of all solves share: a history with a record of each iteration."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Iterated:
    """A result whose history has a record for each iteration, with its residual and the bits that it read of a value.

    Examples
    --------
    >>> import cpms
    >>> result = cpms.pagerank(cpms.Graph.from_edges([0, 1, 2], [1, 2, 0]))
    >>> result.iterations, result.iterations_by_bits
    (2, {64: 2})
    """

    history: tuple[Any, ...]

    @property
    def iterations(self) -> int:
        """Number of iterations at any precision."""
        return len(self.history)

    @property
    def iterations_by_bits(self) -> dict[int, int]:
        """Number of iterations by the bits that they read of a vector's value, fewest bits first."""
        return dict(sorted(Counter(step.bits for step in self.history).items()))

    def _counts(self) -> str:
        """Return the number of iterations, and those by bits, for the views of notebooks."""
        by_bits = ", ".join(f"{count} of {bits} bits" for bits, count in self.iterations_by_bits.items())
        return f"{self.iterations} ({by_bits})"

    def _plot(self, tol: float, label: str, axes: Axes | None) -> Axes:
        from cpms.analysis.convergence import plot_residuals

        steps = [(step.iteration, step.residual, step.bits) for step in self.history]
        return plot_residuals(steps, tol=tol, label=label, axes=axes)
