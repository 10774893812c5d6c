"""Archives of SuiteSparse (``NAME/NAME.mtx``) and KONECT (``NAME/out.NAME``), read without unpacking to disk."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Self

from cpms.base.errors import CpmsError, InputError
from cpms.graph.edge_list import Read
from cpms.sources.readers import matrix_market
from cpms.sources.readers.graph_files import konect
from cpms.sources.readers.kinds import KONECT, is_resource_fork, module_for, stem_of
from cpms.sources.readers.options import ReadOptions
from cpms.sources.readers.stream import Stream, open_stream

_LONGEST_HEADER_BYTES = 1 << 20
_HEADERS = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, b"X")


class _Member(tarfile.TarInfo):
    """A member whose extended header cannot claim the whole memory."""

    @classmethod
    def frombuf(cls, *arguments: Any, **named: Any) -> Self:
        member = super().frombuf(*arguments, **named)
        if member.type in _HEADERS and member.size > _LONGEST_HEADER_BYTES:
            raise InputError(f"an extended header claims {member.size:,} bytes")
        return member


def read(path: Path, options: ReadOptions) -> Read:
    """Read the matrix of a SuiteSparse archive, compressed or not, or the edges of a KONECT one.

    Of several ``.mtx`` or ``out.*`` members the one named as its folder or as the archive counts; right-hand
    sides such as ``NAME_b.mtx`` are passed over, and files that macOS adds.

    Raises
    ------
    InputError
        If the archive is truncated or corrupt, has a member that points outside or is a link, has no matrix or more
        than one, or the matrix is wrong.
    """
    own_name = path.name[: path.name.lower().rindex(".t")]

    def is_main(member: PurePosixPath) -> bool:
        return stem_of(member) in (member.parent.name, own_name)

    graphs, others = _read_members(path, options, is_main)
    if not graphs and len(others) == 1:
        graphs, _ = _read_members(path, options, lambda _: True)
    elif not graphs:
        found = f"none of {', '.join(others)} is" if others else "it holds no .mtx file, so none is"
        raise InputError(f"{path}: {found} the NAME/NAME.mtx of SuiteSparse or the NAME/out.NAME of KONECT")
    return graphs[0]


def _read_members(
    path: Path, options: ReadOptions, is_wanted: Callable[[PurePosixPath], bool]
) -> tuple[list[Read], list[str]]:
    """Read the wanted matrix, look at all members; return it, if any, and the other ``.mtx`` names."""
    graphs: list[Read] = []
    others: list[str] = []
    with open_stream(path) as stream:
        for tar, member in _members(stream):
            name = PurePosixPath(member.name)
            konect_file = module_for(name) == KONECT
            if not member.isreg() or is_resource_fork(name) or not (konect_file or name.suffix.lower() == ".mtx"):
                continue
            if not is_wanted(name):
                others.append(member.name)
            elif graphs:
                raise InputError(f"{path}: a second graph, {member.name}; unpack it and give one .mtx")
            else:
                inner: Any = tar.extractfile(member)
                part = stream.inside(inner, f"{path}, {member.name}")
                reader = konect if konect_file else matrix_market
                graphs.append(reader.read_stream(part, stem_of(name), options))
    return graphs, others


def _members(stream: Stream) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield the members of a tar stream in order, then read the rest so that its checksum is checked."""
    tar = _parsed(stream, lambda: tarfile.open(fileobj=stream.inner, mode="r|", tarinfo=_Member))  # noqa: SIM115
    while member := _parsed(stream, tar.next):
        name = PurePosixPath(member.name)
        if name.is_absolute() or ".." in name.parts:
            raise InputError(f"{stream.label}: member {member.name!r} points outside the archive")
        if not (member.isreg() or member.isdir()):
            raise InputError(f"{stream.label}: member {member.name!r} is a link or device, not a file")
        yield tar, member
    while stream.read(1 << 20):
        pass


def _parsed(stream: Stream, step: Callable[[], Any]) -> Any:
    """Take one step of `tarfile`, which may raise anything on a broken header."""
    with stream.reporting():
        try:
            return step()
        except CpmsError as error:
            raise InputError(f"{stream.label}: corrupt archive, {error}") from error
        except (ValueError, ArithmeticError, LookupError, MemoryError) as error:
            raise InputError(f"{stream.label}: corrupt archive near byte {stream.raw.tell()} ({error})") from error
