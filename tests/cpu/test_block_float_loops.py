"""Loops that read block floats on processors, at any place of a block, against arrays decoded by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from cpms.backends.cpu import product_loops
from cpms.backends.cpu.stored_vectors import kernel_spec, native
from cpms.formats.block_float import BLOCK_FLOATS
from cpms.storage.block_float import encode_blocks


@pytest.mark.parametrize("storage", BLOCK_FLOATS, ids=lambda storage: storage.name)
@pytest.mark.parametrize(("low", "high"), [(0, 1000), (5, 20), (31, 97), (64, 999), (3, 3)])
def test_values_from_any_place_on_are_those_that_were_stored(storage, low, high):
    rng = np.random.default_rng(1)
    values = rng.standard_normal(1000) * np.exp(8.0 * rng.standard_normal(1000))
    values[[7, 40, 99]] = 0.0, -0.0, -1e-300
    stored = encode_blocks(values, storage)
    held, expected = native(stored), stored.decode()[low:high]
    sums = np.zeros(high - low)
    product_loops.add_kernel(*kernel_spec(storage, None))(held, len(values), 1.0, sums, low, high)
    np.testing.assert_array_equal(sums, expected)
    found = product_loops.dot_kernel(*kernel_spec(storage, None))(held, len(values), values, low, high)
    assert found == pytest.approx(expected @ values[low:high], rel=1e-12)
