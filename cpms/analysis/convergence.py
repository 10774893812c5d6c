"""The history of a solve as a figure: residual against iteration, each point in the colour of the bits that were read.

The panel has the width of one column of a journal. Matplotlib is loaded when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cpms.analysis.palette import colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMN_IN, _HEIGHT_IN = 3.3, 2.2


def plot_residuals(
    steps: Iterable[tuple[int, float, int]], *, tol: float, label: str, axes: Axes | None = None
) -> Axes:
    """Draw the residuals of a solve, and its tolerance as a line.

    Parameters
    ----------
    steps : iterable of (int, float, int)
        Iteration, residual and bits read.
    tol : float
        The tolerance, which is drawn if it is positive.
    label : str
        Label of the vertical axis.
    axes : matplotlib.axes.Axes, optional
        The panel to draw into; by default that of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> panel = plot_residuals([(1, 0.5, 16), (2, 0.1, 16), (3, 0.01, 64)], tol=0.01, label="residual")
    >>> panel.get_xlabel(), [entry.get_text() for entry in panel.get_legend().get_texts()]
    ('iteration', ['16 bits', '64 bits'])
    """
    import matplotlib.pyplot as plt

    if axes is None:
        _, axes = plt.subplots(figsize=(_COLUMN_IN, _HEIGHT_IN), layout="constrained")
    drawn = [step for step in steps if step[1] > 0]
    axes.plot([step[0] for step in drawn], [step[1] for step in drawn], color="#bbbbbb", linewidth=0.8, zorder=1)
    for bits in sorted({step[2] for step in drawn}):
        points = [step for step in drawn if step[2] == bits]
        iterations, residuals = [step[0] for step in points], [step[1] for step in points]
        axes.scatter(iterations, residuals, s=9, color=colour(bits), label=f"{bits} bits", zorder=2)
    if tol > 0:
        axes.axhline(tol, color="#666666", linewidth=0.6, linestyle="--")
    axes.set(yscale="log", xlabel="iteration", ylabel=label)
    if drawn:
        axes.legend(frameon=False)
    return axes
