"""Small floats that are not those of IEEE 754: OCP's FP8, FP6 and FP4, their variants in hardware, and TensorFloat-32.

They differ in what the largest codes mean: infinity and NaN ("ieee"), one NaN a sign and no infinity ("fn"), one NaN in
place of -0 ("fnuz"), or numbers alone ("finite"). Sources: Micikevicius et al., "FP8 Formats for Deep Learning", 2022;
OCP Microscaling Formats 1.0, 2023; the names are those of ``ml_dtypes``, with the same bits for every float32. That
package rounds float64 to float32 first; here a value is rounded once, to the nearest, ties to even. Beyond the range it
becomes infinity, NaN in formats without infinities, or the largest number in formats without either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.base.validation import described, whole
from cpms.formats.protocol import Codec, Format, require_name

Special = Literal["ieee", "fn", "fnuz", "finite"]


@dataclass(frozen=True)
class MiniFloatFormat(Format):
    """A float with sign, exponent and mantissa in at most 32 bits.

    Parameters
    ----------
    name : str
    exponent_bits : int
        2 to 8.
    mantissa_bits : int
        1 to 23.
    special : {"ieee", "fn", "fnuz", "finite"}
        What the largest codes mean.
    bias : int, optional
        Of the stored exponent: 2^(exponent_bits - 1) - 1 by default, one more for "fnuz".
    padding : int
        Zeros behind the mantissa: TensorFloat-32 has 13, so that its codes are those of float32.

    Examples
    --------
    >>> E4M3FN.max_finite, E4M3FNUZ.bias, TF32.code_type, E2M1FN.max_finite
    (448.0, 8, dtype('uint32'), 6.0)
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    special: Special = "ieee"
    bias: int | None = None
    padding: int = 0

    def __post_init__(self) -> None:
        require_name(self.name)
        for field in ("exponent_bits", "mantissa_bits", "padding"):
            object.__setattr__(self, field, whole(field, getattr(self, field)))
        if self.special not in get_args(Special):
            raise InputError(
                f"format {self.name!r} has special={described(self.special)}; give one of {get_args(Special)}"
            )
        if self.bias is None:
            object.__setattr__(self, "bias", 2 ** (self.exponent_bits - 1) - (self.special != "fnuz"))
        if not (2 <= self.exponent_bits <= 8 and 1 <= self.mantissa_bits <= 23 and self.padding >= 0) or (
            self.bits() > 32 or not 0 <= self._bias <= 255
        ):
            raise InputError(
                f"format {self.name!r} has {self.exponent_bits} exponent, {self.mantissa_bits} mantissa and "
                f"{self.padding} padding bits and bias {self.bias}; it can have 2 to 8, 1 to 23, 32 in all with the "
                "sign, and a bias of 0 to 255"
            )

    @property
    def _bias(self) -> int:
        assert self.bias is not None  # noqa: S101  # Set above.
        return self.bias

    @property
    def _top(self) -> int:
        """The code of the largest finite number."""
        codes = 1 << (self.exponent_bits + self.mantissa_bits)
        return codes - {"ieee": 1 << self.mantissa_bits, "fn": 1, "fnuz": 0, "finite": 0}[self.special] - 1

    @property
    def min_normal(self) -> float:
        """Smallest positive normal value."""
        return 2.0 ** (1 - self._bias)

    @property
    def max_finite(self) -> float:
        """Largest finite value."""
        exponent, mantissa = divmod(self._top, 1 << self.mantissa_bits)
        return (1.0 + mantissa * 2.0**-self.mantissa_bits) * 2.0 ** (exponent - self._bias)

    @property
    def has_nan(self) -> bool:
        """Whether it has a NaN."""
        return self.special != "finite"

    @property
    def has_infinity(self) -> bool:
        """Whether it has infinities."""
        return self.special == "ieee"

    @property
    def has_negative_zero(self) -> bool:
        """Whether -0 is stored as such."""
        return self.special != "fnuz"

    def bits(self, read: int | None = None) -> int:
        """Bits of a stored value."""
        self.checked_read(read)
        return 1 + self.exponent_bits + self.mantissa_bits + self.padding

    def unit_roundoff(self, read: int | None = None) -> float:
        """Bound of the relative error of a value in the normal range."""
        self.checked_read(read)
        return 2.0 ** -(self.mantissa_bits + 1)

    def encode(self, values: Floats) -> npt.NDArray[Any]:
        """Return codes, by rounding multiples of the last place of each binade."""
        e, m, pad = self.exponent_bits, self.mantissa_bits, self.padding
        size = np.abs(values)
        finite = np.where(np.isfinite(size), size, 0.0)
        exponent = np.maximum(np.frexp(finite)[1] - 1, 1 - self._bias)
        exponent = np.where(finite == 0.0, 1 - self._bias, exponent)
        code = ((exponent + self._bias - 1).astype(np.int64) << m) + np.rint(np.ldexp(finite, m - exponent)).astype(
            np.int64
        )
        code = np.where((code > self._top) | np.isinf(size), self._overflow(), code)
        code = np.where(np.isnan(size), self._nan(), code)
        negative = np.signbit(values)
        if self.special == "fnuz":
            negative &= (code != 0) & (code != self._nan())
        codes: npt.NDArray[Any] = (code | negative.astype(np.int64) << (e + m)) << pad
        return codes.astype(self.code_type)

    def _nan(self) -> int:
        e, m = self.exponent_bits, self.mantissa_bits
        quiet = (((1 << e) - 1) << m) | 1 << (m - 1)
        return {"ieee": quiet, "fn": (1 << (e + m)) - 1, "fnuz": 1 << (e + m), "finite": 0}[self.special]

    def _overflow(self) -> int:
        """Return the code of values beyond the range."""
        infinity = ((1 << self.exponent_bits) - 1) << self.mantissa_bits
        return {"ieee": infinity, "finite": self._top}.get(self.special, self._nan())

    def decode(self, codes: npt.NDArray[Any], read: int | None = None) -> Floats:
        """Return values."""
        self.checked_read(read)
        e, m = self.exponent_bits, self.mantissa_bits
        code = codes.astype(np.int64) >> self.padding
        size = code & ((1 << (e + m)) - 1)
        field, mantissa = size >> m, size & ((1 << m) - 1)
        whole_mantissa = np.where(field > 0, mantissa | 1 << m, mantissa).astype(np.float64)
        value = np.ldexp(whole_mantissa, np.maximum(field, 1) - self._bias - m)
        if self.special == "ieee":
            value = np.where(field == (1 << e) - 1, np.where(mantissa > 0, np.nan, np.inf), value)
        value = np.where(size > self._top, np.nan, value) if self.special == "fn" else value
        value = np.where(code >> (e + m), -value, value)
        return np.where(code == self._nan(), np.nan, value) if self.special == "fnuz" else value

    def numba_codec(self) -> Codec:
        """Return load and store on the bits of float64."""
        e, m, bias, pad, top = self.exponent_bits, self.mantissa_bits, self._bias, self.padding, self._top
        nan, overflow, ieee, fnuz = self._nan(), self._overflow(), self.special == "ieee", self.special == "fnuz"
        fields, last = (1 << (e + m)) - 1, (1 << m) - 1
        least, scale = 1 - bias, 2.0 ** (1 - bias - m)

        def load(code: Any, read: Any) -> Any:  # noqa: ARG001
            moved = code >> pad
            size = moved & fields
            if fnuz and moved == nan:
                return np.nan
            if size > top:
                value = np.inf if ieee and size & last == 0 else np.nan
            elif size > last:
                value = np.int64((size + ((1023 - bias) << m)) << (52 - m)).view(np.float64)
            else:
                value = size * scale
            return -value if moved > fields else value

        def store(value: Any) -> Any:
            code: Any
            bits = np.float64(value).view(np.int64)
            size = bits & 0x7FFFFFFFFFFFFFFF
            exponent = (size >> 52) - 1023
            if size > 0x7FF0000000000000:
                code = nan
            elif size == 0x7FF0000000000000:
                code = overflow
            elif exponent >= least:
                # In the normal range the bits of a float64, rounded, are those of the code but for the bias.
                dropped = 52 - m
                half = (1 << (dropped - 1)) - 1 + ((size >> dropped) & 1)
                code = ((size + half) >> dropped) - ((1023 - bias) << m)
                code = overflow if code > top else code
            else:
                code = np.int64(np.rint(abs(value) / scale))
            if bits < 0 and not (fnuz and (code == 0 or code == nan)):
                code |= fields + 1
            return code << pad

        return load, store

    def cuda_codec(self) -> str:
        """Return the same codec in CUDA."""
        e, m, bias, pad, top = self.exponent_bits, self.mantissa_bits, self._bias, self.padding, self._top
        fields, last = (1 << (e + m)) - 1, (1 << m) - 1
        fnuz, ieee = str(self.special == "fnuz").lower(), str(self.special == "ieee").lower()
        return f"""
static CPMS_DEVICE double load(u64 code, int) {{
    const u64 moved = code >> {pad}, size = moved & {fields}ull;
    const u64 sign = (u64)(moved > {fields}ull) << 63;
    if ({fnuz} && moved == {self._nan()}ull) return value_of(0x7FF8000000000000ull);
    if (size > {top}ull) {{
        return value_of(sign | ({ieee} && (size & {last}ull) == 0 ? 0x7FF0000000000000ull : 0x7FF8000000000000ull));
    }}
    if (size > {last}ull) return value_of(sign | ((size + {(1023 - bias) << m}ull) << {52 - m}));
    return value_of(sign | bits_of((double)size * {(2.0 ** (1 - bias - m)).hex()}));
}}
static CPMS_DEVICE u64 store(double value) {{
    const u64 bits = bits_of(value), size = bits & 0x7FFFFFFFFFFFFFFFull;
    u64 code;
    if (size > 0x7FF0000000000000ull) {{
        code = {self._nan()}ull;
    }} else if (size == 0x7FF0000000000000ull) {{
        code = {self._overflow()}ull;
    }} else if (size >= {(1024 - bias) << 52}ull) {{
        code = ((size + {(1 << (51 - m)) - 1}ull + (size >> {52 - m} & 1)) >> {52 - m}) - {(1023 - bias) << m}ull;
        code = code > {top}ull ? {self._overflow()}ull : code;
    }} else {{
        const double count = value_of(size) * {(2.0 ** (bias + m - 1)).hex()};
        code = (u64)(count + 4503599627370496.0 - 4503599627370496.0);
    }}
    if (bits >> 63 && !({fnuz} && (code == 0 || code == {self._nan()}ull))) code |= {fields + 1}ull;
    return code << {pad};
}}
"""


E4M3FN = MiniFloatFormat("e4m3fn", 4, 3, "fn")
E4M3FNUZ = MiniFloatFormat("e4m3fnuz", 4, 3, "fnuz")
E5M2FNUZ = MiniFloatFormat("e5m2fnuz", 5, 2, "fnuz")
E4M3B11FNUZ = MiniFloatFormat("e4m3b11fnuz", 4, 3, "fnuz", bias=11)
E3M4 = MiniFloatFormat("e3m4", 3, 4)
E2M3FN = MiniFloatFormat("e2m3fn", 2, 3, "finite")
E3M2FN = MiniFloatFormat("e3m2fn", 3, 2, "finite")
E2M1FN = MiniFloatFormat("e2m1fn", 2, 1, "finite")
TF32 = MiniFloatFormat("tf32", 8, 10, padding=13)
