"""Threads: parts cover the work once, answers keep their order, errors come out."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms.base import threads
from cpms.base.errors import UnavailableError


@pytest.mark.quick
@given(st.integers(0, 10_000), st.integers(1, 500), st.integers(1, 64))
def test_ranges_cover_the_whole_once(length, at_least, parts):
    ranges = threads.ranges(length, at_least=at_least, parts=parts)
    assert [place for low, high in ranges for place in range(low, high)] == list(range(length))
    assert len(ranges) <= parts
    assert all(high - low >= at_least for low, high in ranges[:-1])


@pytest.mark.parametrize("count", [1, 2, 7, None])
def test_answers_come_in_the_order_of_the_parts(count):
    assert threads.each(lambda part: part * part, range(50), threads=count) == [part * part for part in range(50)]


def test_no_parts_give_no_answers():
    assert threads.each(abs, []) == []


def test_work_really_runs_in_as_many_threads_as_asked_for():
    meeting = threading.Barrier(3)
    assert sorted(threads.each(lambda _: meeting.wait(60), range(3), threads=3)) == [0, 1, 2]


@pytest.mark.quick
@pytest.mark.parametrize("count", [1, 2])
def test_an_error_in_a_part_comes_out(count):
    with pytest.raises(ZeroDivisionError):
        threads.each(lambda part: 1 // part, [1, 0, 2], threads=count)


@pytest.mark.quick
@given(st.lists(st.integers(), max_size=40), st.integers(0, 5), st.integers(1, 4))
def test_caller_and_helpers_do_each_part_once(parts, helpers, most):
    done = []
    with threads.limited(most):
        threads.each_beside_caller(done.append, parts, helpers=helpers)
    assert sorted(done) == sorted(parts)


@pytest.mark.parametrize("helpers", [1, 2])
def test_helpers_work_beside_the_caller(helpers):
    meeting, seen = threading.Barrier(1 + helpers), set()

    def meet(_):
        meeting.wait(60)
        seen.add(threading.get_ident())

    with threads.limited(1 + helpers):
        threads.each_beside_caller(meet, range(1 + helpers), helpers=helpers)
    assert threading.get_ident() in seen
    assert len(seen) == 1 + helpers


def test_a_helper_that_finds_no_part_is_not_waited_for():
    busy, all_busy, done, released = threading.Event(), threading.Barrier(3), [], []

    def hold(_):
        all_busy.wait(60)
        released.append(busy.wait(30))

    holding = threading.Thread(target=threads.each, args=(hold, range(2)), kwargs={"threads": 2})
    holding.start()
    all_busy.wait(60)
    with threads.limited(2):
        threads.each_beside_caller(done.append, range(9), helpers=1)
    assert done == list(range(9))
    busy.set()
    holding.join(60)
    assert released == [True, True]


@pytest.mark.quick
@pytest.mark.parametrize("helpers", [0, 1])
def test_an_error_beside_the_caller_comes_out(helpers):
    with threads.limited(2), pytest.raises(ZeroDivisionError):
        threads.each_beside_caller(lambda part: 1 // part, [1, 0, 2], helpers=helpers)


def test_an_error_of_a_helper_alone_comes_out():
    caller, failed = threading.get_ident(), threading.Event()

    def fail_elsewhere(_):
        if threading.get_ident() != caller:
            failed.set()
            raise ZeroDivisionError
        assert failed.wait(60)

    with threads.limited(2), pytest.raises(ZeroDivisionError):
        threads.each_beside_caller(fail_elsewhere, range(4), helpers=1)


def nested(_):
    inner = threads.each(lambda part: part + 1, range(4), threads=2)
    return sum(inner), threads.run_lanes(lambda _, lanes: lanes, 2)


def test_work_may_split_its_own_work():
    answers = []
    caller = threading.Thread(target=lambda: answers.extend(threads.each(nested, range(6), threads=2)), daemon=True)
    caller.start()
    caller.join(60)
    assert answers == [(10, [1])] * 6


def test_a_limit_holds_within_its_block_and_for_this_thread():
    before = threads.available()
    assert before >= 1
    with threads.limited(3):
        assert threads.available() == 3
        with threads.limited(None):
            assert threads.available() == 3
        with threads.limited(1):
            assert threads.available() == 1
        assert threads.available() == 3
        seen = []
        other = threading.Thread(target=lambda: seen.append(threads.available()))
        other.start()
        other.join()
        assert seen == [before]
    assert threads.available() == before


def test_lanes_end_before_what_interrupts_their_caller_is_raised(monkeypatch):
    ended = []

    def interrupted(future):
        raise KeyboardInterrupt

    def lane(number, lanes):
        meeting.wait(60)
        ended.append(number)

    meeting = threading.Barrier(3)
    with monkeypatch.context() as patched:
        patched.setattr(threads.Future, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            threads.run_lanes(lane, 3)
    assert sorted(ended) == [0, 1, 2]
    assert threads.run_lanes(lambda _, lanes: lanes, 3) == [3, 3, 3]


FORKED = """
import os
from cpms.base import threads
from cpms.base.errors import UnavailableError
threads.each(abs, [1, 2], threads=2)
threads._lanes_in_use.acquire()
child = os.fork()
if child == 0:
    same = threads.each(abs, [-1, -2], threads=2) == [1, 2] and threads.run_lanes(lambda a, b: b, 2) == [2, 2]
    os._exit(0 if same else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_has_threads_of_its_own():
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], timeout=60, check=False).returncode == 0


def test_work_beside_a_block_has_its_limit_and_ends_before_it_does():
    begun, goes_on, seen = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        assert goes_on.wait(60)
        seen.append(threads.available())

    with threads.limited(3), threads.in_background(work):
        assert begun.wait(60)
        assert seen == []
        goes_on.set()
    assert seen == [3]


def test_errors_beside_a_block_come_out_of_it():
    with pytest.raises(ZeroDivisionError), threads.in_background(lambda: 1 // 0):
        pass
    with pytest.raises(KeyError), threads.in_background(lambda: 1 // 0):
        raise KeyError


@pytest.mark.parametrize("call", [lambda: threads.run_lanes(max, 9), lambda: threads.each(abs, range(9), threads=9)])
def test_threads_that_cannot_be_started_are_an_error_and_no_hang(monkeypatch, call):
    started = []

    def start(thread, begin=threading.Thread.start):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(UnavailableError, match="9 threads cannot be started"):
        call()
    started[0].join(60)
    assert not started[0].is_alive()
