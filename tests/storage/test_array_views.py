"""Stored arrays as arrays: shapes, slices, segments, files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import InputError
from cpms.testing import float_arrays

GOLDEN = Path(__file__).parents[1] / "golden" / "stored_array.cpms"
NAMES = ("cpms4", "cpms4-planes", "seg16-16-32", "fp16", "e4m3fn", "posit16", "gse", "fp64")


@pytest.mark.parametrize("name", NAMES)
def test_shapes_slices_and_equality(name):
    values = np.random.default_rng(0).standard_normal((70, 3, 2))
    stored = cpms.encode(values, name)
    whole = stored.decode()
    assert whole.shape == stored.shape == values.shape
    assert len(stored) == 70
    for index in (slice(3, 9), slice(65, None), slice(5, 5), 4, (slice(None), 1), slice(None, None, 7)):
        np.testing.assert_array_equal(stored[index], whole[index])
    np.testing.assert_array_equal(np.asarray(stored), whole)
    out = np.empty(values.shape)
    assert stored.decode(out=out) is out
    assert stored.equals(cpms.encode(values, name))
    assert not stored.equals(cpms.encode(values + 1.0, name))
    # As of arrays: value by value, against arrays and numbers, from either side; and no hash.
    assert (stored == whole).all()
    assert (whole == stored).all()
    assert (stored == cpms.encode(values, "fp64")).shape == values.shape
    assert ((stored != whole[0, 0, 0]) == (whole != whole[0, 0, 0])).all()
    with pytest.raises(TypeError, match="unhashable"):
        hash(stored)
    with pytest.raises(InputError, match="products take stored vectors"):
        cpms.matrix(np.eye(70), engine="cpu") @ stored


@settings(max_examples=40, deadline=None)
@given(
    float_arrays(min_size=1, max_size=150), st.sampled_from(["cpms4", "cpms4-planes", "cpms2", "seg16-16-32", "fp16"])
)
def test_segments_are_those_of_the_bits(values, name):
    stored = cpms.encode(values, name)
    if isinstance(stored.format, cpms.FloatFormat):
        assert stored.segment(0).tolist() == stored.units.tolist()
        return
    shift = 64
    for k, width in enumerate(stored.format.widths):
        shift -= width
        bits = values.view(np.uint64) >> np.uint64(shift) & np.uint64(2**width - 1)
        units = np.asarray(stored.segment(k)).reshape(len(values), -1).astype(np.uint64)
        places = np.uint64(stored.format.unit) * np.arange(units.shape[1], dtype=np.uint64)
        assert (units << places).sum(axis=1).tolist() == bits.tolist()


@pytest.mark.parametrize("name", ["cpms4-planes", "cpms2", "e4m3fn", "gse", "mxfp4"])
def test_segments_are_shared_with_other_libraries(tmp_path, name):
    """DLPack and `__array_interface__` of each segment, also of a file that is mapped read-only."""
    stored = cpms.encode(np.arange(2048.0), name)
    stored.save(tmp_path / "x.cpms")
    for array in (stored, cpms.load_array(tmp_path / "x.cpms", mapped=True)):
        for k in range(stored.format.levels):
            segment = array.segment(k)
            assert np.shares_memory(np.from_dlpack(segment), array.memory)
            assert segment.__array_interface__["shape"] == segment.shape
            np.testing.assert_array_equal(segment, stored.segment(k))
    if name == "gse":
        parts = [stored.segment(k).astype(np.uint64) for k in range(3)]
        codes = parts[0] << np.uint64(48) | parts[1] << np.uint64(32) | parts[2]
        sizes = (codes & np.uint64(2**60 - 1)).astype(np.float64)
        table = stored.memory.reshape(2, -1)[:, :16].copy().view("<i2").astype(int)
        exponents = np.take_along_axis(table, (codes >> np.uint64(60) & np.uint64(7)).astype(int), 1)
        np.testing.assert_array_equal(np.ldexp(sizes, exponents - 60).ravel(), stored.decode())


def test_a_plane_is_a_view():
    stored = cpms.encode(np.arange(300.0), "cpms4-planes")
    assert np.shares_memory(stored.segment(1), stored.memory)
    assert stored.segment(0).__array_interface__["typestr"] == "<u2"
    with pytest.raises(InputError, match="segment is 4; cpms4-planes has segments 0 to 3"):
        stored.segment(4)


@pytest.mark.parametrize("name", NAMES)
def test_files_keep_arrays(tmp_path, name):
    stored = cpms.encode(np.random.default_rng(1).standard_normal((41, 3)), name)
    stored.save(tmp_path / "x.cpms")
    for options in ({}, {"mapped": True}, {"format": name}):
        assert cpms.load_array(tmp_path / "x.cpms", **options).equals(stored)
    for read in range(1, stored.format.levels + 1):
        some = cpms.load_array(tmp_path / "x.cpms", read=read)
        np.testing.assert_array_equal(some.decode(read), stored.decode(read))
        assert not any(np.asarray(some.segment(k)).any() for k in range(read, stored.format.levels))


def test_stored_bytes_never_change(tmp_path):
    stored = cpms.encode(np.array([[0.1, -2.0], [np.inf, 5e-324]]), "cpms4")
    stored.save(tmp_path / "x.cpms")
    assert (tmp_path / "x.cpms").read_bytes() == GOLDEN.read_bytes()
    assert cpms.load_array(GOLDEN).equals(stored)


def test_other_files_are_refused_and_run_no_code(tmp_path):
    path = tmp_path / "x.cpms"
    cpms.encode([1.0], "cpms4").save(path)
    content = path.read_bytes()
    faults = {
        b"": "no file of a stored array",
        content[:-1]: "holds 7 bytes of values",
        content.replace(b"cpms4", b"cpms9"): "storage 'cpms9' is not known",
        content.replace(b'"cpms4"', b'"a:b"  '): "--no-plugins refuses",
    }
    for text, fault in faults.items():
        path.write_bytes(text)
        with pytest.raises(InputError, match=fault):
            cpms.load_array(path)


class StandIn(np.ndarray):
    """Main memory that says it is a device's, as arrays of CuPy do: views of it share pointer, strides and device."""

    @property
    def __cuda_array_interface__(self):
        return {**self.__array_interface__, "version": 3, "stream": None}

    def __dlpack_device__(self):
        return 2, 0


