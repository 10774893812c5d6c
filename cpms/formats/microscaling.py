"""OCP Microscaling (MX): 32 small numbers share a power of two of 8 bits.

The specification is OCP Microscaling Formats 1.0 (2023), with the conversion of its section 6.3. The scale is the
largest power of two in the group over that of the element format. Elements are rounded to the nearest, ties to even,
and saturate. A group with an infinity or a NaN has the scale NaN, and all its numbers are NaN. A group is its scale and
then its elements, packed from the lowest bit on: 33, 25 or 17 bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.types import Floats
from cpms.formats import minifloats
from cpms.formats.fixed_point import FixedPointFormat
from cpms.formats.minifloats import MiniFloatFormat
from cpms.formats.protocol import Codec, Format, require_name

GROUP = 32
_SCALE_BIAS = 127
_NAN_SCALE = 255


@dataclass(frozen=True)
class MicroscalingFormat(Format):
    """A group of 32 elements, each of 4, 6 or 8 bits, with a scale in E8M0.

    The unit roundoff is relative to the largest number of a group, and covers its saturation.

    Parameters
    ----------
    name : str
    element : MiniFloatFormat or FixedPointFormat

    Examples
    --------
    >>> import cpms
    >>> cpms.encode([1.0, 0.3, -7.0], MXFP4).decode().tolist(), MXFP4.nbytes(32)
    ([1.0, 0.5, -6.0], 17)
    """

    name: str
    element: MiniFloatFormat | FixedPointFormat
    group, has_infinity = GROUP, False

    def __post_init__(self) -> None:
        require_name(self.name)
        if not isinstance(self.element, MiniFloatFormat | FixedPointFormat) or self.element.bits() not in (4, 6, 8):
            raise InputError(f"format {self.name!r} has the element {self.element!r}; give one of 4, 6 or 8 bits")

    @property
    def group_bytes(self) -> int:
        """Bytes of a scale and its elements."""
        return 1 + GROUP * self.element.bits() // 8

    @property
    def top(self) -> int:
        """Exponent of the largest element."""
        return math.frexp(self.element.max_finite)[1] - 1

    @property
    def max_finite(self) -> float:
        """Largest number, at the largest scale."""
        return float(self.element.max_finite) * 2.0**_SCALE_BIAS if self.top + _SCALE_BIAS < 1023 else math.inf

    @property
    def min_normal(self) -> float:
        """Largest number of a group from which on the unit roundoff holds."""
        return 2.0 ** (self.top - _SCALE_BIAS)

    @property
    def has_negative_zero(self) -> bool:
        """Whether -0 is stored as such."""
        return bool(self.element.has_negative_zero)

    def bits(self, read: int | None = None) -> int:
        """Bits of an element, its share of the scale left out."""
        self.checked_read(read)
        return self.element.bits()

    def unit_roundoff(self, read: int | None = None) -> float:
        """Half a step below the largest number of a group, or what it loses by saturation."""
        self.checked_read(read)
        half_step = 2.0**-self.element.fraction_bits / 2 if isinstance(self.element, FixedPointFormat) else None
        lost = 1.0 - float(self.element.max_finite) / 2.0 ** (self.top + 1)
        rounding = self.element.unit_roundoff() if half_step is None else half_step / 2.0**self.top
        return max(rounding, lost)

    def encode(self, values: Floats) -> npt.NDArray[Any]:
        """Return scales and elements, shape (groups, group_bytes)."""
        sizes = np.abs(values)
        largest = sizes.max(axis=1)
        sound = np.isfinite(largest)
        exponent = np.frexp(np.where(sound & (largest > 0.0), largest, 0.0))[1] - 1 - self.top
        exponent = np.clip(np.where(largest > 0.0, exponent, -_SCALE_BIAS), -_SCALE_BIAS, _SCALE_BIAS)
        with np.errstate(invalid="ignore"):
            shifted = np.ldexp(np.where(sound[:, None], values, 0.0), -exponent[:, None])
        most = float(self.element.max_finite)
        # OCP leaves the lowest integer of INT8 unused, so that ranges are symmetric.
        codes = self.element.encode(np.clip(shifted, -most, most).ravel()).reshape(values.shape)
        scale = np.where(sound, exponent + _SCALE_BIAS, _NAN_SCALE).astype(np.uint8)
        width = self.element.bits()
        fields = np.unpackbits(codes[..., None], axis=-1, count=width, bitorder="little")
        packed = np.packbits(fields.reshape(len(values), -1), axis=1, bitorder="little")
        return np.concatenate([scale[:, None], packed], axis=1)

    def decode(self, codes: npt.NDArray[Any], read: int | None = None) -> Floats:
        """Return values, shape (groups, 32)."""
        self.checked_read(read)
        width = self.element.bits()
        fields = np.unpackbits(codes[:, 1:], axis=1, bitorder="little").reshape(len(codes), GROUP, width)
        elements = np.packbits(fields, axis=-1, bitorder="little")[..., 0]
        scale = codes[:, :1].astype(np.int64)
        values = self.element.decode(elements.ravel()).reshape(elements.shape)
        return np.where(scale == _NAN_SCALE, np.nan, np.ldexp(values, scale - _SCALE_BIAS))

    def numba_codec(self) -> Codec:
        """Return load and store, with those of the element within."""
        from cpms.base.jit import inlined_in_loops

        inlined: Any = inlined_in_loops()
        element_load, element_store = (inlined(function) for function in self.element.numba_codec())
        width, top, most = self.element.bits(), self.top, float(self.element.max_finite)

        def load(group: Any, place: Any, read: Any) -> Any:
            scale = np.int64(group[0])
            if scale == 255:
                return np.nan
            at = place * width
            byte = 1 + (at >> 3)
            pair = np.int64(group[byte]) | (np.int64(group[min(byte + 1, len(group) - 1)]) << 8)
            code = (pair >> (at & 7)) & ((1 << width) - 1)
            return element_load(code, read) * np.int64((896 + scale) << 52).view(np.float64)

        def store(values: Any, group: Any) -> None:
            largest: Any = np.int64(0)
            for i in range(32):
                largest = max(largest, np.float64(values[i]).view(np.int64) & 0x7FFFFFFFFFFFFFFF)
            group[:] = 0
            if largest >= 0x7FF0000000000000:
                group[0] = 255
                return
            scale: Any = min(max((largest >> 52) - 1023 - top + 127, 0), 254)
            group[0] = scale
            back = np.int64((1150 - scale) << 52).view(np.float64)
            for i in range(32):
                code = element_store(min(max(values[i] * back, -most), most))
                code &= (1 << width) - 1
                at = i * width
                byte = 1 + (at >> 3)
                moved = code << (at & 7)
                group[byte] |= moved & 255
                if moved > 255:
                    group[byte + 1] |= moved >> 8

        return load, store


_INT8 = FixedPointFormat("int8", 8, 6)
_E5M2 = MiniFloatFormat("e5m2", 5, 2)
MXFP8_E5M2 = MicroscalingFormat("mxfp8-e5m2", _E5M2)
MXFP8_E4M3 = MicroscalingFormat("mxfp8-e4m3", minifloats.E4M3FN)
MXFP6_E3M2 = MicroscalingFormat("mxfp6-e3m2", minifloats.E3M2FN)
MXFP6_E2M3 = MicroscalingFormat("mxfp6-e2m3", minifloats.E2M3FN)
MXFP4 = MicroscalingFormat("mxfp4", minifloats.E2M1FN)
MXINT8 = MicroscalingFormat("mxint8", _INT8)
