"""The fewest bits in which every value is exact: never fewer, and few where values are few or short."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given
from hypothesis import strategies as st

import cpms
from cpms import FP64, InputError
from cpms.formats.codes import CODES8
from cpms.sparse.lossless import lossless_storage
from cpms.storage.array import encode
from cpms.storage.coded import encode_codes

short = st.builds(lambda digits, power: float(np.ldexp(digits, power)), st.integers(-4095, 4095), st.integers(-40, 40))
doubles = st.floats(allow_nan=False, allow_infinity=False)


def read_back(values):
    storage = lossless_storage(values)
    stored = encode_codes(values) if storage == CODES8 else encode(values, storage)
    return storage, stored.decode()


@given(st.lists(st.one_of(short, doubles), max_size=30), st.integers(0, 400))
@example([0.0, -0.0], 0)
@example([5e-324, 1.7976931348623157e308], 300)
@example([448.0, -240.0], 300)
@example([2.0**-24, 65504.0], 300)
def test_every_value_is_read_back_to_the_last_bit(values, more):
    # More distinct values than a table holds leave the packed floats.
    given_values = np.concatenate([np.array(values, np.float64), np.arange(more) * 2.0**-3])
    _, found = read_back(given_values)
    np.testing.assert_array_equal(found.view(np.uint64), given_values.view(np.uint64))


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ([6.0, -1.0], "e4m3"),
        ([26.0, -1.0, 0.0], "e4m3"),
        ([1.25e-5 * 2.0**-30], "codes8"),
        ([3 * 2.0**-300, 2.0**-299], "e4m3-scaled"),
        (np.arange(2049.0), "fp16"),
        (np.arange(4097.0), "e4m11-scaled"),
        (np.arange(300) * 2.0**-40, "fp16-scaled"),
        (1 + np.arange(300) / 2.0**23, "fp32"),
        (2.0 ** np.arange(-500.0, 500.0), "e11m4"),
        (np.concatenate([2.0 ** np.arange(-500.0, 500.0), [1 + 2.0**-20]]), "e11m20"),
        (np.random.default_rng(0).random(300), "fp64"),
    ],
)
def test_few_bits_are_found_where_they_are_enough(values, name):
    storage, _ = read_back(np.array(values))
    assert storage.name == name


def test_tables_hold_256_values_with_zero_and_no_more():
    stored = encode_codes(np.concatenate([np.arange(1.0, 256.0) / 3, [0.0]]))
    assert stored.nbytes == 2048 + 256
    with pytest.raises(InputError, match="more than 256 distinct ones"):
        encode_codes(np.arange(1.0, 257.0) / 3)
    assert lossless_storage(np.arange(1.0, 257.0) / 3) == FP64


@pytest.mark.parametrize("layout", ["csr", "sell"])
@pytest.mark.parametrize("scale", [1.0, 1 / 3])
def test_lossless_products_are_those_of_float64_to_the_last_bit(layout, scale):
    stencil = scipy.sparse.diags_array([-scale, 4 * scale, -scale], offsets=[-9, 0, 9], shape=(200, 200))
    A = cpms.matrix(stencil, storage="lossless", layout=layout, engine="cpu")
    assert A.storage.bits() == 8
    assert A.storage == (CODES8 if scale != 1.0 else cpms.FloatFormat("e4m3", 4, 3))
    x = np.random.default_rng(1).standard_normal(200)
    np.testing.assert_array_equal(A @ x, A.with_storage("fp64") @ x)
    assert A.with_storage(layout="coo").storage == A.storage
