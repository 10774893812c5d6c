"""``cpms convert``: arrays between float64 and storage formats, in files."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cpms.base.atomic_files import check_writable, refuse_replacing, replacing
from cpms.base.errors import InputError
from cpms.base.text.terminal import say
from cpms.formats.formats import FP64, Format, SegmentFormat, format_named

if TYPE_CHECKING:
    from cpms.storage.array import SegmentedArray


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "convert",
        help="convert an array file",
        description="Convert a float64 .npy file to a file in a storage format, or a file in a storage format back to "
        ".npy. A .cpms file holds any format, one's own included, and can be mapped; a .npz file holds segments or a "
        "packed float.",
        epilog="example: cpms convert ranks.npy ranks.npz --storage cpms4",
    )
    parser.add_argument("input", metavar="IN", type=Path, help=".npy of float64, or what this command wrote")
    parser.add_argument("output", metavar="OUT", type=Path, help=".cpms or .npz, or .npy for --storage fp64")
    parser.add_argument("--storage", required=True, metavar="NAME", help="format of OUT; see 'cpms formats'")
    parser.add_argument("--of", metavar="NAME", help="format of IN, a .cpms file, if it is one of your own")
    parser.add_argument(
        "--inplace", action="store_true", help="convert within the memory of the array, without a second one"
    )


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from cpms.storage import array
    from cpms.storage import file as stored_file
    from cpms.storage.array_file import load_array

    storage = format_named(arguments.storage)
    possible = (".npy",) if storage == FP64 else (".npz", ".cpms")
    if arguments.output.suffix not in possible:
        raise InputError(
            f"{arguments.output}: {arguments.storage} is written as {' or '.join(possible)}; end OUT in that"
        )
    check_writable(arguments.output)
    refuse_replacing(arguments.output, "OUT", [arguments.input])
    if arguments.input.suffix in (".npz", ".cpms"):
        is_zipped = arguments.input.suffix == ".npz"
        stored = stored_file.load(arguments.input) if is_zipped else load_array(arguments.input, format=arguments.of)
        if arguments.inplace:
            _segments(stored.format)
        values = stored.restore_inplace().reshape(stored.shape) if arguments.inplace else stored.decode()
    else:
        values = stored_file.load_values(arguments.input)
    if storage == FP64:
        with replacing(arguments.output) as temporary, temporary.open("wb") as file:
            np.save(file, values, allow_pickle=False)
    elif arguments.inplace:
        _save(
            arguments.output, replace(array.convert_inplace(values.reshape(-1), _segments(storage)), shape=values.shape)
        )
    else:
        _save(arguments.output, array.encode(values, storage))
    say(f"{arguments.output}: {values.size:,} values, {storage.nbytes(values.size):,} bytes in {storage.name}")
    return 0


def _segments(format: Format) -> SegmentFormat:
    """Return a format of segments; refuse any other."""
    if not isinstance(format, SegmentFormat):
        raise InputError(f"{format.name} is not made of segments, which alone convert in place; leave out --inplace")
    return format


def _save(path: Path, stored: SegmentedArray) -> None:
    from cpms.storage import file as stored_file

    if path.suffix == ".cpms":
        stored.save(path)
    else:
        stored_file.save(path, stored)
