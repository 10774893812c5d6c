"""Times of unconverged solves and of wrong answers are neither drawn nor ranked, and captions state which they are."""

from __future__ import annotations

import pytest
from one_drawing import drawn_alone

from cpms.experiment.report.generic.flaws import fair
from cpms.experiment.report.observations import observations
from cpms.experiment.report.show import _matplotlib
from cpms.experiment.report.templates import drawings, speedups

_matplotlib()
FLAWS = {
    "9 of 10 queries converged": {"solver_converged": 9, "answered": 10},
    "not converged": {"solver_status": "stagnated"},
    "326 times the largest value is the error of its product": {"kind": "product", "error": 326.0},
    "other values": {"same_values": False},
}
RIGHT = {"solver_converged": 10, "answered": 10, "solver_status": "converged", "error": 0.5}
RIGHT |= {"same_values": True, "kind": "product", "experiment": "mine", "status": "ok", "engine": "cpu"}


def rows_with(more):
    """Return rows of three contestants on two graphs, of which one has a result with other columns."""
    storages = {"fp64": 4.0, "fp32": 2.0, "fp16": 1.0}
    rows = [
        {**RIGHT, "cell": f"{storage} {graph}", "graph": graph, "storage": storage, "solve_s": seconds}
        for graph in "ab"
        for storage, seconds in storages.items()
    ]
    return [{**row, **more} if row["cell"] == "fp16 b" else row for row in rows]


@pytest.mark.parametrize(("reason", "more"), FLAWS.items())
def test_a_result_that_counts_for_nothing_is_left_out_and_the_caption_states_why(reason, more):
    rows = rows_with(more)
    (line,) = (each for each in observations(rows).itertuples() if each.flaw)
    assert (line.flaw, line.graph) == (reason, "b")
    kept, text = fair(observations(rows))
    assert len(kept) == 5
    assert f"({reason}" in text
    captions = {each.name: each.caption for each in drawings(rows)}
    assert {name for name, caption in captions.items() if reason in caption} == {"time", "speedup", "error"}
    assert "on 1 matrix (a)" in captions["speedup"]
    wholly = [{**row, **more} if row["storage"] == "fp16" else row for row in rows]
    assert [line["called"] for line in speedups(observations(wholly), "fp64")] == ["fp32"]


def test_repetitions_count_only_if_all_of_them_do():
    rows = [{**row, "repetition": place} for place in (0, 1) for row in rows_with({})]
    rows[-1] |= FLAWS["not converged"]
    assert observations(rows).flaw.tolist() == [""] * 5 + ["not converged"]


def test_captions_state_how_many_linear_solves_did_not_converge():
    ways = [{"storage": name, "status": "CONVERGED", "solve_s": 1.0} for name in ("fp64", "fp32")]
    ways += [{"storage": name, "status": "STAGNATED", "solve_s": 0.1} for name in ("fp16", "bf16")]
    row = {"cell": "0", "experiment": "mine", "kind": "linear", "status": "ok", "graph": "g", "ways_found": ways}
    caption = drawn_alone([row], "time").caption
    assert "; not drawn: 2 of 4 solves, which did not converge" in caption


def test_results_left_out_are_stated_of_the_graphs_drawn_alone():
    found = observations(rows_with({"solver_status": "stagnated"}))
    texts = [fair(found, drawn=graphs)[1] for graphs in ({"a"}, {"b"}, {"a", "b"})]
    assert texts == [
        "",
        *(f"; results left out: fp16 (not converged{each})" for each in ("", ", 1 of 2 results")),
    ]


def test_flaws_that_differ_in_their_numbers_are_one_with_ranges():
    rows = [{**row, "solver_converged": place, "answered": 10 * (1 + place)} for place, row in enumerate(rows_with({}))]
    assert "; results left out: 3 contestants (0 to 5 of 10 to 60 queries converged)" in fair(observations(rows))[1]
