"""What stored arrays refuse, and files of arrays that changed."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cpms
from cpms import InputError, convert_inplace, encode, format_named
from cpms.storage import file


def test_what_can_be_encoded_is_what_numpy_reads_as_float64():
    assert encode([1, 2], cpms.CPMS4).decode().tolist() == [1.0, 2.0]
    assert encode(np.arange(6, dtype=np.float32)[::2], cpms.CPMS4).decode().tolist() == [0.0, 2.0, 4.0]
    assert encode(np.arange(6.0)[::-2], cpms.FP32).decode().tolist() == [5.0, 3.0, 1.0]


@pytest.mark.parametrize("values", [[[1.0]], 1.0, ["a"], [None, object()], [1j], [[1.0], [1.0, 2.0]]])
def test_values_must_be_a_list_of_real_numbers(values):
    with pytest.raises(InputError, match="values"):
        encode(values, cpms.CPMS4)


@pytest.mark.parametrize(
    "values",
    [
        *([1.0, 2.0], np.zeros(4, np.float32), np.zeros(4, ">f8"), np.zeros((2, 2)), np.zeros(8)[::2]),
        *(np.zeros(4)[::-1], np.zeros(4, np.int64), np.float64(1.0)),
    ],
    ids=repr,
)
def test_only_a_plain_float64_array_converts_in_place(values):
    with pytest.raises(InputError, match="in place"):
        convert_inplace(values, cpms.CPMS4)


def test_a_read_only_array_does_not_convert_in_place():
    values = np.ones(4)
    values.flags.writeable = False
    with pytest.raises(InputError, match="writable"):
        convert_inplace(values, cpms.CPMS4)
    assert values.tolist() == [1.0] * 4


def test_formats_may_be_named_and_nothing_else():
    values = np.arange(5.0)
    assert convert_inplace(values, "cpms4").format == cpms.CPMS4
    for what in (5, None, object()):
        for ask in (encode, convert_inplace):
            with pytest.raises(InputError, match="give a format"):
                ask(np.ones(4), what)


def test_segments_are_counted_in_whole_numbers():
    with pytest.raises(InputError, match="must be a whole number"):
        encode(np.ones(4), cpms.CPMS4).decode(read=1.5)
    with pytest.raises(InputError, match="must be a whole number"):
        cpms.SegmentFormat("half", (32, 32), 1.5)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: x.decode(out=[0.0] * 4), "out must be a writable array of float64"),
        (lambda x: x.decode(out=np.broadcast_to(0.0, 4)), "out must be a writable array of float64"),
        (lambda x: x.segment("a"), "segment is 'a'; it must be a whole number"),
        (lambda x: x.segment(1.5), "segment is 1.5; it must be a whole number"),
        (lambda x: x.save(3), "path is 3; give the path of a file to write"),
    ],
)
def test_arrays_refuse_in_a_sentence(call, says):
    with pytest.raises(InputError, match=says):
        call(encode(np.ones(4), cpms.CPMS4))


def test_arrays_that_are_mapped_are_not_written(tmp_path):
    encode(np.ones(4), cpms.CPMS4).save(tmp_path / "x.cpms")
    with pytest.raises(InputError, match="mapped read-only"):
        cpms.load_array(tmp_path / "x.cpms", mapped=True).write(np.zeros(4))


def test_packed_floats_have_no_room_in_place():
    with pytest.raises(InputError, match="fp16"):
        convert_inplace(np.ones(4), cpms.FP16)
    with pytest.raises(InputError, match="fp16"):
        encode(np.ones(4), cpms.FP16).restore_inplace()


@pytest.mark.parametrize("count", [0, 5, -1])
def test_segments_that_do_not_exist_are_neither_read_nor_written(count):
    stored = encode(np.ones(4), cpms.CPMS4)
    for ask in (
        stored.decode,
        lambda k: stored.write(np.ones(4), segments=k),
        lambda k: encode([1.0], cpms.CPMS4, segments=k),
    ):
        with pytest.raises(InputError, match="4 segments"):
            ask(count)
    assert stored.decode().tolist() == [1.0] * 4


@pytest.mark.parametrize("length", [0, 3, 5])
def test_a_write_has_the_length_of_the_array(length):
    with pytest.raises(InputError, match="4 values"):
        encode(np.ones(4), cpms.CPMS4).write(np.ones(length))


def test_a_write_beyond_a_scaled_range_is_infinite():
    stored = encode([1.0, 0.5], format_named("fp16-scaled"))
    stored.write([8.0, 0.5])
    assert stored.decode().tolist() == [math.inf, 0.5]


# Files that are damaged


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    for storage in ("cpms4", "fp16"):
        file.save(folder / f"{storage}.npz", cpms.encode([0.5, 1e9, -3.0], f"{storage}"))
    for storage in ("cpms4", "gse"):
        cpms.encode(np.array([[0.5, 1e9, -3.0]]), storage).save(folder / f"{storage}.cpms")
    np.save(folder / "values.npy", np.array([0.5, 1.0, 2.0]))
    return folder


READERS = {
    ".npz": lambda path: file.load(path).decode(),
    ".npy": file.load_values,
    ".cpms": lambda path: (cpms.load_array(path, read=1).segment(0), cpms.load_array(path, mapped=True).decode()),
}


@pytest.mark.parametrize("name", ["cpms4.npz", "fp16.npz", "values.npy", "cpms4.cpms", "gse.cpms"])
@given(data=st.data())
def test_bytes_that_changed_give_an_array_or_a_sentence(saved, name, data):
    content = bytearray((saved / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = saved / f"changed {name}"
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        READERS[path.suffix](path)


@pytest.mark.parametrize("shape", ["(3,), (", "(1000000000000000000000000000000,)", "(1000000000000000,)"])
def test_a_header_that_cannot_be_is_refused(tmp_path, shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(24))
    with pytest.raises(InputError, match=r"x\.npy: not a readable \.npy file"):
        file.load_values(path)


def test_an_array_of_another_type_or_shape_is_named_with_what_converts_it(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    with pytest.raises(InputError, match=r"holds float32 of shape \(2, 3\).*array.ravel\(\).astype\(float\)"):
        file.load_values(tmp_path / "x.npy")


def test_a_file_that_is_not_there_is_named_as_such(tmp_path):
    with pytest.raises(InputError, match=r"x\.npy: there is no such file"):
        file.load_values(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("storage", "changed"),
    [
        ("cpms4", {"length": 3.7}),
        ("cpms4", {"length": np.inf}),
        ("cpms4", {"exponent": 5}),
        ("cpms4", {"widths": np.array([16.5, 15.5, 16, 16])}),
        ("cpms4", {"block": 2.5}),
        ("fp16", {"exponent": 2**40}),
        ("fp16", {"exponent_bits": 5.9}),
    ],
)
def test_fields_of_a_file_that_no_array_has_are_refused(saved, tmp_path, storage, changed):
    fields = dict(np.load(saved / f"{storage}.npz"))
    np.savez(tmp_path / "x.npz", **(fields | changed))
    with pytest.raises(InputError, match=r"x\.npz"):
        file.load(tmp_path / "x.npz")


@pytest.mark.parametrize(
    "values", [np.array([1 + 2j, 3j]), np.ma.masked_array([1.0, 2.0], [0, 1])], ids=["complex", "masked"]
)
def test_what_floats_would_hold_a_part_of_is_refused(values):
    graph = cpms.Graph.from_edges([0, 1], [1, 0])
    for use in (
        lambda: cpms.encode(values, "fp32"),
        lambda: cpms.pagerank(graph, start=values, engine="reference"),
        lambda: cpms.pagerank(graph, personalization=values, engine="reference"),
    ):
        with pytest.raises(InputError, match=r"complex numbers|masked array"):
            use()


def test_masked_values_and_integers_beyond_float64_are_refused():
    with pytest.raises(InputError, match="masked"):
        convert_inplace(np.ma.array([1.0, 2.0], mask=[0, 1]), "cpms4")
    with pytest.raises(InputError, match="fit float64"):
        encode([10**400], "cpms4")
