"""Posits of 8, 16 and 32 bits: floats whose exponent has a run-length prefix, so that numbers near 1 keep most digits.

The format is that of the Posit Standard (2022), with two exponent bits in all sizes: sign, regime (a run of equal
bits), exponent, fraction; negative codes are two's complements. Rounding is to the nearest on the string of bits, ties
to even codes; no number rounds to 0 or to NaR, which stands for NaN and infinities. Encoding shifts regime and fraction
into place: tens of operations a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.base.validation import whole
from cpms.formats.protocol import Codec, Format, require_name

_TAIL = 54
"""Bits of exponent and fraction of a float64 behind the regime."""
_GOLDEN = 16
"""Numbers between 2^-16 and 2^16 have a regime of 5 bits at most."""


@dataclass(frozen=True)
class PositFormat(Format):
    """A posit of ``width`` bits.

    The unit roundoff is that of numbers between 2^-16 and 2^16; nearer to 1 it is up to 2^-3 of it.

    Examples
    --------
    >>> import cpms
    >>> cpms.encode([0.1, 3e30, -1e-99], POSIT16).decode().tolist()
    [0.100006103515625, 7.205759403792794e+16, -1.3877787807814457e-17]
    """

    name: str
    width: int
    has_infinity = has_negative_zero = False
    min_normal, max_normal = 2.0**-_GOLDEN, 2.0**_GOLDEN

    def __post_init__(self) -> None:
        require_name(self.name)
        object.__setattr__(self, "width", whole("width", self.width))
        if self.width not in (8, 16, 32):
            raise InputError(f"format {self.name!r} has width {self.width}; posits can have 8, 16 or 32 bits")

    @property
    def max_finite(self) -> float:
        """Largest number."""
        return 2.0 ** (4 * (self.width - 2))

    def bits(self, read: int | None = None) -> int:
        """Bits of a stored value."""
        self.checked_read(read)
        return self.width

    def unit_roundoff(self, read: int | None = None) -> float:
        """Bound of the relative error of numbers between 2^-16 and 2^16."""
        self.checked_read(read)
        return 2.0 ** -(self.width - 7)

    def error(self, read: int | None = None, exponent: int = 0, largest: float = np.inf) -> tuple[float, float]:
        """Return the bound for numbers of at most 2^16; beyond, a number may become four times as large."""
        relative, absolute = super().error(read, exponent, largest)
        return (relative if largest <= self.max_normal else 3.0), absolute

    def encode(self, values: Floats) -> npt.NDArray[Any]:
        """Return codes."""
        n = self.width
        size = np.abs(values)
        sound = np.where(np.isfinite(size) & (size > 0.0), size, 1.0)
        fraction, exponent = np.frexp(sound)
        exponent = np.clip(exponent - 1, -4 * (n - 2), 4 * (n - 2) - 1).astype(np.int64)
        digits = np.ldexp(fraction, 53).astype(np.int64) & (2**52 - 1)
        tail = (exponent & 3) << 52 | digits
        run = exponent >> 2
        regime = np.where(run >= 0, run + 2, 1 - run)
        prefix = np.where(run >= 0, (1 << (np.maximum(run, 0) + 2)) - 2, 1)
        cut = _TAIL - (n - 1 - regime)
        body = prefix << (n - 1 - regime) | tail >> cut
        rest = tail & ((1 << cut) - 1)
        half = 1 << (cut - 1)
        body += (rest > half) | ((rest == half) & (body & 1 == 1))
        body = np.where(sound >= self.max_finite, 2 ** (n - 1) - 1, np.where(sound <= 1 / self.max_finite, 1, body))
        code = np.where(values < 0, -body, body)
        code = np.where(size == 0.0, 0, np.where(np.isfinite(values), code, 1 << (n - 1)))
        codes: npt.NDArray[Any] = code & (2**n - 1)
        return codes.astype(self.code_type)

    def decode(self, codes: npt.NDArray[Any], read: int | None = None) -> Floats:
        """Return values."""
        self.checked_read(read)
        n = self.width
        signed = codes.view(f"int{n}").astype(np.int64)
        body = np.abs(signed)
        first = body >> (n - 2) & 1
        flipped = np.where(first == 1, ~body, body) & (2 ** (n - 1) - 1)
        # The first bit after the run is the highest one of what is flipped; a run may reach the end.
        run = np.where(flipped == 0, n - 1, n - 1 - np.frexp(flipped.astype(np.float64))[1])
        k = np.where(first == 1, run - 1, -run)
        left = np.maximum(n - 2 - run, 0)
        tail = (body & ((1 << left) - 1)) << (_TAIL - left)
        value = np.ldexp(1.0 + np.ldexp((tail & (2**52 - 1)).astype(np.float64), -52), 4 * k + (tail >> 52))
        value = np.where(signed < 0, -value, value)
        return np.where(signed == 0, 0.0, np.where(signed == -(2 ** (n - 1)), np.nan, value))

    def numba_codec(self) -> Codec:
        """Return load and store."""
        n = self.width
        ones, nar, most, top = (1 << n) - 1, 1 << (n - 1), (1 << (n - 1)) - 1, 4 * (n - 2)

        def load(code: Any, read: Any) -> Any:  # noqa: ARG001
            if code == 0:
                return 0.0
            if code == nar:
                return np.nan
            body = (1 << n) - code if code > nar else code
            first = (body >> (n - 2)) & 1
            flipped = (most ^ body) if first == 1 else body
            # The exponent of an integer as float64 is the place of its highest bit.
            high = (np.float64(flipped).view(np.int64) >> 52) - 1023 if flipped > 0 else -1
            run = n - 2 - high
            k = run - 1 if first == 1 else -run
            left = max(high, 0)
            tail = (body & ((1 << left) - 1)) << (54 - left)
            exponent = 4 * k + (tail >> 52)
            value = np.int64(((1023 + exponent) << 52) | (tail & 0xFFFFFFFFFFFFF)).view(np.float64)
            return -value if code > nar else value

        def store(value: Any) -> Any:
            body: Any
            bits = np.float64(value).view(np.int64)
            size = bits & 0x7FFFFFFFFFFFFFFF
            if size == 0:
                return 0
            if size >= 0x7FF0000000000000:
                return nar
            exponent = (size >> 52) - 1023
            if exponent >= top:
                body = most
            elif exponent < -top:
                body = 1
            else:
                tail = ((exponent & 3) << 52) | (size & 0xFFFFFFFFFFFFF)
                run = exponent >> 2
                regime = run + 2 if run >= 0 else 1 - run
                prefix = (1 << (run + 2)) - 2 if run >= 0 else 1
                cut = 54 - (n - 1 - regime)
                body = (prefix << (n - 1 - regime)) | (tail >> cut)
                rest, half = tail & ((1 << cut) - 1), 1 << (cut - 1)
                if rest > half or (rest == half and body & 1 == 1):
                    body += 1
            return ((1 << n) - body) & ones if bits < 0 else body

        return load, store

    def cuda_codec(self) -> str:
        """Return the same codec in CUDA."""
        n = self.width
        nar, most, top = 1 << (n - 1), (1 << (n - 1)) - 1, 4 * (n - 2)
        return f"""
