"""The colours of bits are distinguishable in normal sight and in three kinds of colour blindness."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cpms.analysis.palette import PALETTE

SIGHTS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""Linear RGB as each kind of sight has it (Machado, Oliveira and Fernandes, 2009, severity 1)."""
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
LEAST = 10.0
"""Distance in CIELAB; about 2.3 is just noticeable."""


def linear(colour):
    given = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(given <= 0.04045, given / 12.92, ((given + 0.055) / 1.055) ** 2.4)


def lab(colour, sight):
    relative = TO_XYZ @ np.clip(np.array(SIGHTS[sight]) @ linear(colour), 0, 1) / TO_XYZ.sum(axis=1)
    cubed = np.where(relative > 0.008856, np.cbrt(relative), 7.787 * relative + 16 / 116)
    return np.array([116 * cubed[1] - 16, 500 * (cubed[0] - cubed[1]), 200 * (cubed[1] - cubed[2])])


def nearest(colours, sight):
    """Return the least distance of two colours, and these two."""
    pairs = itertools.combinations(colours, 2)
    return min((float(np.linalg.norm(lab(one, sight) - lab(other, sight))), one, other) for one, other in pairs)


def test_black_and_white_are_as_far_apart_as_can_be():
    assert nearest(["#000000", "#FFFFFF"], "normal")[0] == pytest.approx(100.0, abs=0.01)


def test_red_and_green_are_alike_without_one_of_their_receptors():
    pair = ["#A05A00", "#707000"]
    assert nearest(pair, "deuteranopia")[0] < LEAST < nearest(pair, "normal")[0]


@pytest.mark.parametrize("sight", SIGHTS)
def test_colours_of_bits_differ(sight):
    assert nearest([*PALETTE.values(), "#FFFFFF"], sight)[0] > LEAST
