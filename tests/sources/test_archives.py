"""Archives and compressed files: the chosen member, and what is refused."""

from __future__ import annotations

import gzip
import tarfile

import pytest
from graph_texts import HEAD, WHOLE, archive

from cpms import InputError
from cpms.sources import readers


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("g", [("g/g.mtx", WHOLE)]),
        ("g", [("g", None), ("g/g.mtx", WHOLE), ("g/g_b.mtx", "not a matrix")]),
        ("g", [("g/g_b.mtx", "not a matrix"), ("g/readme", "x"), ("g/g.mtx", WHOLE)]),
        ("g", [("./g/g.mtx", WHOLE)]),
        ("whole", [("deep/folder/other.mtx", "not a matrix"), ("elsewhere/whole.mtx", WHOLE)]),
        ("only", [("only.mtx", WHOLE)]),
    ],
)
def test_the_main_matrix_of_an_archive_is_chosen(folder, name, members):
    graph = readers.read(archive(folder / "whole.tar.gz", *members, kind=tarfile.DIRTYPE))
    assert (graph.nodes, graph.edges, graph.first_id) == (3, 3, 1)
    assert graph.name == name


BAD_ARCHIVES = {
    "no member": ([], "it holds no .mtx file"),
    "no matrix": ([("g/readme", "x")], "it holds no .mtx file"),
    "two others": ([("a.mtx", WHOLE), ("b.mtx", WHOLE)], "none of a.mtx, b.mtx is the NAME/NAME.mtx"),
    "two main": ([("a/a.mtx", WHOLE), ("b/b.mtx", WHOLE)], "a second graph, b/b.mtx"),
    "absolute": ([("/g/g.mtx", WHOLE)], "member '/g/g.mtx' points outside"),
    "upward": ([("g/../../g.mtx", WHOLE)], "points outside"),
    "outside after the matrix": ([("g/g.mtx", WHOLE), ("../x", "")], "member '../x' points outside"),
    "bad matrix": ([("g/g.mtx", WHOLE + "1 1\n")], r", g/g\.mtx, line 6: more entries"),
}


@pytest.mark.parametrize("case", BAD_ARCHIVES)
def test_bad_archives_are_refused(folder, case):
    members, message = BAD_ARCHIVES[case]
    with pytest.raises(InputError, match=rf"bad\.tgz.*{message}"):
        readers.read(archive(folder / "bad.tgz", *members))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(folder, kind):
    path = archive(folder / "link.tar.gz", ("g/g.mtx", WHOLE), ("g/other", None), kind=kind)
    with pytest.raises(InputError, match="member 'g/other' is a link or device, not a file"):
        readers.read(path)


@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_truncated_archives(folder, part):
    lines = "".join(f"{i} {i * 7919 % 3000 + 1}\n" for i in range(1, 3001))
    path = archive(folder / "cut.tar.gz", ("g/g.mtx", f"{HEAD}3000 3000 3000\n{lines}"))
    data = path.read_bytes()
    path.write_bytes(data[: int(part * len(data))])
    with pytest.raises(InputError, match=r"cut\.tar\.gz.*unreadable near byte \d+"):
        readers.read(path)


def test_a_wrong_checksum_behind_the_matrix_is_found(folder):
    path = archive(folder / "sum.tar.gz", ("g/g.mtx", WHOLE))
    data = bytearray(path.read_bytes())
    data[-8] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="CRC check failed"):
        readers.read(path)


def test_an_extended_header_cannot_claim_the_memory(folder):
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 1 << 32
    path = folder / "claim.tar.gz"
    path.write_bytes(gzip.compress(header.tobuf() + bytes(1 << 16)))
    with pytest.raises(InputError, match="an extended header claims 4,294,967,296 bytes"):
        readers.read(path)
