"""Edges are grouped alike by any number of threads, any number of buckets, and by NumPy's stable sort."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms.base import threads
from cpms.graph import csr_build
from cpms.graph.csr_build import _sorted_by_buckets, _sorted_by_numpy


def stable(sources, targets, weights, nodes):
    """Group edges by the definition: a stable sort of (target, source)."""
    order = np.lexsort((sources, targets))
    indptr = np.searchsorted(targets[order], np.arange(nodes + 1))
    return indptr, sources[order], None if weights is None else weights[order]


def same(found, expected):
    assert found.indptr.dtype == np.int64
    for array, other in zip(found, expected, strict=True):
        assert (array is None) == (other is None)
        assert array is None or array.tolist() == other.tolist()


@given(
    nodes=st.integers(1, 300),
    edges=st.integers(0, 400),
    skew=st.sampled_from([1, 4]),
    seed=st.integers(0, 2**32),
    weighted=st.booleans(),
    kind=st.sampled_from(["int32", "int64", "uint64", "uint16"]),
    bucket=st.sampled_from([1, 7, 64, 1 << 15]),
    digit=st.sampled_from([1, 4, 11]),
    short_key=st.sampled_from([0, 32]),
    count=st.integers(1, 4),
)
def test_edges_are_grouped_by_target_then_source_then_position(
    nodes, edges, skew, seed, weighted, kind, bucket, digit, short_key, count
):
    random = np.random.default_rng(seed)
    sources, targets = (np.floor(nodes * random.random(edges) ** skew).astype(kind) for _ in range(2))
    weights = random.random(edges) if weighted else None
    expected = stable(sources, targets, weights, nodes)
    with pytest.MonkeyPatch.context() as patched, threads.limited(count):
        for name, value in (("_BUCKET", bucket), ("_PART", 16), ("_DIGIT", digit), ("_SHORT_KEY", short_key)):
            patched.setattr(csr_build, name, value)
        same(_sorted_by_buckets(sources, targets, weights, nodes, np.dtype(np.int32)), expected)
    same(_sorted_by_numpy(sources, targets, weights, nodes, np.dtype(np.int32)), expected)


def test_many_edges_in_strides_and_ids_of_many_bits():
    random = np.random.default_rng(3)
    sources, targets = random.integers(0, 5000, (2, 400_000))
    weights = random.random(400_000)
    for given_weights in (None, weights[::2]):
        expected = stable(sources[::2], targets[::2], given_weights, 5000)
        same(csr_build.by_target(sources[::2], targets[::2], given_weights, 5000), expected)
    found = csr_build._sorted_by_numpy(np.array([5, 3]), np.array([1, 1]), None, 2**20, np.dtype(np.int64))
    assert (found.sources.tolist(), found.sources.dtype) == ([3, 5], np.int64)


def test_small_graphs_import_no_compiler():
    program = (
        "import sys, cpms; cpms.Graph.from_edges([0, 1, 2], [1, 2, 0], [1.0, 2.0, 3.0]); print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