static CPMS_DEVICE double load(u64 code, int) {{
    if (code == 0) return 0.0;
    if (code == {nar}ull) return value_of(0x7FF8000000000000ull);
    const u64 body = code > {nar}ull ? {1 << n}ull - code : code;
    const bool first = body >> {n - 2} & 1;
    const u64 flipped = first ? body ^ {most}ull : body;
    const int high = flipped ? (int)(bits_of((double)flipped) >> 52) - 1023 : -1;
    const int run = {n - 2} - high, k = first ? run - 1 : -run, left = high > 0 ? high : 0;
    const u64 tail = (body & ((1ull << left) - 1)) << (54 - left);
    const u64 exponent = (u64)(1023 + 4 * k + (int)(tail >> 52));
    return value_of((u64)(code > {nar}ull) << 63 | exponent << 52 | (tail & 0xFFFFFFFFFFFFFull));
}}
static CPMS_DEVICE u64 store(double value) {{
    const u64 bits = bits_of(value), size = bits & 0x7FFFFFFFFFFFFFFFull;
    if (size == 0) return 0;
    if (size >= 0x7FF0000000000000ull) return {nar}ull;
    const int exponent = (int)(size >> 52) - 1023;
    u64 body = exponent >= 0 ? {most}ull : 1ull;
    if (exponent < {top} && exponent >= -{top}) {{
        const u64 tail = (u64)(exponent & 3) << 52 | (size & 0xFFFFFFFFFFFFFull);
        const int run = exponent >> 2, regime = run >= 0 ? run + 2 : 1 - run, kept = {n - 1} - regime, cut = 54 - kept;
        body = (run >= 0 ? (1ull << (run + 2)) - 2 : 1ull) << kept | tail >> cut;
        const u64 rest = tail & ((1ull << cut) - 1), half = 1ull << (cut - 1);
        body += rest > half || (rest == half && (body & 1));
    }}
    return bits >> 63 ? ({1 << n}ull - body) & {(1 << n) - 1}ull : body;
}}
"""


POSIT8 = PositFormat("posit8", 8)
POSIT16 = PositFormat("posit16", 16)
POSIT32 = PositFormat("posit32", 32)
