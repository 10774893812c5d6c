"""Figures of time to a tolerance and of the share of the roofline: their points are those of the rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_drawing import drawn_alone

from cpms.experiment import timers
from cpms.experiment.report.observations import observations
from cpms.experiment.report.show import _matplotlib
from cpms.experiment.report.style import WIDTHS

_matplotlib()
HIGHEST_IN = 4.5
"""Most height of a figure in inches."""
ROW = {"experiment": "mine", "kind": "pagerank", "status": "ok", "graph": "path", "engine": "cpu", "cpu": "a"}

BITS = {"fp64": {"iterations_by_bits": {"64": 3}}, "cpms2": {"iterations_by_bits": {"32": 3}}}


def drawn(rows, name, width="single"):
    return drawn_alone(rows, name, width=width)


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
    assert "Tolerance of the solves: 1e-10." in made.caption
    assert "Tolerance: 1e-10." in drawn(rows, "residual").caption
    ends = [tuple(part[:, 1]) for each in made.figure.axes[0].collections for part in each.get_segments()]
    assert sorted(ends) == [(2.0, 6.0), (3.0, 9.0), (4.0, 12.0)]


def test_only_float64_residuals_of_the_whole_graph_reach_a_tolerance():
    first = {**ROW, "tol": 1e-4, "solve_s": 5.0, "residual_l1": 5e-5}
    steps = [[0.5, 64], [0.05, 64], [0.005, 16], [0.0005, 64], [5e-5, 16]]
    histories = [[residual, bits, 1.0, place + 1.0] for place, (residual, bits) in enumerate(steps)]
    rows = [
        {**first, "cell": method, "method": method, "storage": "fp16", "history": histories}
        | {"iterations_by_bits": {"64": 3, "16": 2}}
        for method in ("power", "refine")
    ]
    timelines = observations(rows).set_index("method").timelines
    assert timelines["power"] == [[(0.5, 1.0), (0.05, 2.0), (0.0005, 4.0), (5e-5, 5.0)]]
    assert timelines["refine"] == [[(5e-5, 5.0)]]
    made = drawn(rows, "tolerance")
    (times,) = marks(made.figure.axes[0]).values()
    assert sorted(times) == [2.0, 4.0, 4.0, 5.0, 5.0, 5.0, 5.0, 5.0]
    hollow = [line.get_ydata()[0] for line in made.figure.axes[0].lines if line.get_markerfacecolor() == "white"]
    assert hollow == [5.0] * 4  # Those of refine, whose first residual that counts is the last.
    assert "; hollow: at most this time" in made.caption
    assert "hollow" not in drawn(rows[:1], "tolerance").caption
    assert "a residual in float64 of the whole problem was first below a tolerance" in made.caption
    caption = drawn(rows, "residual").caption
    assert "; residuals of iterations in fewer than 64 bits and of refine, which may have trimmed" in caption
    assert "estimates" not in drawn(rows_with_histories([0.5, 0.05, 0.005]), "residual").caption


@pytest.mark.parametrize(
    ("stored", "vectors", "counts"), [("fp64", "fp64", 3), ("fp16", "fp64", 1), ("fp64", "fp32", 1)]
)
def test_only_recurrences_wholly_in_float64_reach_a_tolerance(stored, vectors, counts):
    line = {"engine": "cpu", "method": "cg", "storage": stored, "vectors": [vectors], "status": "CONVERGED"}
    line |= {"used": "cg", "stored_as": stored, "vectors_as": [vectors], "iterations_by_bits": {"64": 2}}
    line |= {"history": [[1, 0.5, 64, 9], [2, 0.05, 64, 9]], "step_s": [1.0, 2.0], "solve_s": 3.0, "residual": 0.04}
    row = {**ROW, "kind": "linear", "cell": "0", "rows": 9, "entries": 9, "ways_found": [line]}
    del row["engine"]
    timelines = observations([row]).timelines[0]
    assert timelines == [[(0.5, 1.0), (0.05, 2.0), (0.04, 3.0)][-counts:]]


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


GPU = {"gpu": "H200", "engine": "cuda"}


def solves(**given):
    """Return a row of two contestants in turn, which move 128 and 88 bytes at least, in 2 and 1 seconds."""
    lines = [
        {"engine": "cuda", "storage": "fp64", "layout": None, "bits": [64, 64], "solve_s": 2.0},
        {"engine": "cuda", "storage": "fp16", "method": "refine", "whole": True, "bits": [64, 16], "solve_s": 1.0},
    ]
    row = {**ROW, **GPU, "kind": "contest", "cell": "0", "layout": "csr", "nodes": 2, "edges": 2}
    return {**row, "results": lines, **given}


def shares(made):
    return sorted(bar.get_width() for bar in made.figure.axes[0].patches)


def test_solves_move_the_least_bytes_of_their_sweeps():
    made = drawn([solves(copy_gbps=160e-9)], "roofline")
    assert shares(made) == pytest.approx([40.0, 55.0])
    assert "bytes moved at least over the time" in made.caption
    assert "of a GPU of this name" not in made.caption
    assert "left out" not in made.caption
    assert "; colour: fewest bits read;" in made.caption
    row = solves(copy_gbps=160e-9)
    made = drawn([{**row, "results": row["results"][:1]}], "roofline")
    assert "a sweep moves the matrix once" in made.caption
    assert "refine" not in made.caption
    assert "; bits read: 64;" in made.caption
    entries = [text.get_text() for legend in made.figure.legends for text in legend.get_texts()]
    assert [each for each in entries if each.strip()] == ["copy"]
    trimmed = [{**row["results"][1], "whole": False}]
    assert drawn([{**row, "results": trimmed}], "roofline") is None
    made = drawn([{**row, "results": row["results"][:1] + trimmed}], "roofline")
    assert shares(made) == pytest.approx([40.0])
    assert "; left out: 1 result of refine, which may have trimmed the graph" in made.caption


def test_bars_have_the_order_of_the_configuration_and_their_numbers():
    lines = [
        {"engine": "cuda", "storage": storage, "layout": None, "bits": [64], "solve_samples_s": samples}
        for storage, samples in (("fp32", [1.0, 2.0, 3.0]), ("fp64", [4.0] * 3), ("fp16", [1.5] * 3))
    ]
    shared = {"kind": "contest", "layout": "csr", "nodes": 2, "copy_gbps": 64e-9, **GPU}
    rows = [
        {**ROW, **shared, "cell": f"{edges} {tol}", "graph": f"g{edges}", "edges": edges, "tol": tol}
        | {"results": [{**line, "tol": tol} for line in lines]}
        for edges in range(2, 22)
        for tol in (1e-4, 1e-8)
    ]
    made = drawn(rows, "roofline")
    grid = made.figure.axes
    assert [text.get_text() for text in grid[0].get_yticklabels()] == ["fp32", "fp64", "fp16"]
    assert [axes.get_title() for axes in grid] == ["g12", "g13", "g15", "g16", "g17", "g18", "g20", "g21"]
    assert "; 8 of 20 graphs, evenly chosen by size among the larger half" in made.caption
    assert "; tolerance 1e-08, the smallest of 2" in made.caption
    assert made.figure.get_supxlabel() == "effective bandwidth, % of a copy"
    for axes in grid:
        assert [float(text.get_text()) for text in axes.texts] == [round(each) for each in shares_of(axes)]
        assert len(axes.texts) == len(axes.patches) == 3
    tall = [{**row, "results": [{**each, "layout": f"csr{n}"} for each in lines for n in range(12)]} for row in rows]
    for row in tall:
        for each in row["results"]:
            each["least_bytes"] = 64
    made = drawn(tall, "roofline")
    assert made.figure.get_figheight() < HIGHEST_IN
    assert "; 2 of 20 graphs, evenly chosen by size among the larger half; " in made.caption
    assert "of 36 contestants, in whole series; left out: cuda csr" in made.caption
    shown = [text.get_text().split() for text in made.figure.axes[0].get_yticklabels()]
    assert {storage for storage, _ in shown} == {"fp16", "fp32", "fp64"}
    assert len(shown) == 3 * len({layout for _, layout in shown})


def shares_of(axes):
    return [bar.get_width() for bar in sorted(axes.patches, key=lambda bar: bar.get_y())]


def test_rows_of_single_solves_have_the_bytes_of_their_iterations_by_bits():
    shared = {**ROW, "nodes": 2, "edges": 2, "solve_s": 1.0, "host_copy_gbps": 176e-9}
    lines = [("fp16", "refine", "pattern"), ("fp64", "power", "ell"), ("cpms2", "power", "csr")]
    shared["whole"] = True
    rows = [
        {**shared, "cell": storage, "storage": storage, "method": method, "layout": layout}
        | {"iterations_by_bits": {"64": 1, "16": 1} if method == "refine" else {"64": 1}}
        for storage, method, layout in lines
    ]
    made = drawn(rows, "roofline")
    assert shares(made) == pytest.approx([100 * 64 / 176, 50.0])
    assert "; left out: 1 result whose row lacks its bytes" in made.caption
    rows[1]["least_bytes"] = 88
    assert shares(drawn(rows, "roofline")) == pytest.approx([100 * 64 / 176, 50.0, 50.0])


def roofline(rows, beside):
    return drawn_alone(rows, "roofline", beside=beside)


def test_a_gpu_without_a_rate_is_compared_with_the_median_of_other_rows():
    others = [
        {**GPU, "experiment": "copies", "status": "ok", "cell": str(gbps), "kind": "spmv", "copy_gbps": gbps * 1e-9}
        for gbps in (150, 150, 170)
    ]
    others[2] = {**others[2], "copy_gbps": None, "ceilings": {"copy_gbps": 170e-9}}
    made = roofline([solves()], others)
    assert shares(made) == pytest.approx([40.0, 55.0])
    assert "; rate: median of 2 rows of GPUs of this name, 0 to 0 GB/s" in made.caption
    assert made.cells == ["0", "150", "170"]
    assert [row["experiment"] for row in made.beside] == ["copies"] * 2
    own = roofline([solves(copy_gbps=320e-9)], others)
    assert shares(own) == pytest.approx([20.0, 27.5])
    assert own.cells == ["0"]


@pytest.mark.parametrize(
    "other", [{"gpu": "A100"}, {"kind": "conversion"}, {"gpu": None, "cpu": "a"}, {"copy_gbps": 0.0}]
)
def test_a_rate_of_other_memory_is_not_taken(other):
    beside = [{**GPU, "experiment": "copies", "status": "ok", "cell": "1", "kind": "spmv", "copy_gbps": 1e-7, **other}]
    assert roofline([solves()], beside) is None


def test_processors_are_compared_with_their_own_rate_alone():
    row = solves()
    row["results"][0]["engine"] = "cpu"
    beside = [{**GPU, "experiment": "copies", "status": "ok", "cell": "1", "kind": "spmv", "copy_gbps": 160e-9}]
    made = roofline([row], [*beside, {**row, "host_copy_gbps": 1.0}])
    assert shares(made) == pytest.approx([55.0])
    assert "left out: 1 result without the rate of a copy on its device" in made.caption


def test_linear_solves_on_a_gpu_have_a_share_of_the_bytes_they_read():
    line = {"engine": "cuda", "method": "cg", "storage": "fp64", "vectors": ["fp64"], "status": "CONVERGED"}
    line |= {"used": "cg", "stored_as": "fp64", "vectors_as": ["fp64"], "iterations_by_bits": {"64": 3}}
    row = {**ROW, **GPU, "kind": "linear", "cell": "0", "rows": 9, "entries": 9, "host_copy_gbps": 1.0}
    del row["engine"]
    row["ways_found"] = [{**line, "bytes_read": 10**9, "solve_s": 2.0}]
    assert drawn([row], "roofline") is None
    made = roofline([row], [{**GPU, "experiment": "copies", "status": "ok", "cell": "1", "copy_gbps": 1.0}])
    assert shares(made) == pytest.approx([50.0])
    assert "bytes read over the time" in made.caption


def test_rows_hold_the_rate_of_each_memory_that_their_engines_work_in(monkeypatch):
    monkeypatch.setattr(timers, "_device_copy_bandwidth", lambda: 4.0)
    monkeypatch.setattr(timers, "host_copy_bandwidth", lambda: 2.0)
    monkeypatch.setattr(timers.engines.get_any("cuda").__class__, "missing", lambda _: None)
    monkeypatch.setattr(timers.engines, "finds_device", lambda: True)
    assert timers.copy_rates(["cuda", "cpu", "cpu"]) == {"copy_gbps": 4.0, "host_copy_gbps": 2.0}
    assert timers.copy_rates(["cupy"]) == timers.copy_rates(["auto"]) == {"copy_gbps": 4.0}
    monkeypatch.setattr(timers.engines.get_any("cuda").__class__, "missing", lambda _: "no GPU")
    monkeypatch.setattr(timers.engines, "finds_device", lambda: False)
    assert timers.copy_rates(["cuda", "absent.py:ENGINE"]) == {}
    assert timers.copy_rates(["auto"]) == {"host_copy_gbps": 2.0}


@pytest.mark.representatives(tolerances=("13",))
@pytest.mark.representatives(width=("single",), count=("2",))
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [1, 2, 6])
@pytest.mark.parametrize("tolerances", [3, 7, 13])
def test_marks_of_one_tolerance_are_a_marks_width_apart_if_there_is_space_and_never_beyond_its_lines(
    width, count, tolerances
):
    storages = ["fp64", "fp32", "fp16", "cpms2", "cpms4", "e5m2"][:count]
    rows = [
        {**ROW, "cell": f"{storage} {place}", "storage": storage, "tol": 10.0**-place, "solve_s": float(place)}
        for storage in storages
        for place in range(1, tolerances + 1)
    ]
    figure = drawn(rows, "tolerance", width).figure
    figure.draw_without_rendering()
    (axes,) = figure.axes
    marks = [line for line in axes.lines if line.get_marker() not in ("None", "", None)]
    places = sorted(line.get_transform().transform(line.get_xydata())[0][0] * 72 / figure.dpi for line in marks)
    between = sorted(
        axes.transData.transform((line.get_xdata()[0], 1.0))[0] * 72 / figure.dpi
        for line in axes.lines
        if line.get_color() == "#c8c8c8"
    )
    assert len(places) == count * tolerances
    assert len(between) == tolerances - 1
    assert [sum(place < end for place in places) for end in between] == [count * k for k in range(1, tolerances)]
    space = (places[-1] - places[0]) / tolerances
    near = min(np.diff(places))
    assert near >= marks[0].get_markersize() or near >= 0.7 * space / count
    assert sum(bool(text.get_text()) for text in axes.get_xticklabels()) >= 3


@pytest.mark.parametrize(("gbps", "stated"), [(8.0, False), (1.9, True)])
def test_captions_say_why_a_share_is_above_that_of_a_copy(gbps, stated):
    made = drawn(products(host_copy_gbps=gbps), "roofline")
    assert ("; above 100 %: caches hold data" in made.caption) == stated
    (axes,) = made.figure.axes
    assert [text.get_text() for text in axes.texts] == (["105", "211"] if stated else ["25", "50"])


@pytest.mark.parametrize(("ratio", "apart"), [(3.0, False), (5.0, True)])
def test_times_of_graphs_that_are_far_apart_are_those_over_the_slowest(ratio, apart):
    rows = [
        {**ROW, "cell": f"{graph} {storage}", "graph": graph, "storage": storage, "solve_s": factor * time}
        for graph, factor in (("path", 1.0), ("ring", ratio))
        for storage, time in (("fp64", 2.0), ("cpms2", 1.5))
    ]
    made = drawn(rows, "time")
    ends = {axes.get_title(): max(bar.get_width() for bar in axes.patches) for axes in made.figure.axes}
    assert ends == ({"path": 1.0, "ring": 1.0} if apart else {"path": 2.0, "ring": 2.0 * ratio})
    assert (made.figure.get_supxlabel() == "time of a solve over the slowest of the graph") == apart


@pytest.mark.parametrize("graphs", [1, 2])
def test_marks_of_a_tolerance_that_share_a_place_do_not_meet(graphs):
    """Times that are little apart are beside each other where the panel is low."""
    rows = [
        {"cell": f"{graph} {tol} {place}", "experiment": "mine", "status": "ok", "graph": f"g{graph}", "engine": "cpu"}
        | {"storage": f"fp{64 >> place}", "tol": tol, "solve_s": 1.14**place + 9.0 * (place == 2)}
        for graph in range(graphs)
        for tol in (1e-4, 1e-6, 1e-10)
        for place in range(3)
    ]
    figure = drawn(rows, "tolerance").figure
    figure.draw_without_rendering()
    for axes in figure.axes:
        marks = [line for line in axes.lines if line.get_marker() not in ("None", "", None)]
        places = [axes.transData.transform(line.get_xydata())[0] * 72 / figure.dpi for line in marks]
        apart = [np.hypot(*(one - other)) for one, other in itertools.combinations(places, 2)]
        assert min(apart) > min(line.get_markersize() for line in marks) + 1.5
