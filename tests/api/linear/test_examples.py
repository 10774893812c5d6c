"""The examples of docs/solve.md give what dense linear algebra gives, in at most 15 lines of public names each."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cpms

PAGE = (Path(__file__).parents[3] / "docs" / "solve.md").read_text(encoding="utf-8")
FIRST, *EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@cache
def names() -> dict[str, Any]:
    """Return what the page's code defines, run from its top."""
    held: dict[str, Any] = {}
    for block in (FIRST, *EXAMPLES):
        exec(block, held)  # noqa: S102  # the project's own
    return held


def test_examples_are_short_and_use_public_names():
    assert len(EXAMPLES) == 6
    for block in EXAMPLES:
        assert len(block.splitlines()) <= 15
        assert set(re.findall(r"\bcpms\.(\w+)", block)) <= set(cpms.__all__)


def test_several_right_hand_sides():
    several = names()["several"]
    dense = 2.0 * np.eye(500) - np.eye(500, k=1) - np.eye(500, k=-1)
    x = np.linalg.solve(dense, np.column_stack([np.ones(500), np.arange(500.0)]))
    np.testing.assert_allclose([each.x for each in several], x.T, rtol=1e-5)


def test_katz():
    held = names()
    dense = held["links"].toarray()
    radius = max(abs(np.linalg.eigvals(dense)))
    assert held["radius"] == pytest.approx(radius, rel=1e-5)
    x = np.linalg.solve(np.eye(len(dense)) - 0.5 / held["radius"] * dense.T, np.ones(len(dense)))
    assert held["katz"].converged
    np.testing.assert_allclose(held["katz"].x, x, rtol=1e-8)


def test_hubs_and_authorities():
    held = names()
    dense = held["links"].toarray()
    vector = np.abs(np.linalg.eigh(dense.T @ dense)[1][:, -1])
    assert held["hits"].converged
    np.testing.assert_allclose(held["authorities"], vector / vector.sum(), atol=1e-8)


def test_the_stationary_distribution_of_a_chain():
    held = names()
    assert held["chain"].converged
    np.testing.assert_allclose(held["chain"].x, np.array([6.0, 3.0, 1.0]) / 10.0, rtol=1e-9)


def test_pagerank_as_a_linear_system():
    held = names()
    links = np.zeros((4, 4))
    links[[1, 2, 3, 0, 2], [0, 1, 2, 3, 0]] = [0.5, 1.0, 1.0, 1.0, 0.5]
    assert held["ranks"].converged
    np.testing.assert_allclose(
        held["ranks"].x, np.linalg.solve(np.eye(4) - 0.85 * links, np.full(4, 0.0375)), rtol=1e-9
    )


def test_the_heat_equation_in_time():
    held = names()
    step = np.eye(500) + 100.0 * held["A"].toarray()
    heat = np.where(np.arange(500) < 250, 1.0, 0.0)
    for _ in range(5):
        heat = np.linalg.solve(step, heat)
    assert held["after"].converged
    np.testing.assert_allclose(held["heat"], heat, atol=1e-8)
