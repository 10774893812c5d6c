"""Solves in step: who runs with whom, how many at a time, and in which order answers return."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cpms.contracts.conjugate_gradients import SHARED, CgRun
from cpms.solvers.linear.shared_reads import alone, together


def a_solve(name, runs, groups, log):
    """Return a solve of some runs; ``groups`` has the ``shared_read`` of each of them."""

    def run_together(given):
        log.append([each.iterations.name for each in given])
        return [[each.most] for each in given]

    for count in range(runs):
        iterations = SimpleNamespace(name=name, shared_read=groups[count], run_together=run_together)
        iterations.run = lambda count, _, name=name: log.append(name) or [count]
        assert (yield CgRun(iterations, count, 0.0)) == [count]
    return f"answer {name}"


def test_solves_run_together_and_a_new_one_takes_the_place_of_one_that_ended():
    log, runs = [], [3, 1, 2, 2, 0, 1, 1]
    found = together(a_solve(name, count, "AAA", log) for name, count in enumerate(runs))
    assert found == [f"answer {name}" for name in range(7)]
    assert log == [[0, 1, 2, 3], [0, 2, 3, 5], [0, 6]]
    assert max(map(len, log)) == SHARED


def test_solves_that_cannot_share_run_one_after_the_other():
    log = []
    assert together(a_solve(name, 2, [None, None], log) for name in "xy") == ["answer x", "answer y"]
    assert log == ["x", "x", "y", "y"]
    assert together([]) == []
    assert alone(a_solve("z", 0, "", log)) == "answer z"


def test_a_solve_in_another_format_goes_on_apart():
    log = []
    together([a_solve("x", 3, "AAA", log), a_solve("y", 3, "ABB", log), a_solve("z", 3, ["A", None, "A"], log)])
    assert log == [["x", "y", "z"], "z", ["x", "z"], ["y"], ["x"], ["y"]]


def test_an_error_of_one_is_that_of_all():
    def fails():
        raise ValueError("no")
        yield

    with pytest.raises(ValueError, match="no"):
        together([a_solve("x", 1, "A", []), fails()])
