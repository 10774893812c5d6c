"""Draw ``formats.svg``: the bits of formats, and the order of segments in memory, from the formats themselves.

A sign is one bit, and exponent and mantissa have the widths of the format; of a float64 in segments, a gap separates
segments, since each can be read without the next. Run it after a format has changed: ``python draw_formats.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import cpms

FORMATS = (cpms.FP64, cpms.CPMS2, cpms.CPMS4, cpms.CPMS8, cpms.FP32, cpms.FP16, cpms.BF16, cpms.E5M2, cpms.E4M3)
COLOURS = {"sign": "#D55E00", "exponent": "#E69F00", "mantissa": "#56B4E9"}
HEAD, REST = "#009E73", "#CCCCCC"
"""Of first segments in memory, and of all others."""
BIT, HEIGHT, ROW, LEFT, GAP = 9, 14, 24, 80, 6
VALUES = 4
"""Of the small block whose order in memory is drawn."""


def fields(storage: cpms.Format) -> list[str]:
    """Return the kind of each bit, most significant first."""
    if isinstance(storage, cpms.FloatFormat):
        exponent, mantissa = storage.exponent_bits, storage.mantissa_bits
    else:
        exponent, mantissa = 11, 52
    return ["sign"] + ["exponent"] * exponent + ["mantissa"] * mantissa


def segments(storage: cpms.Format) -> tuple[int, ...]:
    """Return the widths of the parts that can be read one after the other."""
    return storage.widths if isinstance(storage, cpms.SegmentFormat) else (storage.bits(),)


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    """Return an element of text."""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>'


def box(x: float, y: float, width: float, colour: str) -> str:
    """Return a rectangle."""
    return f'<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}" fill="{colour}" stroke="#ffffff"/>'


def bits_of(storage: cpms.Format, y: float) -> Iterator[str]:
    """Yield the elements of a format's line."""
    yield text(LEFT - 8, y + HEIGHT - 3, storage.name, "end")
    ends = list(accumulate(segments(storage)))
    for place, kind in enumerate(fields(storage)):
        yield box(LEFT + BIT * place + GAP * sum(end <= place for end in ends), y, BIT, COLOURS[kind])


def memory_of(storage: cpms.SegmentFormat, y: float) -> Iterator[str]:
    """Yield the elements of a block of few values: first segments side by side, then second ones."""
    yield text(LEFT - 8, y + HEIGHT - 3, storage.name, "end")
    x = float(LEFT)
    for number, width in enumerate(storage.widths, start=1):
        for value in "abcd"[:VALUES]:
            wide = BIT * width / VALUES
            yield box(x, y, wide, HEAD if number == 1 else REST)
            yield text(x + wide / 2, y + HEIGHT - 3, f"{value}{number}", "middle")
            x += wide
        x += GAP


def drawing() -> str:
    """Return the picture."""
    parts, y = [], 8
    for storage in FORMATS:
        parts += bits_of(storage, y)
        y += ROW
    x = LEFT
    for kind, colour in COLOURS.items():
        parts += [box(x, y, BIT, colour), text(x + BIT + 4, y + HEIGHT - 3, kind)]
        x += 90
    y += 2 * ROW
    parts.append(text(LEFT, y - 8, f"In memory, a block of {VALUES} values a, b, c, d: a1 is the first segment of a"))
    for storage in (cpms.FP64, cpms.CPMS2, cpms.CPMS4, cpms.CPMS8):
        parts += memory_of(storage, y)
        y += ROW
    width = LEFT + 64 * BIT + 9 * GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}" '
        'font-family="sans-serif" font-size="11" role="img">'
    )
    title = "<title>Bits of formats, most significant first, and the order of segments in memory</title>"
    return "\n".join([head, title, f'<rect width="{width}" height="{y}" fill="#ffffff"/>', *parts, "</svg>", ""])


if __name__ == "__main__":
    Path(__file__).with_name("formats.svg").write_text(drawing(), encoding="utf-8")
