"""Captions and legends name what is drawn: its nouns, its source, its devices, and the graphs of a mean."""

from __future__ import annotations

import pytest
from one_drawing import drawn_alone

from cpms.experiment.report.captions import provenance
from cpms.experiment.report.generic.conditions import conditions
from cpms.experiment.report.observations import observations
from cpms.experiment.report.show import styled
from cpms.experiment.report.style import WIDTHS
from cpms.experiment.report.templates import TEMPLATES

ROW = {"experiment": "mine", "status": "ok", "engine": "cpu", "solve_s": 1.0}


def rows_of(lines, **more):
    return [{**ROW, "cell": str(place), **line, **more} for place, line in enumerate(lines)]


def made_of(rows, name, width="single"):
    with styled():
        made = TEMPLATES[name](observations(rows), WIDTHS[width], None)
        made[0].draw_without_rendering()
    return made


def legend_of(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts() if text.get_text().strip()]


def test_quoted_times_have_their_source_in_place_of_a_commit():
    quoted = {**ROW, "cell": "0", "gpu": "H200", "source": "another program, 2026: median of 7 solves"}
    text = provenance([quoted])
    assert "Quoted from another program, 2026." in text
    assert "Commit" not in text
    both = provenance([quoted, {**ROW, "cell": "1"}])
    assert "Quoted from another program, 2026. Commit: unknown." in both


@pytest.mark.parametrize(("devices", "machine"), [(4, "4 x H200"), (1, "H200"), (None, "H200")])
def test_several_devices_are_counted(devices, machine):
    row = {**ROW, "cell": "0", "engine": "mpi_cuda", "gpu": "H200", "devices": devices}
    assert provenance([row]).startswith(f"Machine: {machine}. ")


@pytest.mark.parametrize(("kind", "of_value"), [("passes", True), ("vector_bits", True), ("spmv", False)])
def test_bits_of_passes_are_those_of_a_vector_and_their_cases_are_matrices(kind, of_value):
    lines = [{"graph": f"g{k}", "storage": name, "solve_s": 2.0**k} for k in range(9) for name in ("fp64", "fp32")]
    _, caption, *_ = made_of(rows_of(lines, kind=kind), "time")
    assert ("bits of a vector's value" in caption) == of_value
    assert ("over the slowest time of the matrix" in caption) == of_value
    assert ("graph" in caption) != of_value


def test_numbers_of_problems_have_a_noun():
    lines = [
        {"graph": f"g{k}", "storage": storage, "engine": engine, "kind": "rounding", "solve_s": time}
        for k in range(5)
        for storage in ("fp16", "fp32")
        for engine, time in (("cpu", 1.0), ("scipy", 2.0))
    ]
    assert "; 5 problems of 16 bits and 5 of 32 bits" in made_of(rows_of(lines), "speedup")[1]
    alone = [{**line, "graph": "g0"} for line in lines[:4]]
    assert "; 1 format of 16 bits and 1 of 32 bits" in made_of(rows_of(alone), "speedup")[1]


def test_a_stroke_of_linear_systems_is_a_matrix():
    lines = [
        {"graph": f"g{k}", "rhs": rhs, "storage": storage, "solve_s": time, "kind": "linear"}
        for k in range(3)
        for rhs in ("ones", "random")
        for storage, time in (("fp64", 2.0 + k), ("fp32", 1.0))
    ]
    figure, caption, *_ = made_of(rows_of(lines), "speedup")
    assert "; strokes: the mean of each matrix;" in caption
    assert "a matrix" in legend_of(figure)


def test_a_mean_is_of_all_graphs_though_few_have_a_row():
    lines = [
        {"graph": f"g{k}", "storage": storage, "solve_s": time + 0.1 * k}
        for k in range(60)
        for storage, time in (("fp64", 2.0), ("fp32", 1.0))
    ]
    assert " of 60 graphs, evenly chosen; the mean is of all" in made_of(rows_of(lines), "speedup")[1]


def test_one_series_of_several_contestants_has_an_entry():
    lines = [{"graph": "g", "storage": f"fp{bits}", "bytes_read": 1e6 * bits} for bits in (16, 32, 64)]
    assert "fp64/fp32/fp16" in legend_of(made_of(rows_of(lines), "traffic")[0])


def test_a_result_without_a_layout_has_that_of_its_cell():
    results = [{"engine": "cpu", "layout": layout, "solve_s": 1.0} for layout in (None, "pattern")]
    found = observations([{**ROW, "cell": "0", "graph": "g", "layout": "csr", "results": results}])
    assert found.layout.tolist() == ["csr", "pattern"]


def test_graphs_that_are_chosen_have_the_baseline():
    lines = [
        {"graph": f"g{k:02}", "storage": storage, "solve_s": 1.0 + k + place / 7}
        for k in range(30)
        for place, storage in enumerate(("fp64", "fp32", "fp16", "bf16"))
        if storage != "fp64" or k % 2
    ]
    figure, *_ = made_of(rows_of(lines), "time")
    titles = [int(axes.get_title()[1:]) for axes in figure.axes]
    assert titles
    assert all(k % 2 for k in titles)


def test_bars_of_the_only_contestant_with_bytes_are_named():
    lines = [
        {"graph": f"g{k}", "storage": "fp64", "bytes_read": 1e9, "host_copy_gbps": 9.0, "cpu": "a"} for k in range(3)
    ]
    lines += [{"graph": f"g{k}", "storage": "fp32"} for k in range(3)]
    assert "; all bars: fp64;" in made_of(rows_of(lines), "roofline")[1]


def test_a_pass_over_a_graph_without_a_cycle_is_stated_where_it_is_drawn():
    lines = [
        {"graph": graph, "method": method, "storage": storage, "iterations": count, "iterations_by_bits": {bits: count}}
        for graph, sweeps in (("acyclic", 1), ("web", 9))
        for method, storage, count, bits in (
            ("power", "fp64", 30, "64"),
            ("refine", "fp16", sweeps, "64" if sweeps == 1 else "16"),
        )
    ]
    rows = rows_of(lines, kind="pagerank")
    found = observations(rows)
    for drawn, stated in ((None, True), (["acyclic"], True), (["web"], False), ([], False)):
        assert ("without a cycle, refine takes one pass" in conditions(rows, found, drawn=drawn)) == stated
    assert "cycle" in drawn_alone(rows, "time").caption
    assert "cycle" not in drawn_alone(rows, "speedup").caption


def test_a_name_of_its_own_is_no_parameter_beside_others():
    lines = [{"name": "import cpms"}, {"engine": "cpu", "method": "power"}, {"engine": "cpu", "method": "refine"}]
    rows = [{**row, "graph": "g", "kind": "startup"} for row in rows_of(lines)]
    del rows[0]["engine"]
    assert "Contestants are named by engine, method." in drawn_alone(rows, "time").caption
    assert "time of a process" in drawn_alone(rows, "time").caption


def test_one_value_has_no_range():
    drawing = drawn_alone(rows_of([{"graph": "g"}, {"graph": "g", "engine": "scipy", "solve_s": 2.0}]), "speedup")
    assert drawing.alt == "Values of the speed-up of cpu over each of 1 contestant, 2 times (scipy)."
