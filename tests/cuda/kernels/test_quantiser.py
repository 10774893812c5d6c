"""The quantiser of inner sweeps scales in float32 only where 1 / scale is a normal number of it."""

import subprocess

import pytest

from cpms.backends.cuda.kernels import source
from cpms.backends.cuda.runtime.host_emulation import compiler
from cpms.formats.formats import FloatFormat
from cpms.formats.quantization import shared_scale

EXPONENT_BITS = range(3, 9)
SMALLEST = 2.0**-98
"""Largest |r / degree| below which float64 does not resolve ||r||_1 beside x."""


@pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler")
def test_the_inverse_of_a_scale_in_float32_is_normal():
    formats = [FloatFormat(f"e{bits}m{15 - bits}", bits, 15 - bits) for bits in EXPONENT_BITS]
    normal = {storage.exponent_bits for storage in formats if shared_scale(storage, SMALLEST) <= 126}
    claims = [
        f"static_assert(cpms::Quantiser<{bits}, {15 - bits}, cpms::Rounding::nearest>::scaled_in_float32 == {known:d});"
        for bits in EXPONENT_BITS
        for known in [bits in normal]
    ]
    shim = f'#include "{source.folder() / "host/host_emulation.hpp"}"\n'
    checked = subprocess.run(
        [compiler(), "-x", "c++", "-std=c++20", "-w", "-fsyntax-only", "-"],
        input="\n".join([shim, source.assemble(["base/quantiser.cuh"]), *claims]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr[:2000]
    assert {5, 6} <= normal
