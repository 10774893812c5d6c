"""The public laws: they hold for what is right (test_segmented.py, test_engines.py) and fail for what is broken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import cpms
from cpms import CpmsError, Graph, Level, Status, UnsupportedError, check, engines, format_named
from cpms.check import format_laws
from cpms.check.format_laws import LawError
from cpms.contracts.operator import Sweep
from cpms.precision.controllers import FLOAT64
from cpms.problems.pagerank import Problem
from cpms.storage import array

VALUES = np.array([1.0, -0.3, 1 / 3, 1e-5, 123456.789])
GRAPH = Graph.from_edges([0, 0, 1, 2, 2, 3], [1, 2, 2, 0, 3, 5], nodes=6)


class Broken(array.SegmentedArray):
    """An array whose reads are changed by ``fault(values, read)``."""

    fault: Any = None

    def decode(self, read=None):
        return type(self).fault(super().decode(read), read)


def run_broken(law, format, fault):
    def encode(*arguments, **options):
        stored = array.encode(*arguments, **options)
        Broken.fault = staticmethod(fault)
        return Broken(stored.memory, stored.length, stored.format, stored.exponent)

    with patch.object(format_laws, "encode", encode):
        law(format, VALUES)


def one_value_off(by):
    def fault(values, read):
        values[2] *= by
        return values

    return fault


def far_away_at_two_segments(values, read):
    return values * (1.5 if read == 2 else 1.0)


def drifting(values, read):
    return np.nextafter(values, np.inf)


@pytest.mark.parametrize(
    ("law", "name", "fault"),
    [
        (check.round_trip, "cpms4", one_value_off(1 + 2**-52)),
        (check.round_trip, "cpms4", lambda values, read: values[::-1].copy()),  # noqa: ARG005
        (check.round_trip, "fp16", lambda values, read: values * 1.01),  # noqa: ARG005
        (check.partial_read_is_mask, "cpms4", drifting),
        (check.partial_read_is_mask, "cpms8", lambda values, read: values if read != 3 else values + 1e-3),
        (check.reading_more_never_moves_away, "cpms4", far_away_at_two_segments),
        (check.truncation_is_idempotent, "cpms4", drifting),
        (check.truncation_is_idempotent, "fp16", lambda values, read: values * 1.01),  # noqa: ARG005
        (check.relative_error, "cpms4", one_value_off(0.93)),
        (check.relative_error, "cpms4-nearest", lambda values, read: array.encode(VALUES, cpms.CPMS4).decode(read)),  # noqa: ARG005
        (check.relative_error, "fp16", one_value_off(1.001)),
        (check.relative_error, "fp64", drifting),
    ],
)
def test_laws_of_formats_can_fail(law, name, fault):
    with pytest.raises(LawError, match=name):
        run_broken(law, format_named(name), fault)
    law(format_named(name), VALUES)


def test_a_broken_law_names_the_value_and_its_bits():
    with pytest.raises(LawError, match=r"entry 2, 0\.333\d+ \(bits 0x3fd5555555555555\), gives 0\.66") as caught:
        run_broken(check.round_trip, cpms.CPMS4, one_value_off(2.0))
    assert isinstance(caught.value, CpmsError)
    assert isinstance(caught.value, AssertionError)


def test_a_broken_bound_names_the_error():
    with pytest.raises(LawError, match=r"gives 0\.66\S+, an error of 1 relative to 0\.333\n"):
        run_broken(check.relative_error, cpms.FP16, one_value_off(2.0))


def breaking(target, position):
    def convert(values, format):
        stored = array.convert_inplace(values, format)
        base = values.base if target == "outside" else values
        base.view(np.uint8)[position] ^= 1
        return stored

    return convert


@pytest.mark.parametrize(
    ("target", "position", "message"),
    [("inside", 3, "byte 3"), ("outside", 127, "outside"), ("outside", (16 + len(VALUES)) * 8, "outside")],
)
def test_the_law_of_conversion_in_place_can_fail(target, position, message):
    with (
        patch.object(format_laws, "convert_inplace", breaking(target, position)),
        pytest.raises(LawError, match=message),
    ):
        check.inplace_equals_out_of_place(cpms.CPMS4, VALUES)


def test_the_law_of_conversion_back_can_fail():
    broken = patch.object(array.SegmentedArray, "restore_inplace", lambda stored: stored.memory.view(np.float64))
    with broken, pytest.raises(LawError, match="conversion back"):
        check.inplace_equals_out_of_place(cpms.CPMS4, VALUES)


@dataclass(frozen=True, eq=False)
class Faulty:
    """An operator that passes everything on but spoils one thing in its sweeps."""

    inner: Any
    fault: str

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def to_float64(self, x, out):
        operator, x, out = self.inner.to_float64(x, out)
        return Faulty(operator, self.fault), x, out

    def sweep(self, x, out, level, step):
        wrong_level = Level(level.write, level.write) if self.fault == "reads too much" else level
        found = self.inner.sweep(x, out, wrong_level, step)
        if self.fault == "one node":
            out[4] *= 1 + 2.0 ** -(3 if level == Level(1, 1) else 30)
        if self.fault in Sweep._fields:
            found = found._replace(**{self.fault: getattr(found, self.fault) * (1 + 1e-9)})
        return found


class FaultyEngine(type(engines.get("reference"))):
    name = "faulty"

    def __init__(self, fault):
        self.fault = fault

    def prepare(self, problem, storage, layout):
        return Faulty(super().prepare(problem, storage, layout), self.fault)


@pytest.mark.parametrize("level", [Level(1, 1), Level(2, 4), FLOAT64])
@pytest.mark.parametrize("fault", ["one node", "reads too much", *Sweep._fields])
def test_the_law_of_sweeps_can_fail(fault, level):
    if fault == "reads too much" and level.read == level.write:
        check.sweeps_agree(FaultyEngine(fault), Problem(GRAPH), cpms.CPMS4, "csr", level)
        return
    with pytest.raises(LawError, match="faulty"):
        check.sweeps_agree(FaultyEngine(fault), Problem(GRAPH), cpms.CPMS4, "csr", level)


@pytest.mark.parametrize("fault", [None, "found last", "written last"])
def test_the_law_of_sweeps_under_way_can_fail(fault, monkeypatch):
    last = []

    def queue(self, x, out, level, step, norm):
        found = self.sweep(x, out, level, step)
        if fault == "written last" and step == 3:
            out[4] = 0.0
        last.append(found)
        return lambda: last[-1] if fault == "found last" else found

    engine = engines.get("reference")
    monkeypatch.setattr(type(engine.prepare(Problem(GRAPH), cpms.CPMS4, "csr")), "queue", queue)
    if fault is None:
        check.queued_sweeps_agree(engine, Problem(GRAPH), cpms.CPMS4, "csr", Level(2, 2))
        return
    with pytest.raises(LawError, match="under way"):
        check.queued_sweeps_agree(engine, Problem(GRAPH), cpms.CPMS4, "csr", Level(2, 2))


def test_the_law_of_sweeps_names_the_node():
    with pytest.raises(LawError, match="gives node 4 the value"):
        check.sweeps_agree(FaultyEngine("one node"), Problem(GRAPH), cpms.CPMS4, "csr", FLOAT64)


def test_what_an_engine_cannot_do_is_said_and_not_checked():
    with pytest.raises(UnsupportedError, match="layout"):
        check.sweeps_agree(engines.get("cpu"), Problem(GRAPH), cpms.CPMS4, "hexagonal", Level(1, 1))
    with pytest.raises(UnsupportedError, match="stochastic"):
        check.sweeps_agree(engines.get("cpu"), Problem(GRAPH), format_named("fp16-stochastic"), "csr", Level(1, 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: {"ranks": r.ranks * 1.001}, "sum to"),
        (lambda r: {"ranks": r.ranks[:-1]}, "are not 6"),
        (lambda r: {"ranks": r.ranks * np.array([np.nan, 1, 1, 1, 1, 1])}, "finite"),
        (lambda r: {"ranks": r.ranks - np.array([0.5, -0.5, 0, 0, 0, 0])}, "at least 0"),
        (lambda r: {"ranks": r.ranks[::-1].copy()}, "residual is"),
        (lambda r: {"residual_l1": r.residual_l1 * 2}, "residual is"),
        (lambda r: {"mass": r.mass - 0.01}, "says 0.99"),
        (lambda r: {"tol": r.residual_l1 / 10}, "not below"),
    ],
)
def test_the_law_of_answers_can_fail(change, message):
    result = cpms.pagerank(GRAPH, tol=1e-5)
    check.answer_is_certified(result)
    with pytest.raises(LawError, match=message):
        check.answer_is_certified(replace(result, **change(result)))


def test_an_answer_to_another_question_is_not_certified():
    result = cpms.pagerank(GRAPH, personalization=[0], dangling="uniform")
    check.answer_is_certified(result, personalization=[0], dangling="uniform")
    for other in ({}, {"personalization": [0]}, {"dangling": "uniform"}):
        with pytest.raises(LawError):
            check.answer_is_certified(result, **other)


def test_a_failed_solve_claims_nothing():
    result = cpms.pagerank(GRAPH)
    check.answer_is_certified(replace(result, status=Status.NON_FINITE, ranks=np.full(6, np.nan)))
