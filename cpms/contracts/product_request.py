"""The request for a matrix's products: format, layout and precision, decided before an engine prepares the matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from cpms.formats.codes import ValueFormat
from cpms.formats.formats import FloatFormat
from cpms.formats.magnitude import MagnitudeSplit
from cpms.sparse.arrangement import Layout, layout_name

Compute: TypeAlias = Literal["fp64", "fp32"]
Scaling: TypeAlias = Literal["none", "rows"]

_WIDE_EXPONENT_BITS = 8
"""Least number of exponent bits with which a scaled format stores values near the largest float32."""


@dataclass(frozen=True)
class ProductRequest:
    """Format of a matrix's values, layout, indices, precision and scaling of its products.

    Parameters
    ----------
    storage : ValueFormat or None
        Format of the values; None for a pattern, whose entries are all 1.
    layout : str or Layout
        See `cpms.sparse.arrangement`.
    indices : {"auto", "32", "64", "compressed"}
        Bits of column numbers; ``compressed`` stores them as differences, in layout sell on a GPU alone.
    compute : {"fp64", "fp32"}
        Precision of products and sums.
    scaling : {"none", "rows"}
        Whether each row's values are stored times a power of two, which brings the largest of them near the end of
        the format's range.
    split : MagnitudeSplit or None
        Whether entries are stored in several formats by their size; ``storage`` is then the widest.

    Examples
    --------
    >>> from cpms.formats.formats import FP64
    >>> ProductRequest(FP64).refusal() is None
    True
    """

    storage: ValueFormat | None
    layout: str | Layout = "csr"
    indices: str = "auto"
    compute: Compute = "fp64"
    scaling: Scaling = "none"
    split: MagnitudeSplit | None = None

    @property
    def layout_name(self) -> str:
        """Name of the layout."""
        return layout_name(self.layout)

    def refusal(self) -> str | None:
        """Return a sentence that says why no engine can do this; None if one may."""
        storage, layout = self.storage, self.layout_name
        if storage is None and layout not in ("csr", "coo"):
            return f"layout {layout!r} pads rows with zeros, which a pattern has no values for; use csr or coo"
        if self.indices == "compressed" and layout != "sell":
            return f"compressed indices are for layout 'sell', not {layout!r}"
        if self.split is not None and self.scaling == "rows":
            return (
                f"{self.split.name} chooses formats by the size of entries, which scaled rows hide; leave scaling out"
            )
        packed = storage if isinstance(storage, FloatFormat) else None
        if self.scaling == "rows" and (packed is None or packed.scaled or packed.exponent_bits == 11):
            name = "a pattern" if storage is None else storage.name
            return (
                f"rows are scaled where values are packed floats of less range than float64, not {name}; "
                "use one such as fp16, without -scaled, or leave scaling out"
            )
        scaled = packed is not None and (packed.scaled or self.scaling == "rows")
        if packed is not None and scaled and packed.exponent_bits >= _WIDE_EXPONENT_BITS and self.compute == "fp32":
            return (
                f"{packed.name} with a scale stores values near the largest float32, whose products in fp32 are "
                "infinite; use a format with fewer exponent bits, no scale, or compute='fp64'"
            )
        return None
