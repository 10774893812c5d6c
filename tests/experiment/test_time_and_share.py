"""Figures of time to a tolerance and of the share of the roofline: their points are those of the rows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpms.experiment.report.observations import observations
from cpms.experiment.report.show import _matplotlib
from cpms.experiment.report.templates import drawings

_matplotlib()
ROW = {"experiment": "mine", "kind": "pagerank", "status": "ok", "graph": "path", "engine": "cpu", "cpu": "a"}

BITS = {"fp64": {"iterations_by_bits": {"64": 3}}, "cpms2": {"iterations_by_bits": {"32": 3}}}


def drawn(rows, name, width="single"):
    return next((each for each in drawings(rows, width=width) if each.name == name), None)


def marks(axes):
    """Return the places of all marks of a panel, by colour of their contestant."""
    found = {}
    for line in axes.lines:
        if line.get_marker() not in ("None", "|", "_", None, ""):
            found.setdefault(line.get_color(), []).extend(
                zip(line.get_xdata(), map(float, line.get_ydata()), strict=True)
            )
    return {shade: [y for _, y in sorted(points)[::-1]] for shade, points in found.items()}


def rows_with_histories(steps, repetitions=1, storages=("fp64", "cpms2")):
    """Return rows whose k-th step ends after k seconds, twice as many in the second format."""
    return [
        {**ROW, "cell": f"{k} {r}", "storage": storage, "tol": 1e-10, "repetition": r, "solve_s": 1.0, **BITS[storage]}
        | {"history": [[residual, 64, 1.0, (k + 1.0) * place] for place, residual in enumerate(steps, 1)]}
        for k, storage in enumerate(storages)
        for r in range(repetitions)
    ]


def test_times_of_iterations_are_those_of_the_first_residual_below():
    figure = drawn(rows_with_histories([0.5, 0.02, 0.03, 0.004, 0.0005]), "tolerance").figure
    (axes,) = figure.axes
    assert sorted(marks(axes).values()) == [[2.0, 4.0, 5.0], [4.0, 8.0, 10.0]]
    assert axes.get_xlim()[0] > axes.get_xlim()[1]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("tolerance", "time in s")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=12))
def test_a_time_to_a_tolerance_never_falls_as_the_tolerance_does(steps):
    made = drawn(rows_with_histories(steps), "tolerance")
    for axes in made.figure.axes if made else ():
        assert all(times == sorted(times) for times in marks(axes).values())


def test_repetitions_have_a_median_and_an_interval():
    rows = rows_with_histories([0.5, 0.05, 0.005, 0.0005], 3, ["fp64"])
    for place, row in enumerate(rows):
        row["history"] = [[residual, bits, mass, end * (place + 1)] for residual, bits, mass, end in row["history"]]
    made = drawn(rows, "tolerance")
    assert marks(made.figure.axes[0])["#0072B2"] == [4.0, 6.0, 8.0]
    assert "; vertical lines: from least to most of the samples" in made.caption
    ends = [tuple(part[:, 1]) for each in made.figure.axes[0].collections for part in each.get_segments()]
    assert sorted(ends) == [(2.0, 6.0), (3.0, 9.0), (4.0, 12.0)]


def test_solves_to_several_tolerances_are_drawn_by_their_own_times():
    rows = [
        {**ROW, "graph": graph, "cell": f"{graph} {storage} {tol}", "storage": storage, "tol": tol}
        | BITS[storage]
        | {"solve_s": factor * place, "history": [[1e-3, 64, 1.0, 99.0], [1e-9, 64, 1.0, 100.0]]}
        for graph, factor in (("path", 1.0), ("ring", 3.0))
        for storage in ("fp64", "cpms2")
        for place, tol in enumerate((1e-2, 1e-6, 1e-10), 1)
    ]
    made = drawn(rows, "tolerance", "double")
    assert {axes.get_title() for axes in made.figure.axes} == {"path", "ring"}
    times = {axes.get_title(): [*marks(axes).values()] for axes in made.figure.axes}
    assert times == {"path": [[1.0, 2.0, 3.0]] * 2, "ring": [[3.0, 6.0, 9.0]] * 2}
    assert "time of a solve to a tolerance" in made.caption


@pytest.mark.parametrize("count", [2, 3])
def test_a_curve_has_three_tolerances_at_least(count):
    rows = rows_with_histories([0.5, *(0.05 / 10**place for place in range(count))])
    assert (drawn(rows, "tolerance") is not None) == (count > 2)


def test_one_tolerance_without_recorded_times_has_no_figure():
    rows = [{**ROW, "cell": storage, "storage": storage, "tol": 1e-10, "solve_s": 1.0} for storage in ("fp64", "cpms2")]
    assert drawn(rows, "tolerance") is None


def products(**rates):
    return [
        {**ROW, "kind": "product", "cell": f"{seconds}", "entries": 9, **rates}
        | {"contestants": [{"engine": "cpu", "storage": storage, "least_bytes": 10**9, "median_ms": 1e3 * seconds}]}
        for storage, seconds in (("fp64", 0.5), ("fp32", 0.25))
    ]


def test_a_share_is_bytes_over_time_over_the_rate_of_a_copy():
    made = drawn(products(host_copy_gbps=8.0), "roofline")
    assert sorted(bar.get_width() for bar in made.figure.axes[0].patches) == pytest.approx([25.0, 50.0])
    assert "share of the rate of a copy (8 GB/s, read and written)" in made.caption


def test_rates_of_another_device_give_no_share():
    assert drawn(products(copy_gbps=8.0, gpu="H200"), "roofline") is None
    assert drawn(products(), "roofline") is None


def test_conversions_read_and_write_their_bytes():
    row = {**ROW, "kind": "conversion", "cell": "0", "values": 9, "storage": "cpms2", "bytes": 10**9}
    found = observations([{**row, "convert_gbps": 3.0, "copy_gbps": 4.0}])
    assert (found.moved / found.seconds / found.copy_gbps).tolist() == pytest.approx([0.75e9])


def test_a_size_is_no_traffic():
    found = observations([{**ROW, "cell": "0", "solve_s": 1.0, "matrix_bytes": 9, "host_copy_gbps": 1.0}])
    assert found.moved.isna().all()
