"""``cpms formats``: the named storage formats."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from cpms.base.text.terminal import say
from cpms.base.text.terminal_table import text_table
from cpms.formats.formats import FloatFormat, Format, SegmentFormat, format_named, names
from cpms.formats.minifloats import MiniFloatFormat


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "formats",
        help="list the storage formats",
        description="List the named storage formats, or those given. Others are spelled, such as seg16-16-32 or "
        "e6m9, and any may end in -planes, -nearest, -zero, -stochastic or -scaled. Bits are those of sign, exponent "
        "and mantissa, or of each segment. Of groups, errors are relative to the largest number of a group.",
        epilog="example: cpms formats e6m9",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="formats to list (default: all that have a name)")


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    formats = [format_named(name) for name in arguments.names or names()]
    rows = [[known.name, _fields(known), _reads(known)] for known in formats]
    reads = "mantissa bits stored (the hidden bit not counted): relative error against float64, of each read"
    say(*text_table(["name", "bits", reads], rows))
    return 0


def _fields(known: Format) -> str:
    """Return the fields of a code, and how many bits of memory it takes if that is more."""
    if isinstance(known, SegmentFormat):
        block = "planes" if known.block is None else f"blocks of {known.block}"
        return "+".join(map(str, known.widths)) + (f", {block}" if known.segments > 1 else "")
    stored = known.bits() if known.group > 1 else 8 * known.group_bytes
    if isinstance(known, FloatFormat | MiniFloatFormat):
        used = 1 + known.exponent_bits + known.mantissa_bits
        fields = f"1+{known.exponent_bits}+{known.mantissa_bits}"
    else:
        used = known.bits()
        fields = "+".join(map(str, np.diff([0, *(known.bits(k) for k in range(1, known.levels + 1))]).tolist()))
    fields += f", groups of {known.group}" if known.group > 1 else ""
    return fields + (f", stored in {stored}" if stored != used else "")


def _reads(known: Format) -> str:
    return "  ".join(_mantissa(known, k) + f"{known.unit_roundoff(k):.1e}" for k in range(1, known.segments + 1))


def _mantissa(known: Format, read: int) -> str:
    if isinstance(known, MiniFloatFormat):
        return f"{known.mantissa_bits}: "
    return f"{known.mantissa_kept(read)}: " if isinstance(known, SegmentFormat | FloatFormat) else ""
