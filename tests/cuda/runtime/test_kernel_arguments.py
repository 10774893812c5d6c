"""Packed kernel arguments hold the values of the last launch at the addresses passed to the driver."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms.backends.cuda.runtime.kernel_arguments import KernelArguments

pytestmark = pytest.mark.quick

KINDS = {
    ctypes.c_uint32: (np.uint32, st.integers(0, 2**32 - 1)),
    ctypes.c_int32: (np.int32, st.integers(-(2**31), 2**31 - 1)),
    ctypes.c_uint64: (np.uint64, st.integers(0, 2**64 - 1)),
    ctypes.c_double: (np.float64, st.floats(allow_nan=False)),
    ctypes.c_void_p: (lambda address: SimpleNamespace(data=SimpleNamespace(ptr=address)), st.integers(1, 2**64 - 1)),
}


@given(kinds=st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=60), data=st.data())
def test_addresses_point_at_the_last_arguments(kinds, data):
    first, second = ([data.draw(KINDS[kind][1]) for kind in kinds] for _ in range(2))
    arguments = KernelArguments(tuple(KINDS[kind][0](value) for kind, value in zip(kinds, first, strict=True)))
    for values in (first, second):
        arguments.put(tuple(KINDS[kind][0](value) for kind, value in zip(kinds, values, strict=True)))
        addresses = (ctypes.c_void_p * len(kinds)).from_address(arguments.address)
        assert [kind.from_address(at).value for kind, at in zip(kinds, addresses, strict=True)] == values


def test_a_struct_is_taken_by_value_and_what_follows_lies_behind_it():
    packed = np.zeros((), [("address", np.uint64), ("factor", np.float64), ("rows", np.uint64)])
    arguments = KernelArguments((np.uint32(0), packed[()], np.float64(0.0)))
    packed["factor"], packed["rows"] = 0.5, 7
    arguments.put((np.uint32(3), packed[()], np.float64(0.25)))
    addresses = (ctypes.c_void_p * 3).from_address(arguments.address)
    assert ctypes.string_at(addresses[1], packed.nbytes) == packed.tobytes()
    assert (ctypes.c_uint32.from_address(addresses[0]).value, ctypes.c_double.from_address(addresses[2]).value) == (
        3,
        0.25,
    )


def test_numbers_of_other_types_are_refused():
    with pytest.raises(AttributeError):
        KernelArguments((np.uint32(1),)).put((1,))
