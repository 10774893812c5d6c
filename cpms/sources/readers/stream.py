"""Bytes of a plain or gzipped file, where every failure is an `InputError` with its place."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cpms.base.errors import InputError

if TYPE_CHECKING:
    from cpms.base.text.progress import Bar

BLOCK_BYTES = 4 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONGEST_LINE_BYTES = 1 << 20
BROKEN = (EOFError, OSError, zlib.error, tarfile.TarError)


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

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, none at the end."""
        with self.reporting():
            return self.inner.read(size)

    def readline(self) -> bytes:
        """Return the next line with its newline, nothing at the end."""
        with self.reporting():
            line = self.inner.readline(_LONGEST_LINE_BYTES)
        if len(line) == _LONGEST_LINE_BYTES:
            raise self.too_long()
        return line

    def skip_byte_order_mark(self) -> None:
        """Move past the mark with which some spreadsheets begin a UTF-8 file."""
        inner: Any = self.inner
        with self.reporting():
            marked = inner.peek(3).startswith(BYTE_ORDER_MARK)
        if marked:
            self.read(3)

    def line_blocks(self) -> Iterator[bytes]:
        """Yield the rest of the stream in blocks of whole lines, each ending with a newline."""
        rest = b""
        while chunk := self.read(BLOCK_BYTES):
            end = chunk.rfind(b"\n") + 1
            if end:
                yield rest + chunk[:end]
                rest = chunk[end:]
            else:
                rest += chunk
            if len(rest) > _LONGEST_LINE_BYTES:
                raise self.too_long()
        if rest:
            yield rest + b"\n"

    def too_long(self) -> InputError:
        """Return the error for a line beyond all reason."""
        return InputError(
            f"{self.label}: a line is longer than {_LONGEST_LINE_BYTES:,} bytes, near byte {self.raw.tell()}"
        )


class _Metered(io.RawIOBase):
    """A raw file that moves a progress bar when it is read."""

    def __init__(self, raw: io.FileIO, bar: Bar) -> None:
        self._raw = raw
        self._bar = bar

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._raw.tell()

    def readinto(self, buffer: Any) -> int | None:
        count = self._raw.readinto(buffer)
        self._bar.update(count or 0)
        return count


@contextmanager
def open_stream(path: Path, *, progress: bool = False) -> Iterator[Stream]:
    """Open ``path`` for reading, through gzip if its name ends in ``gz``.

    Raises
    ------
    InputError
        If the file cannot be opened, or later breaks off or is corrupt.
    """
    with ExitStack() as stack:
        try:
            plain: io.RawIOBase = stack.enter_context(path.open("rb", buffering=0))
        except OSError as error:
            raise InputError(f"{path}: cannot be opened ({error.strerror})") from error
        if progress:
            from cpms.base.text.progress import Bar

            total_bytes = path.stat().st_size
            bar = Bar(total=total_bytes, unit="B", unit_scale=True, desc=path.name, disable=None, leave=False)
            plain = _Metered(plain, stack.enter_context(bar))  # type: ignore[arg-type]
        raw = io.BufferedReader(plain)
        gzipped = path.suffix.lower() in (".gz", ".tgz")
        inner: Any = gzip.GzipFile(fileobj=raw) if gzipped else raw
        yield Stream(raw, inner, str(path))
