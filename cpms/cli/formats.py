"""``cpms formats``: the named storage formats."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from cpms.base.text.terminal import say
from cpms.base.text.text_table import text_table
from cpms.formats.formats import FloatFormat, Format, SegmentFormat, format_named, names


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "formats",
        help="list the storage formats",
        description="List the named storage formats, or those given. Others are spelled, such as seg16-16-32 or "
        "e6m9, and any may end in -planes, -nearest, -zero, -stochastic or -scaled.",
        epilog="example: cpms formats e6m9",
    )
    parser.add_argument("names", nargs="*", metavar="NAME")


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    formats = [format_named(name) for name in arguments.names or names()]
    rows = [[known.name, _fields(known), _reads(known)] for known in formats]
    say(*text_table(["name", "bits", "mantissa bits and relative error against float64 of each read"], rows))
    return 0


def _fields(known: Format) -> str:
    if not isinstance(known, SegmentFormat | FloatFormat):
        together = f", groups of {known.group}" if known.group > 1 else ""
        widths = np.diff([0, *(known.bits(k) for k in range(1, known.levels + 1))]).tolist()
        return "+".join(map(str, widths)) + together
    if isinstance(known, FloatFormat):
        return f"1+{known.exponent_bits}+{known.mantissa_bits}"
    block = "planes" if known.block is None else f"blocks of {known.block}"
    return "+".join(map(str, known.widths)) + (f", {block}" if known.segments > 1 else "")


def _reads(known: Format) -> str:
    return "  ".join(f"{known.mantissa_kept(k)}: {known.unit_roundoff(k):.1e}" for k in range(1, known.segments + 1))
