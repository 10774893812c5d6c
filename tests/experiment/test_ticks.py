"""Logarithmic axes have from three to a few labelled ticks, whatever they span."""

from __future__ import annotations

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms.experiment.report.page.ticks import LEAST_TICKS, between_ticks, chosen_ticks, logarithmic, number, numbers
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


@given(low=st.floats(0.31, 1.0), high=st.floats(2.0, 3.0))
def test_a_short_axis_has_ticks_between_1_and_2_and_some_of_them_have_labels(low, high):
    inner = {1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9}
    assert inner & set(chosen_ticks(low, high))
    assert inner <= set(between_ticks(low, high))


@given(st.lists(st.integers(-12, 12), min_size=1, max_size=8))
def test_labels_of_an_axis_are_in_one_notation_and_read_back(powers):
    ticks = [10.0**power for power in powers]
    texts = numbers(ticks)
    assert [float(text) for text in texts] == pytest.approx(ticks)
    assert len({"e" in text for text, power in zip(texts, powers, strict=True) if power}) <= 1


@pytest.mark.parametrize("inches", [0.9, 1.5, 4.0])
@pytest.mark.parametrize(
    "ends", [(0.4, 2.6), (0.6, 9.0), (0.3, 20.0), (0.95, 1.6), (1e-6, 1.0), (1200, 3400), (63, 210)]
)
def test_labels_side_by_side_do_not_touch(inches, ends):
    with styled():
        figure = plt.figure(figsize=(inches + 1, 1.5), layout="none")
        axes = figure.add_axes((0.5 / (inches + 1), 0.4, inches / (inches + 1), 0.5))
        axes.set_xlim(*ends)
        logarithmic(axes)
        axes.set_xlim(*ends)
        figure.canvas.draw()
        low, high = axes.get_xlim()
        texts = [t for x, t in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True) if low <= x <= high]
        boxes = [text.get_window_extent() for text in texts]
        plt.close(figure)
    assert len(texts) >= LEAST_TICKS
    assert all(one.x1 + 0.03 * figure.dpi < other.x0 for one, other in itertools.pairwise(boxes))


@pytest.mark.parametrize("ends", [(0.57, 16.0), (0.6, 9.0), (0.9, 26.0)])
def test_ticks_without_labels_lie_apart_on_a_narrow_axis(ends):
    with styled():
        figure = plt.figure(figsize=(2.0, 1.5), layout="none")
        axes = figure.add_axes((0.25, 0.4, 0.5, 0.5))
        logarithmic(axes)
        axes.set_xlim(*ends)
        figure.canvas.draw()
        places = axes.transData.transform([(tick, 0.5) for tick in axes.get_xticks(minor=True)])[:, 0] / figure.dpi
        plt.close(figure)
    assert len(places) > 5
    assert np.diff(places).min() >= 0.02


@pytest.mark.parametrize("most", [3, 4, 5])
@pytest.mark.parametrize("low", [0.3, 0.1, 0.05, 0.018, 0.004, 1e-3, 1e-5])
def test_an_axis_of_ratios_has_a_number_at_1(low, most):
    assert 1.0 in chosen_ticks(low, 1.6, most=most)
