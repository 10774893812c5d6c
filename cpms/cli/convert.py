"""``cpms convert``: arrays between float64 and storage formats, in files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from cpms.base.atomic_files import check_writable, replacing
from cpms.base.errors import InputError
from cpms.base.text.terminal import say
from cpms.formats.formats import FP64, SegmentFormat, format_named


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "convert",
        help="convert an array file",
        description="Convert a float64 .npy file to a storage format (.npz), or such a file back (.npy).",
        epilog="example: cpms convert ranks.npy ranks.npz --storage cpms4",
    )
    parser.add_argument("input", metavar="IN", type=Path, help=".npy of float64, or .npz that this command wrote")
    parser.add_argument("output", metavar="OUT", type=Path, help=".npz, or .npy for --storage fp64")
    parser.add_argument("--storage", required=True, metavar="NAME")
    parser.add_argument("--inplace", action="store_true", help="re-order within one array in memory, without a second")


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from cpms.storage import array
    from cpms.storage import file as stored_file

    storage = format_named(arguments.storage)
    suffix = ".npy" if storage == FP64 else ".npz"
    if arguments.output.suffix != suffix:
        raise InputError(f"{arguments.output}: {arguments.storage} is written as {suffix}")
    check_writable(arguments.output)
    if arguments.output.exists() and arguments.output.resolve() == arguments.input.resolve():
        raise InputError(f"{arguments.output}: is what is converted, and would be replaced; give another file name")
    if arguments.input.suffix == ".npz":
        stored = stored_file.load(arguments.input)
        if arguments.inplace and not isinstance(stored.format, SegmentFormat):
            raise InputError(f"{stored.format.name} is a packed float, with no room in place; leave out --inplace")
        values = stored.restore_inplace() if arguments.inplace else stored.decode()
    else:
        values = stored_file.load_values(arguments.input)
    if storage == FP64:
        with replacing(arguments.output) as temporary, temporary.open("wb") as file:
            np.save(file, values, allow_pickle=False)
    elif arguments.inplace:
        if not isinstance(storage, SegmentFormat):
            raise InputError(f"{storage.name} is a packed float; only segment formats convert in place")
        stored_file.save(arguments.output, array.convert_inplace(values, storage))
    else:
        stored_file.save(arguments.output, array.encode(values, storage))
    say(f"{arguments.output}: {len(values):,} values, {storage.nbytes(len(values)):,} bytes in {storage.name}")
    return 0
