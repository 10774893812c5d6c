"""Zip archives of one file, whose own name says what it is: ``anything.zip`` with ``links.csv`` in it."""

from __future__ import annotations

from pathlib import Path, PurePath

from cpms.base.errors import InputError
from cpms.graph.edge_list import Read
from cpms.sources import readers
from cpms.sources.readers.compression import only_member
from cpms.sources.readers.kinds import EDGE_LISTS, module_for, stem_of, without_compression
from cpms.sources.readers.options import ReadOptions
from cpms.sources.readers.stream import open_stream


def read(path: Path, options: ReadOptions) -> Read:
    """Read the graph in a zip archive.

    Raises
    ------
    InputError
        If the archive does not hold one file, or that is none that can be read from within an archive.
    """
    with path.open("rb") as raw:
        _, member = only_member(raw, str(path))
    name = PurePath(member.filename)
    module = module_for(name)
    if module not in readers.TEXT_MODULES or name.name != without_compression(name.name):
        raise InputError(
            f"{path}: holds {member.filename!a}, which is not read from an archive; unpack it, and give that"
        )
    if module != EDGE_LISTS:
        options.refuse_form(str(path))
    with open_stream(path) as stream:
        part = stream.inside(stream.inner, f"{path}, {member.filename}")
        return readers.read_text(str(module), part, stem_of(name), options)
