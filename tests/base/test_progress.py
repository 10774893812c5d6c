"""Work is shown from two seconds on: by its phase, compilations too, and with the time that is left."""

from __future__ import annotations

import io
import re
import sys
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms.base import work_clock
from cpms.base.text import phases, progress
from cpms.base.text.terminal import say


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal(monkeypatch):
    """Return a terminal on standard error, on which work is looked at each 0.01 s."""
    found = Terminal()
    monkeypatch.setattr("sys.stderr", found)
    monkeypatch.setattr(progress, "_EVERY_S", 0.01)
    return found


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_compilations_are_phases_by_name_of_nested_ones_the_outermost():
    with progress.compilations():
        for name, count in (("outer", 1), ("second", 2)):
            with work_clock.compiling(name), work_clock.compiling("inner"):
                assert phases.current().name == f"compiling {name}, {count} so far; later runs reuse it"
            assert phases.current() is None
    with work_clock.compiling("after"):
        assert phases.current() is None


def test_compilations_are_shown_with_the_time_since_they_began(monkeypatch):
    stream = terminal(monkeypatch)
    with progress.compilations(), progress.working("cpms rank", after_s=0.01), work_clock.compiling("sweep"):
        wait_until(lambda: "compiling sweep, 1 so far; later runs reuse it, 00:01" in stream.getvalue())


def test_functions_that_numba_compiles_are_reported():
    from cpms.base.jit import numba

    names = []
    with work_clock.watched(names.append):
        numba.njit(lambda x: x + 1)(2)
    assert names[0] == "<lambda>"
    assert names.count(None) == len(names) - names.count(None)


