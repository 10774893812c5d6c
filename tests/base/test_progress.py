"""Compilations are reported by name, innermost ones too, and a bar of a solve has the time that is left."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace

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
        bar.step(SimpleNamespace(iteration=1, bits=16, residual=1e-2))
        bar.step(SimpleNamespace(iteration=2, bits=16, residual=0.0))
    assert "iteration 1, 16 bits, residual 1.0e-02" in stream.getvalue()
    assert " left" in stream.getvalue()


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
