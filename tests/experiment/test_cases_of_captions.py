"""Captions and axes say of what work a time is, of how many cases results are drawn, and to what tolerances."""

from __future__ import annotations

import re

import pytest
from recorded_rows import recorded

from cpms.experiment.report import templates
from cpms.experiment.report.generic import contestants
from cpms.experiment.report.generic.scatters import strips
from cpms.experiment.report.observations import observations
from cpms.experiment.report.show import styled

BITS = {"fp64": 64, "fp32": 32, "fp16": 16}
TOLERANCES = (1e-4, 1e-8)


def drawn(rows, name, width="single"):
    with styled():
        return next(each for each in templates.drawings(rows, width=width) if each.name == name)


def texts_of(figure):
    labels = [figure.get_supxlabel(), figure.get_supylabel()]
    return " ".join([*labels, *(text for axes in figure.axes for text in (axes.get_xlabel(), axes.get_ylabel()))])


def rows_of(graphs, *, layouts=9, tolerances=(1e-9,), **more):
    """Return rows of contestants whose errors differ little, so that each has a row of marks."""
    return [
        {"cell": f"{graph} {storage} {layout} {tol}", "experiment": "mine", "status": "ok", "graph": f"graph-{graph}"}
        | {"engine": "cpu", "storage": storage, "layout": f"layout-{layout}", "tol": tol, "edges": 10 + graph}
        | {"solve_s": 3.0**graph * bits * 1.003**layout, "bytes_read": 5.0**graph * bits * 1e6 * 1.003 ** (2 * layout)}
        | {"error_l1": tol * 10.0 ** (0.04 * layout - bits / 8) * 2.0**graph, "bits": bits, **more}
        for graph in range(graphs)
        for layout in range(layouts)
        for storage, bits in [[*BITS.items()][layout % 3]]
        for tol in tolerances
    ]


@pytest.mark.parametrize(("kind", "work"), [("ppr", "query"), ("pagerank", "solve"), ("sweeps", "sweep")])
@pytest.mark.parametrize("name", ["time", "speedup", "traffic"])
def test_axes_and_captions_say_of_what_work_a_time_is(kind, work, name):
    made = drawn(rows_of(3, layouts=3, kind=kind), name)
    assert f"time of a {work}" in " ".join(texts_of(made.figure).split())
    assert f"time of a {work}" in made.caption


def test_the_iterations_of_a_run_are_stated():
    made = drawn(rows_of(3, layouts=3, kind="opencl", iterations=12), "time")
    assert ": time of a run of 12 iterations" in made.caption


@pytest.mark.parametrize(("samples", "word"), [([1.0], ""), ([1.0, 2.0, 4.0], "median ")])
@pytest.mark.parametrize("name", ["time", "traffic"])
def test_times_are_medians_only_where_results_have_several_samples(name, samples, word):
    rows = rows_of(3, layouts=3)
    for row in rows:
        row["solve_samples_s"] = [row["solve_s"] * each for each in samples]
    assert f"Experiment mine: {word}time" in drawn(rows, name).caption
    assert f"Experiment mine: {word}time" in templates.table(rows)[1]


def test_the_only_graph_is_not_counted_with_its_problems():
    caption = drawn(rows_of(1, layouts=3, tolerances=TOLERANCES), "speedup").caption
    assert "geometric mean over the same 2 tolerances for all" in caption


def test_rows_of_a_speedup_are_for_what_they_are_named_by():
    rows = rows_of(6, layouts=2, tolerances=TOLERANCES)
    caption = drawn(rows, "speedup").caption
    assert "; a row for each graph and tolerance, and their geometric mean" in caption


@pytest.mark.parametrize("graphs", [1, 3])
def test_tolerances_have_markers_on_several_graphs_too(graphs):
    made = drawn(rows_of(graphs, tolerances=TOLERANCES), "error")
    assert len({line.get_marker() for line in made.figure.axes[-1].lines}) == len(TOLERANCES)
    assert {f"tol={each:g}" for each in TOLERANCES} <= {text.get_text() for text in made.figure.legends[0].get_texts()}


def test_of_marks_too_many_for_markers_the_caption_states_the_tolerances(monkeypatch):
    """A median of errors at several tolerances would mean nothing."""
    monkeypatch.setattr(strips, "_MOST_SHAPED", 3)
    made = drawn(rows_of(3, tolerances=TOLERANCES), "error")
    assert {line.get_marker() for line in made.figure.axes[-1].lines} == {"o"}
    assert "pairs of graph and tolerance (tolerances: 0.0001, 1e-08)" in made.caption


