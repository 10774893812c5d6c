"""Rows that come with the package, read once for all tests that draw them."""

from __future__ import annotations

from functools import cache

from cpms.base.package_data import folder
from cpms.experiment.rows.standing import Recorded

RECORDED = folder("experiments") / "results"


class ReadOnce(Recorded):
    """The rows of a folder, each compared with its configuration once, which takes most of the time of a figure."""

    def __init__(self, source):
        super().__init__(source)
        self._known = {}

    def standing(self, row):
        cell = row["experiment"], row["cell"]
        if cell not in self._known:
            self._known[cell] = super().standing(row)
        return self._known[cell]


@cache
def recorded():
    """Return the rows, for ``results`` of `show.show`."""
    return ReadOnce(RECORDED)
