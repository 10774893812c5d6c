"""What ``auto`` chooses for a system, by facts of its matrix alone."""

import numpy as np
import pytest

from cpms.api.linear.choice import chosen
from cpms.problems.linear_system import LinearSystem
from cpms.sparse.matrix import Matrix


def of_lengths(lengths):
    """Return a system whose rows have so many entries, the diagonal first."""
    n = len(lengths)
    rows = np.repeat(np.arange(n), lengths)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return LinearSystem(Matrix.from_triplets(rows, (rows + places) % n, 1.0 + places, shape=(n, n)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("few", [1, 4, 20])
def test_slices_are_for_rows_of_like_lengths(seed, few):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, few + 1, 3000)
    even = chosen(of_lengths(lengths), "auto", "auto", "auto", "cuda")
    assert even.layout == "sell"
    lengths[rng.integers(3000)] = 40 * few
    system = of_lengths(lengths)
    uneven = chosen(system, "auto", "auto", "auto", "cuda")
    assert uneven.layout == "csr"
    assert f"csr: the longest row has {40 * few} entries" in uneven.reason
    assert chosen(system, "auto", "auto", "auto", "cuda", "sell").layout == "sell"
    assert "csr" not in chosen(system, "auto", "auto", "auto", "cpu").reason


def test_graphs_of_powers_are_not_sliced():
    degrees = np.minimum(np.random.default_rng(1).zipf(1.8, 20_000), 5000)
    assert chosen(of_lengths(degrees), "jacobi", "fp64", "fp64", "cuda").layout == "csr"
