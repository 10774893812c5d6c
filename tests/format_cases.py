"""Formats and layouts of tests that run every engine, shared so that they compile the same loops."""

from __future__ import annotations

import itertools

import pytest

from cpms.formats.formats import NAMED

FORMATS = [*(known.name for known in NAMED), "seg16-16-32", "cpms4-nearest", "fp16-scaled", "e4m3-scaled", "bf16-zero"]
EVERYWHERE = ("fp64", "cpms2", "fp16-scaled")
"""Formats that the default suite runs in every layout, and all others in one."""
EIGHT_SEGMENTS = {"cpms8": {"csr", "coo"}, "cpms8-planes": {"ell", "pattern", "coo"}}
"""Their layouts: each layout has one of the two, since each compiles eight sweeps in it."""


def combinations(layouts):
    """Return pairs of a layout and a format, of which the default suite leaves out those marked slow."""
    return [
        pytest.param(layout, name, marks=[] if name in EVERYWHERE or layout == chosen else pytest.mark.slow)
        for layout in layouts
        for name, chosen in zip(FORMATS, itertools.cycle(["csr", "pattern", "ell"]))
        if layout in EIGHT_SEGMENTS.get(name, {layout})
    ]
