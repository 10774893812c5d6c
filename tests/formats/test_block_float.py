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


@pytest.mark.parametrize("storage", BLOCK_FLOATS, ids=lambda storage: storage.name)
@pytest.mark.parametrize("length", [1, 31, 33 * 32 * 32 + 5])
def test_values_are_those_of_the_bytes_whatever_the_threads(storage, length):
    rng, width = np.random.default_rng(length), storage.width
    stored = encode_blocks(rng.standard_normal(length) * np.exp(9.0 * rng.standard_normal(length)), storage)
    blocks = -(-length // 32)
    memory, expected = stored.memory.tobytes(), []
    exponents = np.frombuffer(memory, np.int16, blocks)
    for block in range(blocks):
        begin = len(memory) - 4 * width * (blocks - block)
        number = int.from_bytes(memory[begin : begin + 4 * width], "little")
        for place in range(32):
            field = number >> place * width & 2**width - 1
            size = float(np.ldexp(field % 2 ** (width - 1), int(exponents[block]) - width + 1))
            expected.append(-size if field >> width - 1 else size)
    assert stored.decode().tobytes() == np.array(expected[:length]).tobytes()


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
