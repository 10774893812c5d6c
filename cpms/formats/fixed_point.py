"""Fixed point: integers of 8, 16 or 32 bits times a power of two, which an array may choose for itself.

Values are rounded to the nearest, ties to even, and saturate at the ends of the range; there is no infinity and no NaN.
All numbers have the same absolute error, so that small values of an array keep few digits. The unit roundoff is
relative to the end of the range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.base.validation import whole
from cpms.formats.oracle import bits_of
from cpms.formats.protocol import Codec, Format, require_name

_MAGIC = 1.5 * 2.0**52


@dataclass(frozen=True)
class FixedPointFormat(Format):
    """Numbers k 2^-f for integers k of ``width`` bits and ``fraction_bits`` f.

    Parameters
    ----------
    name : str
    width : int
        8, 16 or 32.
    fraction_bits : int
        -512 to 512.
    scaled : bool
        Store an array times the power of two that brings its largest size near the end of the range.

    Examples
    --------
    >>> import cpms
    >>> cpms.encode([0.3, -9.0], FixedPointFormat("q3.4", 8, 4)).decode().tolist()
    [0.3125, -8.0]
    """

    name: str
    width: int
    fraction_bits: int = 0
    scaled: bool = False
    has_nan = has_infinity = has_negative_zero = False

    def __post_init__(self) -> None:
        require_name(self.name)
        for field in ("width", "fraction_bits"):
            object.__setattr__(self, field, whole(field, getattr(self, field)))
        if self.width not in (8, 16, 32) or abs(self.fraction_bits) > 512 or not isinstance(self.scaled, bool):
            raise InputError(
                f"format {self.name!r} has width={self.width}, fraction_bits={self.fraction_bits}, "
                f"scaled={self.scaled!r}; it can have 8, 16 or 32 bits, -512 to 512 of fraction, and True or False"
            )

    @property
    def max_finite(self) -> float:
        """Largest number."""
        return (2.0 ** (self.width - 1) - 1.0) * 2.0**-self.fraction_bits

    @property
    def min_normal(self) -> float:
        """The end of the range, to which the unit roundoff relates."""
        return 2.0 ** (self.width - 1 - self.fraction_bits)

    def bits(self, read: int | None = None) -> int:
        """Bits of a stored value."""
        self.checked_read(read)
        return self.width

    def unit_roundoff(self, read: int | None = None) -> float:
        """Half a step, relative to the end of the range."""
        self.checked_read(read)
        return 2.0**-self.width

    def exponent_of(self, values: Floats) -> int:
        """Return the power of two that brings the largest size just below the end of the range."""
        if not self.scaled:
            return 0
        largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
        if largest == 0.0:
            return 0
        exponent = int(self.width - 1 - self.fraction_bits - np.frexp(largest)[1])
        # A value that rounds up to the end of the range would saturate.
        return exponent - bool(np.rint(np.ldexp(largest, exponent + self.fraction_bits)) >= 2 ** (self.width - 1))

    def encode(self, values: Floats) -> npt.NDArray[Any]:
        """Return codes, in two's complement."""
        with np.errstate(over="ignore"):
            count = np.rint(np.ldexp(values, self.fraction_bits))
        end = 2.0 ** (self.width - 1)
        return np.clip(count, -end, end - 1.0).astype(np.int64).astype(self.code_type)

    def decode(self, codes: npt.NDArray[Any], read: int | None = None) -> Floats:
        """Return values."""
        self.checked_read(read)
        return np.ldexp(codes.view(f"int{self.width}").astype(np.float64), -self.fraction_bits)

    def numba_codec(self) -> Codec:
        """Return load and store by products with powers of two."""
        step, back = 2.0**-self.fraction_bits, 2.0**self.fraction_bits
        half, end = 1 << (self.width - 1), 2.0 ** (self.width - 1)
        # Sums with it have the unit 1 in the last place: they round, and convert, in vector instructions.
        magic, magic_bits = _MAGIC, bits_of(_MAGIC)

        def load(code: Any, read: Any) -> Any:  # noqa: ARG001
            return (np.int64((code ^ half) - half + magic_bits).view(np.float64) - magic) * step

        def store(value: Any) -> Any:
            scaled = value * back
            scaled = scaled if scaled > -end else -end
            scaled = scaled if scaled < end - 1.0 else end - 1.0
            return np.float64(scaled + magic).view(np.int64) - magic_bits

        return load, store

    def cuda_codec(self) -> str:
        """Return the same codec in CUDA."""
        step, back, half = (2.0**-self.fraction_bits).hex(), (2.0**self.fraction_bits).hex(), 1 << (self.width - 1)
        return f"""
static CPMS_DEVICE double load(u64 code, int) {{ return (double)(long long)((code ^ {half}ull) - {half}ull) * {step}; }}
static CPMS_DEVICE u64 store(double value) {{
    const double scaled = value * {back};
    if (scaled >= {half - 1}.0) return {half - 1}ull;
    if (scaled <= -{half}.0) return (u64)-{half}ll;
    return (u64)(long long)(scaled + 6755399441055744.0 - 6755399441055744.0);
}}
"""


INT8 = FixedPointFormat("int8", 8)
INT16 = FixedPointFormat("int16", 16)
INT32 = FixedPointFormat("int32", 32)
