"""``cpms convert``: arrays there and back, and nothing half-written."""

import errno

import numpy as np
import pytest
from cli_runs import refused, run

import cpms


def test_an_array_is_never_replaced_by_its_conversion(capsys, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(5.0))
    run(capsys, "convert", tmp_path / "x.npy", tmp_path / "x.npz", "--storage", "cpms4")
    before = (tmp_path / "x.npz").read_bytes()
    refused(capsys, "convert", tmp_path / "x.npz", tmp_path / "x.npz", "--storage", "fp16")
    assert (tmp_path / "x.npz").read_bytes() == before


def test_a_full_disk_is_one_line_and_leaves_nothing(capsys, tmp_path, monkeypatch):
    values = tmp_path / "x.npy"
    np.save(values, np.arange(5.0))

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    assert "No space left on device" in refused(capsys, "convert", values, tmp_path / "x.npz", "--storage", "cpms4")
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


@pytest.mark.parametrize(
    ("storage", "suffix"),
    [("cpms2", "npz"), ("cpms4-planes", "cpms"), ("seg16-16-32", "npz"), ("fp32", "npz"), ("gse", "cpms")],
)
def test_convert_there_and_back(capsys, tmp_path, storage, suffix):
    values = np.array([1.0, -0.5, 3.0, 0.0, 2.0**-20])
    np.save(tmp_path / "x.npy", values)
    stored = tmp_path / f"x.{suffix}"
    assert run(capsys, "convert", tmp_path / "x.npy", stored, "--storage", storage)[0] == 0
    assert run(capsys, "convert", stored, tmp_path / "y.npy", "--storage", "fp64")[0] == 0
    assert np.load(tmp_path / "y.npy").tolist() == values.tolist()


def test_a_format_of_a_user_is_written_and_found_by_what_is_given(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("from cpms.formats.posits import PositFormat\nOWN = PositFormat('mine', 16)\n")
    np.save("x.npy", [0.5, -2.0])
    assert run(capsys, "convert", "x.npy", "x.cpms", "--storage", "own.py:OWN")[0] == 0
    assert "storage 'mine' is not known" in refused(capsys, "convert", "x.cpms", "y.npy", "--storage", "fp64")
    assert run(capsys, "convert", "x.cpms", "y.npy", "--storage", "fp64", "--of", "own.py:OWN")[0] == 0
    assert np.load("y.npy").tolist() == [0.5, -2.0]
    code, _, error = run(capsys, "convert", "x.npy", "x.npz", "--storage", "own.py:OWN")
    assert (code, "write a .cpms file" in error) == (2, True)


def test_convert_inplace_gives_the_same_bytes(capsys, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=1000))
    run(capsys, "convert", tmp_path / "x.npy", tmp_path / "a.npz", "--storage", "cpms4")
    run(capsys, "convert", tmp_path / "x.npy", tmp_path / "b.npz", "--storage", "cpms4", "--inplace")
    with np.load(tmp_path / "a.npz") as a, np.load(tmp_path / "b.npz") as b:
        assert (a["memory"] == b["memory"]).all()
    run(capsys, "convert", tmp_path / "b.npz", tmp_path / "y.npy", "--storage", "fp64", "--inplace")
    assert (np.load(tmp_path / "y.npy") == np.load(tmp_path / "x.npy")).all()


def test_convert_refuses_what_is_no_array(capsys, tmp_path):
    (tmp_path / "x.npy").write_bytes(b"not numpy")
    refused(capsys, "convert", tmp_path / "x.npy", tmp_path / "y.npz", "--storage", "cpms4")
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04")
    refused(capsys, "convert", tmp_path / "x.npz", tmp_path / "y.npy", "--storage", "fp64")
    np.save(tmp_path / "x.npy", np.zeros((2, 2)))
    refused(capsys, "convert", tmp_path / "x.npy", tmp_path / "y.npz", "--storage", "cpms4")
    np.save(tmp_path / "x.npy", np.zeros(2))
    refused(capsys, "convert", tmp_path / "x.npy", tmp_path / "y.npz", "--storage", "fp16", "--inplace")
    refused(capsys, "convert", tmp_path / "x.npy", tmp_path / "y.txt", "--storage", "cpms4")
    assert not (tmp_path / "y.npz").exists()


def test_only_segments_convert_in_place(capsys, tmp_path):
    cpms.encode([1.0, -2.0], "posit16").save(tmp_path / "x.cpms")
    given = (tmp_path / "x.cpms", tmp_path / "y.cpms", "--storage", "cpms2", "--inplace")
    assert "posit16 is not made of segments" in refused(capsys, "convert", *given)


@pytest.mark.parametrize("inplace", [(), ("--inplace",)])
def test_arrays_of_two_dimensions_keep_their_shape(capsys, tmp_path, inplace):
    values = np.arange(6.0).reshape(2, 3)
    cpms.encode(values, "cpms4").save(tmp_path / "x.cpms")
    code, output, _ = run(capsys, "convert", tmp_path / "x.cpms", tmp_path / "y.cpms", "--storage", "cpms2", *inplace)
    assert (code, "6 values, 48 bytes" in output) == (0, True)
    assert cpms.load_array(tmp_path / "y.cpms").decode().tolist() == values.tolist()
    assert run(capsys, "convert", tmp_path / "y.cpms", tmp_path / "z.npy", "--storage", "fp64", *inplace)[0] == 0
    assert np.load(tmp_path / "z.npy").tolist() == values.tolist()
    sentence = refused(capsys, "convert", tmp_path / "x.cpms", tmp_path / "y.npz", "--storage", "cpms2", *inplace)
    assert "hold no shape" in sentence
