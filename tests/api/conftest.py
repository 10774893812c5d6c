"""Exact ranks of a graph of all kinds of nodes."""

from __future__ import annotations

import pytest
from pagerank_cases import MIXED

from cpms import (
    pagerank,
)


@pytest.fixture(scope="module")
def exact_mixed():
    return pagerank(MIXED, engine="reference", layout="csr", tol=1e-14).ranks
