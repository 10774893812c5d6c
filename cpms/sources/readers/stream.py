"""Bytes of a file, a pipe or standard input, where every failure is an `InputError` with its place."""

from __future__ import annotations

import io
import os
import stat
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from cpms.base.errors import InputError
from cpms.base.text.phases import Phase, phase
from cpms.sources.readers import compression
from cpms.sources.readers.kinds import compression_of

BLOCK_BYTES = 4 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONGEST_LINE_BYTES = 1 << 20
_STEP_BYTES = 1 << 12
Part = Callable[[], bytes]
"""Returns whole lines, each ending with a newline."""
BROKEN = (*compression.BROKEN, tarfile.TarError)
STANDARD_INPUT = "-"
"""The name that stands for standard input."""


class Stream:
    """A file read forward once: its decompressed bytes, its name and its place for messages.

    Parameters
    ----------
    raw : binary file
        The file as it lies on disk; its position is the place that errors report.
    inner : binary file
        What yields the decompressed bytes; ``raw`` itself for plain files.
    label : str
        What errors call the file.
    """

    def __init__(self, raw: IO[bytes], inner: IO[bytes], label: str) -> None:
        self.raw = raw
        self.inner = inner
        self.label = label
        self._kept: _Kept | int | None = None

    def inside(self, inner: IO[bytes], label: str) -> Stream:
        """Return a stream over a part of this one, such as the member of an archive."""
        return Stream(self.raw, inner, label)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Turn a failure to read into an `InputError` that names the file and the byte."""
        try:
            yield
        except BROKEN as error:
            reason = str(error).rstrip(".") or type(error).__name__
            raise InputError(
                f"{self.label}: unreadable near byte {self.raw.tell()} ({reason}); fetch the file again"
            ) from error

    def keep(self) -> None:
        """Remember this place for `begin_again`; keep what is read of a pipe, which cannot be read twice."""
        if self._plain_file() is not None:
            self._kept = self.raw.tell()
        else:
            self._kept = _Kept(self.inner)
            self.inner = io.BufferedReader(self._kept)

    def begin_again(self) -> None:
        """Go back to where `keep` was called."""
        if isinstance(self._kept, int):
            buffered: Any = self.raw
            raw = buffered.detach()
            raw.seek(self._kept)
            self.raw = self.inner = io.BufferedReader(raw)
            self._kept = None
        elif self._kept is not None:
            self.inner = io.BufferedReader(_Joined(b"".join(self._kept.parts), self._kept.inner))
            self._kept = None

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, none at the end."""
        with self.reporting():
            return self.inner.read(size)

    def readline(self) -> bytes:
        """Return the next line with its newline, nothing at the end."""
        with self.reporting():
            line = self.inner.readline(_LONGEST_LINE_BYTES)
        if len(line) == _LONGEST_LINE_BYTES:
            raise self.too_long(_LONGEST_LINE_BYTES)
        return line

    def skip_byte_order_mark(self) -> None:
        """Move past the mark with which some spreadsheets begin a UTF-8 file."""
        inner: Any = self.inner
        with self.reporting():
            marked = inner.peek(3).startswith(BYTE_ORDER_MARK)
        if marked:
            self.read(3)

    def line_blocks(self, longest: int = _LONGEST_LINE_BYTES) -> Iterator[bytes]:
        """Yield the rest of the stream in blocks of whole lines, each ending with a newline."""
        rest = b""
        while chunk := self.read(BLOCK_BYTES):
            end = chunk.rfind(b"\n") + 1
            if end:
                yield rest + chunk[:end]
                rest = chunk[end:]
            else:
                rest += chunk
            if len(rest) > longest:
                raise self.too_long(longest)
        if rest:
            yield rest + b"\n"

    def line_parts(self) -> Iterator[Part]:
        """Yield the rest of the stream in parts of whole lines, in their order, which any thread may read.

        A plain file is cut at equal distances, and a part has the lines that begin within its range, as input splits of
        MapReduce have (Dean and Ghemawat, 2004). Reading by position shares no place in the file, so threads do not
        wait for each other. Pipes and compressed files are read forward here, and their parts hold the lines.
        """
        file = self._plain_file()
        if file is None:
            for block in self.line_blocks():
                yield partial(bytes, block)
            return
        first, size = self.raw.tell(), os.fstat(file.fileno()).st_size
        for begin in range(first, size, BLOCK_BYTES):
            yield partial(self._lines_within, file, begin, begin + BLOCK_BYTES, first=first, size=size)

    def _plain_file(self) -> Any | None:
        """Return the file, if it is neither compressed nor a pipe, and nothing of it is kept."""
        file = _file_of(getattr(self.raw, "raw", None))
        is_plain = self.inner is self.raw and isinstance(file, io.FileIO) and hasattr(os, "pread")
        return file if is_plain and stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None

    def _lines_within(self, file: io.FileIO, begin: int, end: int, *, first: int, size: int) -> bytes:
        """Return the lines of a plain file of ``size`` bytes that begin from ``begin`` to before ``end``."""
        begin, end = (at if at == first else self._line_start(file, min(at, size)) for at in (begin, end))
        data = self._read_at(file, begin, end - begin)
        if len(data) < end - begin:
            raise InputError(f"{self.label}: the file became shorter while it was read; read it again")
        raw: Any = self.raw
        if isinstance(raw.raw, _Metered):
            raw.raw.count(end - begin)
        return data if data.endswith(b"\n") or not data else data + b"\n"

    def _line_start(self, file: io.FileIO, at: int) -> int:
        """Return where the first line begins that does not begin before ``at``; the end of the file if none does."""
        before = at - 1  # A line begins at ``at`` if the byte before ends one.
        while step := self._read_at(file, before, _STEP_BYTES):
            place = step.find(b"\n")
            if place >= 0:
                return before + place + 1
            before += len(step)
            if before - at > _LONGEST_LINE_BYTES:
                raise self.too_long(_LONGEST_LINE_BYTES)
        return before

    def _read_at(self, file: io.FileIO, begin: int, count: int) -> bytes:
        """Return bytes from a position on, fewer at the end of the file."""
        data = b""
        with self.reporting():
            while len(data) < count and (more := os.pread(file.fileno(), count - len(data), begin + len(data))):
                data += more
        return data

    def too_long(self, longest: int) -> InputError:
        """Return the error for a line of more than ``longest`` bytes."""
        return InputError(f"{self.label}: a line is longer than {longest:,} bytes, near byte {self.raw.tell()}")


