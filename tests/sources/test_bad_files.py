"""Bad files end to end: exit code 2, one line that names the file and the place, and no output file."""

import gzip
import io
import tarfile

import pytest

from cpms.cli import main

GOOD = "%%MatrixMarket matrix coordinate pattern general\n3 3 4\n1 2\n2 3\n3 1\n1 3\n"
WEIGHTED = "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 2 1.0\n2 3 2.0\n3 1 1\n1 3 4\n"
ZIPPED = gzip.compress(GOOD.encode(), mtime=0)


def archive(*members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


WHOLE = archive(("g/g.mtx", GOOD.encode()))
CASES = {
    "too_few.mtx": (GOOD[:-8], "line 2"),
    "too_many.mtx": (GOOD + "2 1\n", "line 7"),
    "out_of_range.mtx": (GOOD.replace("1 3", "1 9"), "line 6"),
    "negative.mtx": (GOOD.replace("1 3", "-1 3"), "line 6"),
    "zero_id.mtx": (GOOD.replace("1 3", "0 3"), "line 6"),
    "text.mtx": (GOOD.replace("2 3", "2 x"), "line 4"),
    "nan.mtx": (WEIGHTED.replace("2.0", "nan"), "line 4"),
    "inf.mtx": (WEIGHTED.replace("2.0", "inf"), "line 4"),
    "negative_weight.mtx": (WEIGHTED.replace("2.0", "-2.0"), "line 4"),
    "zero_weight.mtx": (WEIGHTED.replace("2.0", "0"), "line 4"),
    "no_nodes.mtx": ("%%MatrixMarket matrix coordinate pattern general\n0 0 0\n", "empty"),
    "too_large.mtx": (GOOD.replace("3 3 4", "999999999999 999999999999 99999999999999"), "bytes"),
    "rectangular.mtx": (GOOD.replace("3 3 4", "3 4 4"), "line 2"),
    "no_bytes.mtx": ("", "line 1"),
    "dense.mtx": ("%%MatrixMarket matrix array real general\n1 1\n1\n", "line 1"),
    "cut.mtx.gz": (ZIPPED[:-9], "byte"),
    "wrong_sum.mtx.gz": (ZIPPED[:-8] + bytes([ZIPPED[-8] ^ 0xFF]) + ZIPPED[-7:], "byte"),
    "not.mtx.gz": (b"hello", "byte"),
    "cut.tar.gz": (WHOLE[: len(WHOLE) // 2], "byte"),
    "outside.tar.gz": (archive(("../g.mtx", GOOD.encode())), "outside"),
    "absolute.tar.gz": (archive(("/g.mtx", GOOD.encode())), "outside"),
    "link.tar.gz": (archive(("g/g.mtx", None)), "link"),
    "without.tar.gz": (archive(("g/readme", b"x")), ".mtx"),
    "text.txt": ("# c\n0 1\n1 2\n2 x\n", "line 4"),
    "negative.el": ("0 1\n-1 2\n", "line 2"),
    "one_field.txt": ("0 1\n2\n", "line 2"),
    "nan.csv": ("source,target,weight\n0,1,1.5\n1,2,nan\n", "line 3"),
    "no_edges.txt": ("# only a comment\n", "empty"),
    "too_large.el": ("0 999999999999\n", "bytes"),
    "broken.npz": (b"PK\x03\x04junk", "npz"),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_with_file_and_place_and_without_output(capsys, tmp_path, name):
    content, place = CASES[name]
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    output = tmp_path / "ranks.npy"
    assert main.main(["rank", str(path), "--json", "--output", str(output)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert name.split(".")[0] in captured.err
    assert place in captured.err
    assert sorted(tmp_path.iterdir()) == [path]


def test_the_whole_ones_are_read(capsys, tmp_path):
    (tmp_path / "g.tar.gz").write_bytes(WHOLE)
    (tmp_path / "g.mtx.gz").write_bytes(ZIPPED)
    for name in ("g.tar.gz", "g.mtx.gz"):
        assert main.main(["rank", str(tmp_path / name), "--json"]) == 0


def test_string_ids_are_answered_by_name(capsys, tmp_path):
    (tmp_path / "sites.txt").write_text("a.com b.com\nb.com c.com\na.com c.com\n")
    assert main.main(["rank", str(tmp_path / "sites.txt"), "--json", "--top", "1"]) == 0
    assert '"c.com"' in capsys.readouterr().out


def test_sparse_ids_can_be_compacted(capsys, tmp_path):
    (tmp_path / "big.el").write_text("5 999999999999\n")
    assert main.main(["rank", str(tmp_path / "big.el"), "--ids", "compact", "--json"]) == 0
    assert "999999999999" in capsys.readouterr().out
