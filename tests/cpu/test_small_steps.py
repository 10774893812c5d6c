"""Outer steps of small graphs by the interpreter are those of the compiled loop, to the last bit."""

from __future__ import annotations

from unittest.mock import patch

import numba
import numpy as np
import pytest

import cpms
from cpms.backends.cpu import refine_loops
from cpms.base.compilation import first_call

GRAPH = cpms.load("rmat:scale=9,edge_factor=8,seed=4")


def ranks_and_history(compiles, **options):
    with patch.object(first_call, "spares_loops", lambda: not compiles):
        result = cpms.pagerank(GRAPH, method="refine", engine="cpu", tol=1e-12, **options)
    return result.ranks.tolist(), result.residual_l1, result.iterations, [step.residual for step in result.history]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"storage": "fp16", "norm": "l2"},
        {"storage": "e5m2", "norm": "linf"},
        {"personalization": np.arange(1.0, GRAPH.nodes + 1), "dangling": "uniform"},
        {"damping": 0.99, "max_iterations": 200},
    ],
    ids=["default", "fp16", "e5m2", "personal", "slow"],
)
def test_the_interpreter_takes_the_steps_of_the_compiled_loop(options):
    assert ranks_and_history(False, **options) == ranks_and_history(True, **options)


def test_both_use_passes_of_one_compilation():
    for compiles in (False, True):
        ranks_and_history(compiles)
    known = zip(*(refine_loops._signatures(getattr(numba.types, f"uint{bits}")) for bits in (32, 64)), strict=True)
    for loop, either in zip(refine_loops.passes_of(8, 23, 32, 1), known, strict=True):
        assert set(loop.signatures) <= set(either)
