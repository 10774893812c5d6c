"""Block floating point: the bytes of the oracle, the error that it promises, and the sentence where it cannot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cpms import InputError
from cpms.formats import oracle
from cpms.formats.block_float import BFP21, BLOCK_FLOATS, BlockFloatFormat
from cpms.storage.block_float import encode_blocks

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("storage", BLOCK_FLOATS, ids=lambda storage: storage.name)
@given(values=st.lists(finite, min_size=1, max_size=70))
@example(values=[-0.0])
@example(values=[5e-324, -1.7976931348623157e308])
@example(values=[2.0**-950, -(2.0**-901)])
@example(values=[1.0 - 2.0**-53, 0.5])
@example(values=[1.0, 2.0**-15, 3 * 2.0**-16, 5 * 2.0**-16])
def test_bytes_are_the_oracles_and_errors_within_a_unit(storage, values):
    given_values = np.array(values)
    stored = encode_blocks(given_values, storage)
    assert stored.memory.tobytes() == oracle.encode_block_floats(values, storage.width)
    found = stored.decode()
    for begin in range(0, len(values), 32):
        here = slice(begin, begin + 32)
        largest = np.abs(given_values[here]).max()
        exponent = max(int(np.frexp(largest)[1]), -900) if largest else -900
        assert exponent <= stored.top
        assert (np.abs(found[here] - given_values[here]) <= storage.unit_in(exponent)).all()
    np.testing.assert_array_equal(np.signbit(found), np.signbit(given_values))
    stored.write(found)
    np.testing.assert_array_equal(stored.decode(), found)


def test_what_cannot_be_stored_is_a_sentence():
    with pytest.raises(InputError, match="no infinity and no NaN"):
        encode_blocks([1.0, np.nan], BFP21)
    with pytest.raises(InputError, match="2 dimensions"):
        encode_blocks(np.ones((2, 2)), BFP21)
    with pytest.raises(InputError, match="16, 21 or 32"):
        BlockFloatFormat("mine", 20)
    stored = encode_blocks([1.0], BFP21)
    with pytest.raises(InputError, match="holds 1 values"):
        stored.write([1.0, 2.0])
    with pytest.raises(InputError, match="2 of them cannot be read"):
        stored.decode(2)