class _Kept(io.RawIOBase):
    """A file whose bytes are kept in ``parts`` as they are read."""

    def __init__(self, inner: IO[bytes]) -> None:
        self.inner, self.parts = inner, list[bytes]()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.inner.read(len(buffer))
        self.parts.append(data)
        buffer[: len(data)] = data
        return len(data)


class _Joined(io.RawIOBase):
    """Some bytes, and the rest of a file after them."""

    def __init__(self, first: bytes, rest: IO[bytes]) -> None:
        self._first, self._rest = memoryview(first), rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data: Any = self._first[: len(buffer)]
        self._first = self._first[len(data) :]
        if not len(data):
            data = self._rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Metered(io.RawIOBase):
    """A raw file that counts its bytes, since pipes have no position, and advances the phase of its reading."""

    def __init__(self, raw: Any, reading: Phase) -> None:
        self.file, self._reading, self._count = raw, reading, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self.file.seekable())

    def tell(self) -> int:
        return self._count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        place: int = self.file.seek(offset, whence)
        self.count(place - self._count)
        return place

    def readinto(self, buffer: Any) -> int | None:
        count: int | None = self.file.readinto(buffer)
        self.count(count or 0)
        return count

    def count(self, count: int) -> None:
        """Note that so many bytes were read."""
        self._count += count
        self._reading.advance(count)


def _file_of(raw: Any) -> Any:
    """Return the file below a meter, or the raw file itself."""
    return raw.file if isinstance(raw, _Metered) else raw


def is_pipe(path: Path | str) -> bool:
    r"""Return whether a name stands for standard input or a pipe, which are read forward once.

    Examples
    --------
    >>> is_pipe("-"), is_pipe("no\0such")
    (True, False)
    """
    if str(path) == STANDARD_INPUT:
        return True
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)  # noqa: PTH116 - a Path has no such test for "no\0such"
    except (OSError, ValueError):
        return False


@contextmanager
def open_stream(path: Path) -> Iterator[Stream]:
    """Open ``path`` for reading, decompressed as the ending of its name says; of a pipe, as its first bytes say.

    Raises
    ------
    InputError
        If the file cannot be opened, or later breaks off or is corrupt.
    UnavailableError
        If there is no library for its compression.
    """
    with ExitStack() as stack:
        label, plain = _opened(path, stack)
        size_bytes = None if is_pipe(path) else path.stat().st_size
        reading = stack.enter_context(phase(f"reading {label if size_bytes is None else path.name}", size_bytes))
        raw = io.BufferedReader(_Metered(plain, reading))
        stream = Stream(raw, raw, label)
        packed = compression_of(path.name)
        if size_bytes is None:
            with stream.reporting():
                begin = raw.peek(6)
            packed = next((name for magic, name in compression.MAGIC.items() if begin.startswith(magic)), None)
        with stream.reporting():
            stream.inner = compression.decompressed(raw, packed, label)
        yield stream


def _opened(path: Path, stack: ExitStack) -> tuple[str, Any]:
    """Return what errors call a file, and the file, unbuffered."""
    if str(path) == STANDARD_INPUT:
        if sys.stdin is None:
            raise InputError("standard input is closed; give the name of a file")
        return "standard input", getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
    try:
        return str(path), stack.enter_context(path.open("rb", buffering=0))
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror})") from error
