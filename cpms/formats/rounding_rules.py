"""Rounding of a float64 to the numbers of a format as a few constants, with which one loop serves all formats.

Every format whose numbers stand for themselves rounds by an integer addition to the bits of a float64 (see
``convert/rounding_rules.cuh``); formats differ in where the last place lies and in what lies beyond the range.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from cpms.formats.fixed_point import FixedPointFormat
from cpms.formats.formats import FloatFormat, Format, Rounding
from cpms.formats.microscaling import MicroscalingFormat
from cpms.formats.minifloats import MiniFloatFormat
from cpms.formats.oracle import bits_of
from cpms.formats.posits import PositFormat
from cpms.formats.segments import DOUBLE_EXPONENT_BITS

Kind: TypeAlias = Literal["float", "posit", "fixed"]
_INFINITY, _NAN = 0x7FF0000000000000, 0x7FF8000000000000
_BIAS = 1023


class RoundingRule(NamedTuple):
    """Constants of a format's rounding; ``RoundingRule`` of ``convert/rounding_rules.cuh`` says what each means.

    Examples
    --------
    >>> from cpms.formats.formats import FP16
    >>> rule = rule_of(FP16)
    >>> rule.kind, rule.dropped, rule.top == bits_of(65504.0)
    ('float', 42, True)
    """

    kind: Kind
    top: int
    beyond: int
    infinite: int = _INFINITY
    rounding: Rounding = "nearest"
    seed: int = 0
    limit: int = 0
    step: float = 0.0
    steps: float = 0.0
    dropped: int = 0
    least: int = 0
    saturates: bool = False
    signless: bool = False
    exponent: int = 0
    nan_beyond: bool = False


def rule_of(format: Format, rounding: Rounding = "nearest", seed: int = 0) -> RoundingRule | None:
    """Return the rule of a format; None for one with a codec of its own.

    Parameters
    ----------
    format : Format
        Of groups, the rule is that of an element.
    rounding : {"nearest", "zero", "stochastic"}
        For formats that round in several ways, which are floats.
    seed : int
        Of stochastic rounding.

    Examples
    --------
    >>> from cpms.formats.minifloats import E4M3FN
    >>> rule_of(E4M3FN).beyond == _NAN, rule_of(E4M3FN, "zero").beyond == bits_of(448.0)
    (True, True)
    """
    if isinstance(format, FloatFormat | MiniFloatFormat):
        return _of_float(format, rounding, seed)
    if isinstance(format, PositFormat):
        n, top = format.width, bits_of(format.max_finite)
        return RoundingRule(
            *("posit", top, top, _NAN),
            dropped=55 - n,
            least=_BIAS - 4 * (n - 2),
            saturates=True,
            signless=True,
        )
    if isinstance(format, FixedPointFormat):
        return _of_fixed(format, 2.0 ** (format.width - 1))
    if isinstance(format, MicroscalingFormat):
        return _of_group(format)
    return None


def _of_float(format: FloatFormat | MiniFloatFormat, rounding: Rounding, seed: int) -> RoundingRule:
    assert format.bias is not None  # noqa: S101  # Every instance has one.
    e, m, bias, top = format.exponent_bits, format.mantissa_bits, format.bias, bits_of(format.max_finite)
    special = format.special if isinstance(format, MiniFloatFormat) else "ieee"
    cuts = rounding == "zero" or special == "finite"
    infinite = {"ieee": _INFINITY, "finite": top}.get(special, _NAN)
    return RoundingRule(
        *("float", top, top if cuts else infinite, infinite, rounding, seed),
        # With the exponents of float64, its subnormal numbers are those of the format.
        step=2.0 ** (1 - bias - m) if e < DOUBLE_EXPONENT_BITS else 0.0,
        dropped=52 - m,
        least=_BIAS + 1 - bias if e < DOUBLE_EXPONENT_BITS else 0,
        saturates=cuts,
        signless=special == "fnuz",
    )


def _of_fixed(format: FixedPointFormat, lowest: float) -> RoundingRule:
    step = 2.0**-format.fraction_bits
    most = 2.0 ** (format.width - 1) - 1.0
    return RoundingRule(
        *("fixed", bits_of(most), bits_of(lowest)), step=step, steps=1.0 / step, saturates=True, signless=True
    )


def _of_group(format: MicroscalingFormat) -> RoundingRule | None:
    element = format.element
    if isinstance(element, FixedPointFormat):
        # OCP leaves the lowest integer unused, so that ranges are symmetric.
        rule = _of_fixed(element, 2.0 ** (element.width - 1) - 1.0)
    else:
        rule = _of_float(element, "nearest", 0)
        rule = rule._replace(beyond=rule.top)
    return rule._replace(limit=bits_of(format.max_finite), exponent=format.top)


def beyond_of(format: Format, rule: RoundingRule, overflow: str) -> RoundingRule:
    """Return a rule that treats finite numbers beyond the largest one as asked; see `cpms.encode`.

    Examples
    --------
    >>> from cpms.formats.formats import FP16
    >>> beyond_of(FP16, rule_of(FP16), "saturate").beyond == bits_of(65504.0)
    True
    """
    if overflow != "inf":
        return rule if rule.kind == "fixed" or format.group > 1 else rule._replace(beyond=rule.top)
    if format.group > 1:
        return rule._replace(nan_beyond=True)
    return rule._replace(beyond=_INFINITY if format.has_infinity else _NAN)


def constants(rule: RoundingRule) -> tuple[np.generic, ...]:
    """Return the constants that a loop of Numba takes, of fixed types."""
    whole = (rule.top, rule.beyond, rule.infinite, rule.seed % 2**64)
    modes = {"zero": 0, "nearest": 1, "stochastic": 2}
    return (
        *map(np.uint64, whole),
        np.float64(rule.step),
        np.int64(rule.dropped),
        np.int64(rule.least),
        np.bool_(rule.saturates),
        np.bool_(rule.signless),
        np.int64(modes[rule.rounding]),
    )