def test_tolerances_that_each_result_has_of_its_own_are_no_problems():
    """Solves by peers have the loosest tolerance within one error: all are compared on all graphs."""
    rows = recorded().chosen(["cpu_peers"]).rows
    found = observations(rows)
    assert found.case.nunique() == found.graph.nunique()
    assert found.groupby("called").case.nunique().eq(found.graph.nunique()).all()
    for name in ("time", "speedup", "error"):
        made = drawn(rows, name)
        said = "Tolerance of each result: the loosest tried whose error is at most 1e-09; igraph PRPACK takes none."
        assert said in made.caption
    assert "not ranked" not in drawn(rows, "speedup").caption


def test_cases_are_counted_with_those_that_nobody_solves_and_chosen_by_a_rule_that_is_stated():
    rows = recorded().chosen(["regret"]).rows
    for name in ("time", "speedup", "traffic", "roofline"):
        caption = drawn(rows, name).caption
        assert re.findall(r"\d+ of (\d+) systems", caption) == [str(len({row["graph"] for row in rows}))]
        rule = "those that all contestants here solve" if name in ("speedup", "traffic") else "evenly chosen"
        assert rule in caption


@pytest.mark.parametrize("lacking", [False, True])
def test_rows_of_marks_state_by_what_rule_their_graphs_are_chosen(lacking):
    """On the last graph all read one number of bits, and on the first few contestants have results."""
    rows = [{**row, "bits": 64} if row["graph"] == "graph-5" else row for row in rows_of(6)]
    rows = [
        row for row in rows if row["graph"] != "graph-0" or not lacking or row["layout"] in ("layout-0", "layout-1")
    ]
    caption = drawn(rows, "error").caption
    rule = "5 or more of these contestants have results, and mean bits differ" if lacking else "mean bits differ"
    assert f"{5 - lacking} of 6 graphs: those on which {rule}" in caption


@pytest.mark.parametrize("name", ["time", "speedup", "error"])
def test_runs_for_several_purposes_are_no_graphs(name):
    rows = [
        {**row, "kind": "opencl", "cell": f"{row['cell']} {purpose}", "purpose": purpose}
        for row in rows_of(3)
        for purpose in ("stages", "long")
    ]
    found = observations(rows)
    assert found.graph.nunique() == 6
    caption = drawn(rows, name).caption
    assert re.search(r"(each|6) runs?\b", caption)
    assert "A run is of a graph, for a purpose that the configuration names." in caption
    assert not re.search(r"\d graphs", caption)


def test_a_mean_over_graphs_with_different_numbers_of_problems_is_called_so():
    """Each graph has one ratio in it, so that it is no mean over the pairs."""
    rows = [
        *rows_of(2, layouts=3, tolerances=TOLERANCES),
        *({**row, "graph": "graph-2", "cell": f"alone {row['cell']}"} for row in rows_of(1, layouts=3)),
    ]
    for row in rows:
        row["solve_s"] *= 4.0 if (row["graph"], row["storage"]) == ("graph-2", "fp32") else 1.0
    made = drawn(rows, "speedup")
    said = "over the same 3 graphs for all, of each the mean over its tolerances (5 pairs of graph and tolerance)"
    assert said in made.caption
    means = [float(text.get_text()) for text in made.figure.axes[0].texts]
    assert pytest.approx(2.0 / 1.003 / 4.0 ** (1 / 3), rel=0.01) in means


def test_the_graphs_of_times_to_tolerances_are_those_with_several():
    rows = rows_of(3, layouts=3, tolerances=(1e-2, 1e-4, 1e-8))
    made = drawn([row for row in rows if row["graph"] != "graph-1" or row["tol"] == 1e-8], "tolerance")
    assert "; 2 of 3 graphs: those on which a contestant has 3 tolerances or more" in made.caption
    assert "; 3 of 3" not in drawn(rows, "tolerance").caption


def test_contestants_not_drawn_are_counted_by_whose_marks_they_have():
    alike = {f"drawn-{each}": [f"other-{each}-{number}" for number in range(3)] for each in range(9)}
    text = contestants.alike_in_words({**alike, "left": ["one", "two"]}, [*alike])
    assert text == "; not drawn, with the marks of others: 29 contestants"