def test_the_bar_of_a_solve_has_residual_and_time_left(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with progress.ResidualBar(1e-4, after_s=0.0) as bar:
        for place, residual in enumerate([1.0, 0.9, 0.1, 0.5, 1e-2, 0.0]):
            bar.step(SimpleNamespace(iteration=place, bits=16, residual=residual, seconds=10.0 * place))
    shown = [line.strip() for line in stream.getvalue().split("\r") if "residual 1.0e-02" in line]
    assert shown
    assert all(line.startswith("iteration 4, 16 bits") for line in shown)
    times = re.findall(r"iteration (\d).*, (\d\d:\d\d) left", stream.getvalue().replace("\r", "\n"))
    assert [*dict.fromkeys(times)] == [("2", "01:00"), ("3", "01:30"), ("4", "00:40")]


@given(
    rate=st.floats(0.1, 100.0),
    first=st.floats(1e-3, 10.0),
    fallen=st.floats(0.5, 6.0),
    left=st.floats(0.0, 6.0),
    began=st.floats(0.0, 50.0),
)
def test_the_time_left_is_that_of_a_decade_for_each_decade(rate, first, fallen, left, began):
    last = first * 10.0**-fallen
    found = progress.time_left_s((began, first), (began + rate * fallen, last), last * 10.0**-left)
    assert found is None or found == pytest.approx(rate * left, rel=1e-6, abs=1e-6)
    assert (found is None) <= (fallen < 0.51)


@pytest.mark.parametrize(
    ("first", "last", "tol"),
    [
        ((0.0, 1.0), (5.0, 0.4), 1e-10),
        ((0.0, 1.0), (5.0, 1.0), 1e-10),
        ((0.0, 1.0), (5.0, 0.0), 1e-10),
        ((0.0, 1.0), (5.0, float("nan")), 1e-10),
        ((0.0, float("inf")), (5.0, 1e-3), 1e-10),
        ((0.0, 1.0), (5.0, 1e-3), 0.0),
    ],
)
def test_a_residual_without_a_rate_tells_no_time(first, last, tol):
    assert progress.time_left_s(first, last, tol) is None


def test_parts_of_a_cell_tell_the_time_that_is_left(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    progress.part_done(1, 2)
    bar = progress.CellBar(["a", "b"], desc="mine")
    monkeypatch.setattr(bar, "_time", lambda: bar.start_t + 30.0)
    lines = []
    for item in bar:
        lines.append(str(bar))
        progress.part_done(1, 4)
        lines.append(str(bar))
        if item == "b":
            break
    bar.close()
    assert [re.search(r"\[.*\]", line)[0] for line in lines[:2]] == ["[00:30<?]", "[00:30<03:30]"]
    assert "0/2" in lines[1]


def test_a_finished_cell_leaves_no_part(monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    bar = progress.CellBar(["a", "b"], desc="mine", mininterval=0)
    monkeypatch.setattr(bar, "_time", lambda: bar.start_t + 30.0)
    for _ in bar:
        progress.part_done(2, 2)
    assert re.search(r"2/2 \[.*\]", str(bar))[0] == "2/2 [00:30<00:00]"


def test_cells_without_a_terminal_show_nothing(monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    for _ in progress.CellBar([1], disable=True):
        progress.part_done(1, 2)
    assert not sys.stderr.getvalue()


def test_work_without_a_bar_is_shown_by_its_name_and_gives_way_to_bars(monkeypatch):
    stream = terminal(monkeypatch)
    with progress.working("cpms rank\x1b[31m", after_s=0.01):
        wait_until(lambda: "cpms rank\\x1b[31m, 00:00" in stream.getvalue())
        with progress.Bar(range(3), desc="cells", leave=False) as bar:
            wait_until(lambda: [*progress.Bar._instances] == [bar])
    assert not progress.Bar._instances


def test_a_phase_is_shown_by_its_escaped_name_with_the_time_that_is_left(monkeypatch):
    stream = terminal(monkeypatch)
    with (
        progress.working("cpms rank", after_s=0.01),
        phases.phase("reading \x1b[31m.txt", 4) as reading,
    ):
        wait_until(lambda: re.search(r"reading \\x1b\[31m.txt:   0%\|.*\| 00:00<\?", stream.getvalue()))
        reading.advance()
        wait_until(lambda: re.search(r" 25%\|.*\| \d\d:\d\d<\d\d:\d\d", stream.getvalue()))
        reading.advance(3)
        wait_until(lambda: re.search(r"100%\|.*\| \d\d:\d\d<00:00", stream.getvalue()))
        with phases.phase("sorting edges"):
            wait_until(lambda: "sorting edges, 00:00" in stream.getvalue())
    assert "\x1b[31m" not in stream.getvalue()


def test_a_bar_names_the_phase_of_the_work_behind_it(monkeypatch):
    stream = terminal(monkeypatch)
    with progress.working("cpms run", after_s=0.01), progress.Bar(total=2, desc="cells", leave=False):
        with phases.phase("sorting\x1b[31m edges"):
            wait_until(lambda: "it/s, sorting\\x1b[31m edges" in stream.getvalue())
        wait_until(lambda: "sorting" not in stream.getvalue().rpartition("\r")[2])
        assert "cells" in stream.getvalue().rpartition("\r")[2]


def test_nothing_is_shown_of_short_work_or_without_a_terminal(monkeypatch):
    step = SimpleNamespace(iteration=1, bits=64, residual=0.1, seconds=0.0)
    for stream, after_s in ((Terminal(), 60.0), (io.StringIO(), 0.0)):
        monkeypatch.setattr("sys.stderr", stream)
        with (
            progress.compilations(),
            progress.working("cpms rank", after_s=after_s),
            phases.phase("reading", 2) as reading,
            progress.ResidualBar(1e-4, after_s=after_s) as bar,
            work_clock.compiling("sweep"),
        ):
            reading.advance()
            bar.step(step)
            time.sleep(0.02)
        assert stream.getvalue() == ""


def test_lines_of_output_do_not_follow_a_bar(monkeypatch):
    both = Terminal()
    monkeypatch.setattr("sys.stderr", both)
    monkeypatch.setattr("sys.stdout", both)
    with progress.Bar(range(3), desc="cells", leave=False):
        say("a line")
    before, _, _ = both.getvalue().partition("a line\n")
    assert before.endswith("\r")