@pytest.mark.parametrize("name", ["cpms4", "cpms4-planes", "seg16-16-32", "gse", "mxfp8-e4m3", "posit16", "fp16"])
def test_interfaces_of_segments_have_the_strides_of_their_blocks(name):
    """The CUDA array interface of each segment against the bytes of the array, read by pointer and strides alone."""
    stored = cpms.encode(np.random.default_rng(4).standard_normal(4096), name)
    there = replace(stored, memory=stored.memory.view(StandIn))
    begin = stored.memory.__array_interface__["data"][0]
    for k in range(stored.format.levels):
        view = there.segment(k)
        given = view.__cuda_array_interface__
        assert view.__dlpack_device__() == (2, 0)
        strides = given["strides"] or np.empty(given["shape"], given["typestr"]).strides
        places = given["data"][0] - begin + sum(np.ogrid[tuple(slice(size) for size in given["shape"])][axis] * stride
                                               for axis, stride in enumerate(strides))  # fmt: skip
        width = np.dtype(given["typestr"]).itemsize
        units = stored.memory[np.asarray(places)[..., None] + np.arange(width)].view(given["typestr"])[..., 0]
        np.testing.assert_array_equal(units, stored.segment(k))
    if name == "cpms4":
        assert there.segment(1).__cuda_array_interface__["shape"] == (64, 64)
        assert there.segment(1).__cuda_array_interface__["strides"] == (512, 2)
        assert there.segment(1).__cuda_array_interface__["data"][0] == begin + 128


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["gse", "mxfp8-e4m3", "cpms4-planes", "cpms8", "posit16"])
def test_segments_in_device_memory_are_views_of_it(gpu_backend, name):
    """By the CUDA array interface and DLPack, also of groups, which are written in main memory alone."""
    import cupy

    del gpu_backend
    stored = cpms.encode(np.random.default_rng(3).standard_normal(4096), name)
    there = replace(stored, memory=cupy.asarray(stored.memory))
    begin, end = there.memory.data.ptr, there.memory.data.ptr + there.memory.nbytes
    for k in range(stored.format.levels):
        view, right = there.segment(k), stored.segment(k)
        assert begin <= view.__cuda_array_interface__["data"][0] < end
        for taken in (view, cupy.from_dlpack(view), cupy.asarray(view)):
            assert begin <= taken.data.ptr < end
            np.testing.assert_array_equal(cupy.asnumpy(taken), right)
