"""Kernel templates of `cpms.quantize`: one for all floats in each rounding, one for posits, for fixed point and groups.

Formats differ in constants that a launch passes, so that one compiled kernel serves many; a codec of one's own is a
template argument.
"""

from __future__ import annotations

from collections.abc import Iterator

from cpms.backends.cuda.kernels.template import Variant, storage_type
from cpms.formats.formats import Format
from cpms.formats.rounding_rules import RoundingRule

REALS = {"float64": "double", "float32": "float"}


def round_values(format: Format, rule: RoundingRule | None, real: str, *, counted: bool) -> Variant:
    """Return the rounding of an array of float64 or float32; without a rule, by the format's codec in CUDA.

    Examples
    --------
    >>> from cpms.formats.minifloats import TF32
    >>> from cpms.formats.rounding_rules import rule_of
    >>> round_values(TF32, rule_of(TF32), "float64", counted=False).symbol
    'round_values__nearest__float64__plain'
    """
    if rule is None:
        codec, parts = storage_type(format, whole=False)
        name, cpp = codec, parts.replace("CodedFormat<", "CodecRule<", 1)
    elif rule.kind == "float":
        name, cpp = rule.rounding, f"cpms::FloatRule<cpms::Rounding::{rule.rounding}>"
    else:
        name, cpp = rule.kind, f"cpms::{rule.kind.capitalize()}Rule"
    kernel = "round_groups" if format.group > 1 else "round_values"
    names = (name, real, "counted" if counted else "plain")
    return Variant(kernel, names, (cpp, REALS[real], str(counted).lower()))


def largest_size(real: str) -> Variant:
    """Return the search of the largest finite size."""
    return Variant("largest_size", (real,), (REALS[real],))


def every(formats: list[tuple[Format, RoundingRule | None]]) -> Iterator[Variant]:
    """Yield all that rounding to these formats launches."""
    for real in REALS:
        yield largest_size(real)
        for format, rule in formats:
            for counted in (False, True):
                yield round_values(format, rule, real, counted=counted)
