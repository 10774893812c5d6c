"""Logarithmic axes have from three to a few labelled ticks, whatever they span."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms.experiment.report.page.ticks import LEAST_TICKS, chosen_ticks, logarithmic, number
from cpms.experiment.report.show import styled

ENDS = st.floats(-18, 18), st.floats(0.005, 20)
"""Powers of the lower end of an axis and of the quotient of its ends."""


@pytest.mark.parametrize("most", [4, 5, 6])
@given(low=ENDS[0], decades=ENDS[1])
def test_an_axis_has_at_least_three_ticks_with_labels_that_differ(most, low, decades):
    low, high = 10.0**low, 10.0 ** (low + decades)
    ticks = chosen_ticks(low, high, most=most)
    assert LEAST_TICKS <= len(ticks) <= most
    assert low * (1 - 1e-8) <= ticks[0]
    assert ticks[-1] <= high * (1 + 1e-8)
    assert (np.diff(ticks) > 0).all()
    assert len({number(tick) for tick in ticks}) == len(ticks)


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-1.0, 1.0), (1.0, 1.0), (1.0, np.inf)])
def test_an_axis_without_positive_ends_has_no_ticks(ends):
    assert chosen_ticks(*ends) == []


def test_ticks_follow_the_axis_after_it_changes():
    with styled():
        figure, axes = plt.subplots()
        axes.plot([1, 2], [1, 2])
        logarithmic(axes)
        axes.set_xlim(1, 1000)
        figure.canvas.draw()
        labels = [label.get_text() for label in axes.get_xticklabels()]
        plt.close(figure)
    assert labels == ["1", "10", "100", "1000"]
