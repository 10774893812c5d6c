"""A rank's share of an edge list: the lines that begin in its range of the file's bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from cpms.backends.mpi.shares.redistribution import Share
from cpms.base.errors import InputError
from cpms.base.host_memory import require_memory
from cpms.sources.readers.edge_lists.cleaning import Cleaner
from cpms.sources.readers.edge_lists.first_line import refuse_counts
from cpms.sources.readers.edge_lists.form import EMPTY, EdgeListForm, sniff
from cpms.sources.readers.edge_lists.reader import NumberedEdges, largest_below, numbered_edges
from cpms.sources.readers.kinds import stem_of
from cpms.sources.readers.options import ReadOptions
from cpms.sources.readers.stream import Stream, open_stream

_BYTES_AN_EDGE = 64
_Edges = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]


class _Range(io.RawIOBase):
    """The bytes of a file up to ``end``."""

    def __init__(self, file: BinaryIO, end: int) -> None:
        self._file, self._end = file, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(max(0, min(len(buffer), self._end - self._file.tell())))
        buffer[: len(data)] = data
        return len(data)


def read(path: Path, communicator: Any, options: ReadOptions) -> Share:
    """Return the edges of this rank's lines; collective, since the largest id gives the number of nodes.

    Raises
    ------
    InputError
        If a line of the share is no edge between numbered nodes, or the list can be understood in more than one way;
        with file and line.
    """
    from mpi4py import MPI

    with open_stream(path) as stream:
        form = sniff(stream, options)
        if not form.numbered:
            raise InputError(f"{path}: its nodes have names; ranks read numbered nodes alone, so use --whole")
    own = _range(path, form, communicator.rank, communicator.size)
    (sources, targets, weights), skipped = _edges(path, form, options, *own)
    largest = max((int(ids.max()) for ids in (sources, targets) if len(ids)), default=-1)
    nodes = 1 + communicator.allreduce(largest, MPI.MAX)
    if nodes == 0:
        raise InputError(f"{path}: {EMPTY}")
    begins = own[0] == communicator.bcast(own[0])  # this rank reads the first edge, or nothing before it does
    below = largest_below([sources], [targets]) if begins else largest
    edges = communicator.allreduce(len(sources), MPI.SUM)
    refuse_counts(form, edges, communicator.allreduce(below, MPI.MAX), str(path))
    before = len(sources)
    if form.valued and options.zero_weights == "drop":
        nonzero = weights != 0
        sources, targets, weights = sources[nonzero], targets[nonzero], weights[nonzero]
    counts = np.array([*skipped, before - len(sources)])
    comments, headers, zeros = communicator.allreduce(counts, MPI.SUM).tolist()
    record = replace(form.record(), skipped_lines=comments, repeated_headers=headers, zero_weights=zeros)
    ids = np.int32 if nodes < 2**31 else np.int64
    return Share(
        sources.astype(ids, copy=False),
        targets.astype(ids, copy=False),
        weights if form.valued else None,
        nodes,
        stem_of(path),
        read=record,
    )


def _range(path: Path, form: EdgeListForm, rank: int, ranks: int) -> tuple[int, int]:
    """Return the bytes from the first line of this rank to the first of the next."""
    with path.open("rb") as file:
        Stream(file, file, str(path)).skip_byte_order_mark()
        for _ in range(form.first_line - 1):
            file.readline()
        body = file.tell()
        size = file.seek(0, io.SEEK_END)

        def line_start(at: int) -> int:
            if at <= body:
                return body
            file.seek(at - 1)
            file.readline()
            return file.tell()

        begin, end = (line_start(body + (size - body) * place // ranks) for place in (rank, rank + 1))
        return begin, end


def _edges(
    path: Path, form: EdgeListForm, options: ReadOptions, begin: int, end: int
) -> tuple[_Edges, tuple[int, int]]:
    """Return the edges of a range of bytes, and the numbers of comment lines and repeated headers in it."""
    require_memory(_BYTES_AN_EDGE * (end - begin) // 8, f"{path}: a share of {end - begin:,} bytes")
    cleaner = Cleaner(form, str(path))
    try:
        found = list(_parsed(path, form, options, cleaner, begin, end, first_line=1))
    except InputError:
        # The lines before the range are counted for the number of the line in an error alone.
        with path.open("rb") as file:
            before = sum(block.count(b"\n") for block in _blocks(file, begin))
        found = list(_parsed(path, form, options, cleaner, begin, end, first_line=before + 1))
    skipped = cleaner.comment_lines, cleaner.repeated_headers
    if not found:
        return (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)), skipped
    *columns, _ = zip(*found, strict=True)
    sources, targets, weights = map(np.concatenate, columns)
    return (sources, targets, weights), skipped


def _parsed(
    path: Path, form: EdgeListForm, options: ReadOptions, cleaner: Cleaner, begin: int, end: int, *, first_line: int
) -> Iterator[NumberedEdges]:
    with path.open("rb", buffering=0) as file:
        file.seek(begin)
        stream = Stream(file, io.BufferedReader(_Range(file, end)), str(path))  # type: ignore[arg-type]
        yield from numbered_edges(stream, form, options, cleaner, first_line)


def _blocks(file: BinaryIO, end: int) -> Iterator[bytes]:
    while file.tell() < end:
        yield file.read(min(1 << 22, end - file.tell()))
