"""``cpms inspect``: the bits of a value by segment and the value of each read, or format and first values of a file."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cpms.base.errors import InputError
from cpms.base.text.terminal import say
from cpms.base.text.terminal_table import text_table
from cpms.formats import oracle
from cpms.formats.formats import Format, SegmentFormat, format_named
from cpms.sources.readers import is_file
from cpms.storage.array import encode


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "inspect",
        help="show a value's bits, or a stored file",
        description="Show the bits of VALUE by segment and what each read gives, or the head of a stored FILE. "
        "A VALUE is a number, or the bits of a float64 as 0x and 16 hexadecimal digits.",
        epilog="example: cpms inspect 0.1 --storage cpms4",
    )
    parser.add_argument("what", metavar="VALUE|FILE")
    parser.add_argument("--storage", metavar="NAME", help="format in which to store VALUE; see 'cpms formats' (cpms4)")
    parser.add_argument("--of", metavar="NAME", help="format of FILE, a .cpms file, if it is one of your own")


def values_last(arguments: Sequence[str]) -> Sequence[str]:
    """Return arguments with negative values of ``inspect`` behind ``--``: argparse takes -1e-5 for an option.

    Examples
    --------
    >>> values_last(["inspect", "-1e-5", "--storage", "fp16"])
    ['inspect', '--storage', 'fp16', '--', '-1e-5']
    """
    values = [argument for argument in arguments if argument.startswith("-") and _number(argument) is not None]
    if not values or arguments[0] != "inspect" or "--" in arguments:
        return arguments
    return [*(argument for argument in arguments if argument not in values), "--", *values]


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if is_file(arguments.what):
        if arguments.storage:
            raise InputError(f"{arguments.what} has a format of its own; leave out --storage, or name it by --of")
        say(_file(Path(arguments.what), arguments.of))
        return 0
    if arguments.of:
        raise InputError(f"--of names the format of a .cpms file, and {arguments.what!r} is none; use --storage")
    value = _number(arguments.what)
    if value is None:
        raise InputError(f"{arguments.what!r} is neither a number, nor a file, nor 0x and the 16 digits of a float64")
    say(*_value(value, format_named(arguments.storage or "cpms4")))
    return 0


def _number(text: str) -> float | None:
    """Return a decimal number, or the float64 of 16 hexadecimal digits; None for other text.

    Examples
    --------
    >>> _number("1e-1"), _number("0x3fb999999999999a"), _number("0x3f")
    (0.1, 0.1, None)
    """
    if re.fullmatch(r"0[xX][0-9a-fA-F]{16}", text):
        return oracle.value_of(int(text, 16))
    try:
        return float(text)
    except ValueError:
        return None


def _value(value: float, storage: Format) -> list[str]:
    bits = f"{oracle.bits_of(value):064b}"
    head = f"{value!r} = {bits[0]} {bits[1:12]} {bits[12:]} (sign, exponent, mantissa)"
    if not isinstance(storage, SegmentFormat):
        stored = encode([value], storage)
        width = storage.bits()
        packed = int.from_bytes(stored.memory.tobytes(), "little") if storage.group == 1 else None
        shown = "-" if packed is None else f"{packed:0{width}b}"
        rows = [[width, shown, *_error(value, float(stored.decode()[0]))]]
        return [head, "", *text_table(["bits", "stored", "value", "relative error"], rows)]
    headers = ["read", "bits", "segment", "value so far", "relative error"]
    return [head, "", *text_table(headers, _reads(value, storage))]


def _reads(value: float, storage: SegmentFormat) -> list[list[object]]:
    rows: list[list[object]] = []
    segments = oracle.split(oracle.bits_of(value), storage.widths)
    for read, segment in enumerate(segments, 1):
        seen = oracle.value_of(oracle.join(segments[:read], storage.widths))
        rows.append([read, storage.bits(read), f"{segment:0{storage.widths[read - 1] // 4}x}", *_error(value, seen)])
    return rows


def _error(value: float, seen: float) -> tuple[str, str]:
    if not (math.isfinite(value) and math.isfinite(seen)) or value == 0:
        return repr(seen), "-"
    return repr(seen), f"{abs(seen - value) / abs(value):.2e}"


def _file(path: Path, of: str | None) -> str:
    from cpms.storage import array_file, file

    if of and path.suffix != ".cpms":
        raise InputError(f"--of names the format of a .cpms file; {path} says its own")
    if path.suffix == ".npy":
        values = file.load_values(path)
        name, nbytes = "fp64", values.nbytes
    else:
        stored = array_file.load_array(path, format=of) if path.suffix == ".cpms" else file.load(path)
        values, name, nbytes = stored.decode().ravel(), stored.format.name, stored.nbytes
    shown = ", ".join(repr(float(value)) for value in values[:5])
    return f"{path}: {len(values):,} values in {name}, {nbytes:,} bytes: {shown}{', …' if len(values) > 5 else ''}"
