"""Compilations are reported by name, innermost ones too, and a bar of a solve has the time that is left."""

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
from cpms.base.text import progress
from cpms.base.text.terminal import say


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_compilations_are_shown_by_name_on_a_terminal_alone(monkeypatch):
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr("sys.stderr", stream)
        with progress.compilations():
            with work_clock.compiling("outer\x1b[31m"), work_clock.compiling("inner"):
                pass
            with work_clock.compiling("second"):
                pass
        shown = stream.getvalue()
        assert ("compiling outer\\x1b[31m, 1 so far" in shown) == stream.isatty()
        assert ("compiling second, 2 so far" in shown) == stream.isatty()
        assert "inner" not in shown
    with work_clock.compiling("after"):
        assert "after" not in stream.getvalue()


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
    with progress.ResidualBar(1e-4) as bar:
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


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


def test_work_without_a_bar_is_shown_by_its_name_and_gives_way_to_bars(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress, "_EVERY_S", 0.01)
    with progress.working("cpms rank\x1b[31m", after_s=0.01):
        wait_until(lambda: "cpms rank\\x1b[31m, 00:00" in stream.getvalue())
        assert "cpms rank\\x1b[31m, 00:00" in stream.getvalue()
        with progress.Bar(range(3), desc="cells", leave=False) as bar:
            wait_until(lambda: [*progress.Bar._instances] == [bar])
            assert [*progress.Bar._instances] == [bar]
    assert not progress.Bar._instances


def test_nothing_is_shown_of_short_work_or_without_a_terminal(monkeypatch):
    for stream, after_s in ((Terminal(), 60.0), (io.StringIO(), 0.0)):
        monkeypatch.setattr("sys.stderr", stream)
        with progress.working("cpms rank", after_s=after_s):
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
