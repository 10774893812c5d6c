"""A rank's share of an edge list: the lines that begin in its range of the file's bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from cpms.errors import InputError
from cpms.graph import LARGEST_ID
from cpms.mpi.sharing import Share
from cpms.readers.edge_list import parsed_lines
from cpms.readers.edge_list_form import EdgeListForm, bare, skip_byte_order_mark, sniff
from cpms.readers.entries import LineForm, check_weights, checked_blocks
from cpms.readers.memory import require_memory
from cpms.readers.stream import Stream, open_stream

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


def read(path: Path, communicator: Any) -> Share:
    """Return the edges of this rank's lines; every rank calls this, for the largest id counts the nodes.

    Raises
    ------
    InputError
        If a line of the share is no edge between numbered nodes; with file and line.
    """
    from mpi4py import MPI

    with open_stream(path) as stream:
        form = sniff(stream)
        if not form.numbered:
            raise InputError(f"{path}: its nodes have names; ranks read numbered nodes alone, so use --whole")
    sources, targets, weights = _edges(path, form, *_range(path, form, communicator.rank, communicator.size))
    largest = max((int(ids.max()) for ids in (sources, targets) if len(ids)), default=-1)
    nodes = 1 + communicator.allreduce(largest, MPI.MAX)
    if nodes == 0:
        raise InputError(f"{path}: the graph is empty; it needs at least one edge")
    ids = np.int32 if nodes < 2**31 else np.int64
    name = re.sub(r"\.(txt|el|csv|tsv)$", "", path.name, flags=re.IGNORECASE)
    return Share(sources.astype(ids), targets.astype(ids), weights if form.valued else None, nodes, name)


def _range(path: Path, form: EdgeListForm, rank: int, ranks: int) -> tuple[int, int]:
    """Return the bytes from the first line of this rank to the first of the next."""
    with path.open("rb") as file:
        skip_byte_order_mark(Stream(file, file, str(path)))
        for _ in range(form.header_lines):
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


def _edges(path: Path, form: EdgeListForm, begin: int, end: int) -> _Edges:
    require_memory(_BYTES_AN_EDGE * (end - begin) // 8, f"{path}: a share of {end - begin:,} bytes")
    try:
        found = list(_parsed(path, form, begin, end, first_line=1))
    except InputError:
        # Once more, to say which line it is: lines before the share are counted only for that.
        with path.open("rb") as file:
            before = sum(block.count(b"\n") for block in _blocks(file, begin))
        found = list(_parsed(path, form, begin, end, first_line=before + 1))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    sources, targets, weights = (np.concatenate(column) for column in zip(*found, strict=True))
    return sources, targets, weights


def _parsed(path: Path, form: EdgeListForm, begin: int, end: int, *, first_line: int) -> Iterator[_Edges]:
    line_form = LineForm(valued=form.valued, comma=form.separator == ",", low=0, high=LARGEST_ID)
    with path.open("rb", buffering=0) as file:
        file.seek(begin)
        stream = Stream(file, io.BufferedReader(_Range(file, end)), str(path))  # type: ignore[arg-type]
        for block in checked_blocks(stream, line_form, first_line, clean=bare):
            frame = parsed_lines(block, line_form)
            weights = frame[2].to_numpy() if form.valued else np.zeros(0)
            if form.valued:
                check_weights(weights, block, stream.label)
            yield frame[0].to_numpy(), frame[1].to_numpy(), weights


def _blocks(file: BinaryIO, end: int) -> Iterator[bytes]:
    while file.tell() < end:
        yield file.read(min(1 << 22, end - file.tell()))
