"""Levels of precision in power iteration: controllers, schedules and steps."""

from __future__ import annotations

from itertools import pairwise

import pytest
from pagerank_cases import MIXED, l1

from cpms import (
    InputError,
    Level,
    Schedule,
    Threshold,
    WriteAhead,
    pagerank,
)
from cpms.precision.controllers import FLOAT64, Controller


def test_mass_is_one_at_every_iteration_in_float64():
    result = pagerank(MIXED, personalization=[0, 299], dangling="uniform")
    assert max(abs(one.mass - 1.0) for one in result.history) < 1e-13
    assert abs(result.mass - 1.0) < 1e-14


def test_mass_lost_in_reduced_precision_is_restored_at_each_rise():
    history = pagerank(MIXED, storage="cpms4", layout="csr", tol=1e-13).history
    assert min(one.mass for one in history if one.bits == 16) < 0.99
    after = [later for one, later in pairwise(history) if later.bits > one.bits]
    assert [one.bits for one in after] == [32, 48, 64]
    # One sweep at the new precision away from mass 1: values cut to m mantissa bits lose less than 2^-m of it, twice.
    assert all(abs(one.mass - 1.0) <= 2 * 2.0 ** -(one.bits - 12) for one in after)


# Controllers


def test_writing_ahead_reads_the_same_and_converges_alike(exact_mixed):
    result = pagerank(MIXED, storage="cpms4", layout="csr", controller=WriteAhead(Threshold()))
    assert result.converged
    assert l1(result.ranks, exact_mixed) <= 1e-9
    assert all(one.level.write == min(one.level.read + 1, 4) for one in result.history if one.level != FLOAT64)
    assert any(bits not in result.iterations_by_bits_written for bits in result.iterations_by_bits)


def test_a_schedule_is_followed(exact_mixed):
    result = pagerank(MIXED, storage="cpms4", layout="csr", controller=Schedule({0: 1, 3: 2, 10: 4}))
    assert [one.bits for one in result.history[:12]] == [16] * 3 + [32] * 7 + [64] * 2
    assert [one.bits_written for one in result.history[:11]] == [16] * 2 + [32] * 7 + [64] * 2
    assert l1(result.ranks, exact_mixed) <= 1e-9


class Levels(Controller):
    """Return given levels one after another, then the last again and again."""

    def __init__(self, *levels):
        self.levels = levels

    def init(self, storage):  # noqa: ARG002
        return self.levels[0], 1

    def update(self, state, residual):  # noqa: ARG002
        return self.levels[min(state, len(self.levels) - 1)], state + 1


@pytest.mark.parametrize("storage", ["cpms4", "fp16-scaled"])
@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_a_controller_may_begin_at_float64(storage, engine):
    result = pagerank(MIXED, storage=storage, layout="csr", engine=engine, controller=Levels(FLOAT64), tol=1e-13)
    assert result.converged
    assert set(result.iterations_by_bits) == {64}


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([Level(1, 1), Level(2, 2)], "reads 2 segments where only 1 were written"),
        ([Level(2, 1), Level(2, 2)], "reads 2 segments where only 1 were written"),
        ([Level(1, 2), FLOAT64, Level(1, 1)], "after float64"),
        ([Level(5, 5)], r"Level\(read=5, write=5\), but cpms4 has 4 segments"),
        ([Level(1, 5)], r"Level\(read=1, write=5\), but cpms4 has 4 segments"),
        ([Level(0, 1)], r"Level\(read=0, write=1\), but cpms4 has 4 segments"),
        ([Level(1, 0), Level(1, 1)], r"Level\(read=1, write=0\), but cpms4 has 4 segments"),
    ],
)
@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_levels_that_cannot_be_are_refused(levels, message, engine):
    with pytest.raises(InputError, match=message):
        pagerank(MIXED, storage="cpms4", layout="csr", engine=engine, controller=Levels(*levels))
