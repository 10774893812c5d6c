"""Draws of stochastic rounding: seeds, sweeps and ranks beside each other share none."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cpms import encode
from cpms.formats.formats import FloatFormat
from cpms.formats.quantization import rank_seed, step_seed

DRAWS = np.arange(1, 1001, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
"""What the generator of `cpms.storage.host_loops` adds to a seed before it mixes, which is one to one."""
SEEDS = {
    "formats' seeds and sweeps": [step_seed(seed, step) for seed in range(8) for step in range(60)],
    "ranks and sweeps of a kernel": [
        (rank_seed(3, rank) + vector * 0xD1B54A32D192ED03) % 2**64 for rank in range(8) for vector in range(60)
    ],
    "seeds of arrays": list(range(200)),
}


@pytest.mark.parametrize("name", SEEDS)
def test_streams_do_not_overlap(name):
    seeds = np.array(SEEDS[name], np.uint64)
    counters = (seeds[:, None] + DRAWS).ravel()
    assert len(np.unique(counters)) == len(counters)


def test_arrays_are_rounded_by_other_draws_for_each_seed():
    values = np.full(4000, 1.0 + 2.0**-11)
    up = [
        encode(values, FloatFormat("mine", 5, 10, "stochastic", seed=step_seed(seed, 0))).decode() for seed in range(3)
    ]
    for one, other in itertools.combinations([each > 1.0 for each in up], 2):
        for shift in range(-3, 4):
            assert 0.4 < np.mean(one[3:-3] == np.roll(other, shift)[3:-3]) < 0.6
