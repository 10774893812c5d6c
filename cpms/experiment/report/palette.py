"""The one palette of all figures: a colour means a number of bits, and a marker an engine or a layout.

The colours are distinguishable by the colour-blind (Okabe and Ito, Color Universal Design, 2008), with two more for
formats of 24 and 40 bits.
"""

from __future__ import annotations

PALETTE = {
    8: "#CC79A7",
    16: "#D55E00",
    24: "#8C564B",
    32: "#E69F00",
    40: "#999999",
    48: "#009E73",
    56: "#56B4E9",
    64: "#0072B2",
}
"""Colours by bits read."""
MARKERS = {
    "cuda": "o",
    "cuda_fused": "^",
    "mpi_cuda": "D",
    "cusparse": "X",
    "cusparse_omega": "P",
    "cpu": "o",
    "scipy": "X",
    "serial": "s",
    "mpi": "D",
    "opencl": "v",
    "reference": "P",
    "pattern": "o",
    "csr": "s",
    "ell": "D",
    "coo": "^",
    "coo_exchange": "v",
}
"""Markers by engine or layout; a figure has those of one of both."""
NEUTRAL = "#666666"
"""Of marks that mean no number of bits."""


def colour(bits: float) -> str:
    """Return the colour of a number of bits, the nearest one that has a colour.

    Examples
    --------
    >>> colour(16) == colour(17) != colour(64)
    True
    """
    return PALETTE[min(PALETTE, key=lambda known: abs(known - bits))]
