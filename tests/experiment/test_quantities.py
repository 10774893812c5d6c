"""An axis of a scatter has one quantity: results that lack it are not drawn, and the caption names them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scatter_laws import UNITS, labels_of, points_of

from cpms.experiment.report.captions import in_words
from cpms.experiment.report.generic.bandwidth import QUANTITIES
from cpms.experiment.report.observations import observations
from cpms.experiment.report.show import styled
from cpms.experiment.report.style import WIDTHS
from cpms.experiment.report.templates import TEMPLATES

STORAGES = {"fp64": 64, "fp32": 32, "fp16": 16}
NAMES = [name for name in QUANTITIES if name != "amortised_bytes"]
"""That one has the words of the least bytes."""
BYTES = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 10**6), max_size=3)


def row_of(place, columns):
    storage = [*STORAGES][place % 3]
    row = {"cell": str(place), "experiment": "mine", "status": "ok", "graph": f"graph-{place // 9}", "engine": "cpu"}
    return {**row, "storage": storage, "layout": f"layout-{place // 3 % 3}", "solve_s": 1.0 + place, **columns}


def made_of(rows, name):
    with styled():
        return TEMPLATES[name](observations(rows), WIDTHS["double"], None)


@settings(max_examples=25, deadline=None)
@given(st.lists(BYTES, min_size=3, max_size=18))
def test_all_marks_of_traffic_are_of_the_quantity_that_the_label_names(held):
    rows = [row_of(place, columns) for place, columns in enumerate(held)]
    made = made_of(rows, "traffic")
    if made is None:
        return
    figure, caption, *_ = made
    label, _, unit = labels_of(figure)[0].partition(", in ")
    (quantity,) = [name for name in NAMES if in_words([name]) == label]
    assert f"median time against {label};" in caption or caption == f"median time against {label}"
    known = [row.get(quantity, 0) / UNITS.get(unit, 1.0) for row in rows]
    assert all(any(math.isclose(x, value) for value in known) for axes in figure.axes for (x, _), _ in points_of(axes))
    share = sum(quantity in row for row in rows) / len(rows)
    assert share >= 0.5 or all(sum(name in row for row in rows) <= share * len(rows) for name in NAMES)


def test_results_without_the_quantity_are_named():
    rows = [row_of(place, {"least_bytes": 1e6 * (1 + place)}) for place in range(6)]
    rows += [row_of(place, {"matrix_bytes": 1e3}) for place in (6, 7, 8)]
    _, caption, *_ = made_of(rows, "traffic")
    names = ", ".join(f"{storage} layout-2" for storage in STORAGES)
    assert f"; not drawn, as without these bytes: {names}" in caption


@pytest.mark.parametrize("count", [1, 2])
def test_residuals_do_not_lie_on_an_axis_of_errors(count):
    rows = [row_of(place, {"error_l1": 10.0 ** -(1 + place)}) for place in range(6)]
    rows += [row_of(place, {"residual_l1": 1e-3}) for place in range(6, 6 + count)]
    figure, caption, *_ = made_of(rows, "error")
    assert sum(len(points_of(axes)) for axes in figure.axes) == 6
    assert caption.startswith("error, 1-norm, from a float64 reference answer, against the bits read;")
    assert f"; not drawn: {count} result{'s' * (count > 1)} with residual, 1-norm alone" in caption
