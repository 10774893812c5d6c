"""The one palette of all figures: a colour means a number of bits.

The colours are distinguishable by the colour-blind (Okabe and Ito, Color Universal Design, 2008), with two more for
formats of 24 and 40 bits, which keep their distance in the simulation of Machado, Oliveira and Fernandes (2009).
"""

from __future__ import annotations

PALETTE = {
    8: "#CC79A7",
    16: "#D55E00",
    24: "#8C564B",
    32: "#E69F00",
    40: "#4D004D",
    48: "#009E73",
    56: "#56B4E9",
    64: "#0072B2",
}
"""Colours by bits read."""


def colour(bits: float) -> str:
    """Return the colour of a number of bits, the nearest one that has a colour.

    Examples
    --------
    >>> colour(16) == colour(17) != colour(64)
    True
    """
    return PALETTE[nearest(bits)]


def nearest(bits: float) -> int:
    """Return the number of bits nearest to one that has a colour.

    Examples
    --------
    >>> nearest(33.5)
    32
    """
    return min(PALETTE, key=lambda known: abs(known - bits))
