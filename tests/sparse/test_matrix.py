"""Matrices from all that users hold, and where their entries lie in each layout."""

from __future__ import annotations

from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from cpms import Graph, InputError, UnsupportedError, load
from cpms.base import host_memory
from cpms.formats.formats import format_named
from cpms.sparse import matrix as sparse_matrix
from cpms.sparse.arrangement import LAYOUTS, arranged
from cpms.sparse.matrix import Matrix
from cpms.sparse.stored_values import require_fitting
from cpms.sparse.transition import transition


@st.composite
def matrices(draw):
    shape = draw(st.tuples(st.integers(1, 70), st.integers(1, 9)))
    places = st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1))
    found = draw(st.lists(st.tuples(places, st.floats(-9, 9)), max_size=60))
    rows, columns = ([place[axis] for place, _ in found] for axis in (0, 1))
    return Matrix.from_triplets(rows, columns, [value for _, value in found], shape=shape)


def placed(arrangement):
    """Read a layout back as a dense matrix, slot by slot as its definition says."""
    source, dense = arrangement.matrix, np.zeros(arrangement.matrix.shape)
    values = arrangement.spread(source.given_values())
    for i in range(source.rows):
        if arrangement.slice_rows:
            row = i if arrangement.order is None else int(arrangement.order[i])
            here, lane = divmod(i, arrangement.slice_rows)
            first, end = int(arrangement.starts[here]) + lane, int(arrangement.starts[here + 1])
            slots = range(first, end, arrangement.slice_rows)
        else:
            row, slots = i, range(int(arrangement.starts[i]), int(arrangement.starts[i + 1]))
        for slot in slots:
            if arrangement.row_numbers is not None:
                assert arrangement.row_numbers[slot] == row
            dense[row, arrangement.columns[slot]] += values[slot]
    return dense


@settings(max_examples=40)
@given(matrices(), st.sampled_from(LAYOUTS), st.sampled_from(["auto", "64"]))
def test_every_layout_holds_the_matrix(matrix, layout, indices):
    arrangement = arranged(matrix, layout, indices)
    np.testing.assert_array_equal(placed(arrangement), matrix.to_scipy().toarray())
    assert arrangement.columns.dtype == (np.uint64 if indices == "64" else np.uint32)
    assert arrangement.slots == len(arrangement.columns) >= matrix.entries


def test_padding_touches_nothing_that_the_row_does_not():
    lengths = np.tile([1, 3], 32)
    rows = np.repeat(np.arange(64), lengths)
    columns = np.concatenate([np.arange(n) + 5 for n in lengths])
    arrangement = arranged(Matrix.from_triplets(rows, columns, np.ones(len(rows))), "ell")
    assert set(arrangement.columns[: arrangement.slots].tolist()) == {5, 6, 7}
    assert arrangement.columns.reshape(3, -1)[:, 0].tolist() == [5, 5, 5]


def test_rows_are_sorted_only_where_that_saves_more_than_it_costs():
    rng = np.random.default_rng(0)
    ragged = scipy.sparse.csr_array(rng.random((5000, 300)) < rng.random((5000, 1)) * 0.1).astype(float)
    sliced = arranged(Matrix.from_scipy(ragged), "sell")
    assert sliced.order is not None
    assert sorted(sliced.order.tolist()) == list(range(5000))
    unsorted = sum(32 * n.max() for n in np.split(np.diff(ragged.indptr), range(32, 5000, 32)))
    assert ragged.nnz <= sliced.slots < 0.8 * unsorted
    assert arranged(Matrix.from_scipy(scipy.sparse.eye_array(5000)), "sell").order is None


def test_what_scipy_holds_is_not_copied_and_not_changed():
    held = scipy.sparse.csr_array(np.array([[0.0, -1.5], [2.0, 0.0]]))
    matrix = Matrix.from_scipy(held)
    assert np.shares_memory(matrix.values, held.data)
    assert np.shares_memory(matrix.indices, held.indices)
    twice = scipy.sparse.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    assert Matrix.from_scipy(twice).values.tolist() == [2.0, 5.0]
    assert twice.data.tolist() == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
def test_all_of_scipys_formats_and_types_are_read(kind):
    for dtype in (np.float64, np.float32, np.int64, np.int8, np.bool_):
        dense = np.array([[0, 1, 0], [1, 0, 1]]).astype(dtype)
        matrix = Matrix.from_scipy(scipy.sparse.csr_array(dense).asformat(kind))
        np.testing.assert_array_equal(matrix.to_scipy().toarray(), dense.astype(float))
        assert matrix.values.dtype == np.float64


def test_a_transition_matrix_is_one_like_any_other():
    graph = Graph.from_edges([0, 0, 0, 2], [1, 1, 2, 0], weights=[1.0, 2.0, 1.0, 5.0], nodes=4)
    matrix = transition(graph)
    dense = matrix.to_scipy().toarray()
    assert dense.tolist() == [[0, 0, 1, 0], [0.75, 0, 0, 0], [0.25, 0, 0, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(matrix.transposed().to_scipy().toarray(), dense.T)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Matrix.from_dense([[1.0, np.nan]]), "holds nan in row 0, column 1; entries must be finite"),
        (lambda: Matrix.from_scipy(scipy.sparse.csr_array([[0.0], [np.inf]])), "holds inf in row 1, column 0"),
        (lambda: Matrix.from_dense([[1j]]), "is complex"),
        (lambda: Matrix.from_dense([["a"]]), "type <U1"),
        (lambda: Matrix.from_dense(np.ones((1, 1), np.longdouble)), "converts to it exactly"),
        (lambda: Matrix.from_dense([[2**53 + 1]]), r"beyond 2\*\*53"),
        (lambda: Matrix.from_dense([1.0]), "has 1 dimension; give two"),
        (lambda: Matrix.from_dense(np.ones((0, 3))), "needs a row and a column"),
        (lambda: Matrix.from_dense(np.ma.masked_array([[1.0]])), "masked"),
        (lambda: Matrix.from_triplets([0], [0, 1], [1.0]), "one of each an entry"),
        (lambda: Matrix.from_triplets([-1], [0], [1.0]), "begin at -1"),
        (lambda: Matrix.from_triplets(np.ma.masked_equal([1], 1), [0], [1.0]), "rows of triplets is a masked array"),
        (
            lambda: Matrix.from_triplets([2**63], [0], [1.0]),
            r"up to 9223372036854775808; give numbers below",
        ),
        (lambda: Matrix.from_triplets([0.5], [0], [1.0]), "list of integers"),
        (lambda: Matrix.from_triplets([3], [0], [1.0], shape=(2, 2)), "outside shape"),
        (lambda: Matrix.from_triplets([3], [0], [1.0], shape=3), "give rows and columns"),
        (lambda: arranged(Matrix.from_dense([[1.0]]), "hexagonal"), "layout 'hexagonal' is not known"),
        (lambda: arranged(Matrix.from_dense([[1.0]]), "csr", "16"), "indices are '16'"),
    ],
)
def test_what_is_no_matrix_is_a_sentence(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()


def _altered(layout, attribute, change):
    """A sparse matrix of SciPy, one array of which was altered after SciPy had checked it."""
    wrong = scipy.sparse.eye_array(5).asformat(layout)
    array = getattr(wrong, attribute).copy()
    setattr(wrong, attribute, change(array))
    return wrong


@pytest.mark.parametrize("make", [Matrix.from_scipy, Graph.from_scipy, load])
@pytest.mark.parametrize(
    ("layout", "attribute", "change"),
    [
        ("csr", "indices", lambda a: np.where(a == 2, 9_000_000, a)),
        ("csr", "indices", lambda a: np.where(a == 2, -1, a)),
        ("csr", "indptr", lambda a: np.where(a == 2, 0, a)),
        ("csr", "indptr", lambda a: np.where(a == 5, 9_000_000, a)),
        ("csr", "data", lambda a: a[1:]),
        ("csc", "indices", lambda a: np.where(a == 2, 9_000_000, a)),
        ("bsr", "indices", lambda a: np.where(a == 2, 9_000_000, a)),
        ("coo", "row", lambda a: np.where(a == 2, -9_000_000, a)),
    ],
)
def test_arrays_that_contradict_each_other_are_found_before_a_loop_reads_them(make, layout, attribute, change):
    with pytest.raises(InputError, match=f"not valid in {layout.upper()}.*make it anew"):
        make(_altered(layout, attribute, change))


@pytest.mark.parametrize("indices", [">i4", ">i8", "<i4", "<u4", "u1"])
@pytest.mark.parametrize("values", [">f8", ">f4", ">i2", "<f8"])
@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr", "dia"])
def test_any_byte_order_of_scipys_arrays_is_read(layout, indices, values):
    dense = np.array([[0.0, 3.0, 0.0], [2.0, 0.0, 0.0], [0.0, 5.0, 7.0]])
    foreign = scipy.sparse.csr_array(dense).asformat(layout)
    for name in ("indices", "indptr", "offsets"):
        if hasattr(foreign, name):
            setattr(foreign, name, getattr(foreign, name).astype("i4" if layout == "dia" else indices))
    if layout == "coo":
        foreign.coords = tuple(places.astype(indices) for places in foreign.coords)
    foreign.data = foreign.data.astype(values)
    found = Matrix.from_scipy(foreign)
    arrays = found.values, found.indices, found.indptr
    assert all(each.dtype.isnative for each in arrays)
    assert found.to_scipy().toarray().tolist() == dense.tolist()
    graph = Graph.from_scipy(foreign)
    assert graph.to_scipy().toarray().tolist() == dense.tolist()
    assert load(foreign).to_scipy().toarray().tolist() == dense.tolist()


@pytest.mark.parametrize(
    ("layout", "attribute"), [("csr", "indices"), ("csc", "indptr"), ("coo", "coords"), ("dia", "offsets")]
)
def test_indices_that_are_no_integers_are_refused(layout, attribute):
    held = scipy.sparse.csr_array(np.eye(3)).asformat(layout)
    given = getattr(held, attribute)
    setattr(held, attribute, tuple(each + 0.5 for each in given) if layout == "coo" else given + 0.5)
    for make in (Matrix.from_scipy, Graph.from_scipy, load):
        with pytest.raises(InputError, match=f"not valid in {layout.upper()}: indices are float64, not integers; make"):
            make(held)


FAULTS = {
    "none": lambda *_: None,
    "a column beyond": lambda held, k: held.indices.__setitem__(k, held.shape[1]),
    "a column below": lambda held, k: held.indices.__setitem__(k, -1),
    "a column twice": lambda held, k: held.indices.__setitem__(k, held.indices[k - 1]),
    "a start beyond": lambda held, k: held.indptr.__setitem__(k % len(held.indptr), 10_000),
    "a start below": lambda held, k: held.indptr.__setitem__(k % len(held.indptr), -3),
    "starts that descend": lambda held, _: setattr(held, "indptr", held.indptr[::-1].copy()),
    "an infinity": lambda held, k: held.data.__setitem__(k, np.inf),
    "a value less": lambda held, _: setattr(held, "data", held.data[1:]),
    "a start less": lambda held, _: setattr(held, "indptr", held.indptr[1:]),
    "other bytes": lambda held, _: setattr(held, "data", held.data.astype(">f8")),
    "short starts": lambda held, _: setattr(held, "indptr", held.indptr.astype(np.int16)),
}


def is_canonical(held):
    """Return what SciPy's checks say, and NumPy's."""
    try:
        type(held)((held.data, held.indices, held.indptr), shape=held.shape).check_format(full_check=True)
    except ValueError:
        return False
    if held.indptr.min() < 0 or not held.indptr[-1] == len(held.indices) == len(held.data):
        return False
    rows = (held.indices[a:b] for a, b in pairwise(held.indptr.tolist()))
    return all((np.diff(row) > 0).all() for row in rows) and bool(np.isfinite(held.data).all())


@settings(max_examples=300)
@given(matrices(), st.sampled_from(sorted(FAULTS)), st.integers(0, 99), st.sampled_from([1, 3, 100]))
def test_what_is_used_as_it_is_passes_all_checks(matrix, fault, entry, rows):
    if not matrix.entries:
        return
    held = matrix.to_scipy().copy()
    FAULTS[fault](held, entry % matrix.entries)
    with patch.object(sparse_matrix, "_ROWS", rows):
        found = sparse_matrix._is_canonical(held)
    assert found == (is_canonical(held) and fault not in ("other bytes", "short starts"))
    if found:
        assert Matrix.from_scipy(held).values is held.data


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "float32", "int64"])
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "triplets"])
def test_entries_of_one_place_are_added_up_without_overflow(dtype, layout):
    values, rows, columns = np.array([100.1, 100.2, 1.0]).astype(dtype), [0, 0, 1], [1, 1, 0]
    given = scipy.sparse.coo_array((values, (rows, columns)), shape=(2, 2))
    if layout == "csr":
        given = scipy.sparse.csr_array((values, columns, [0, 2, 3]), shape=(2, 2))
    if layout == "csc":
        given = scipy.sparse.csr_array((values, columns, [0, 2, 3]), shape=(2, 2)).T
    matrix = Matrix.from_triplets(rows, columns, values) if layout == "triplets" else Matrix.from_scipy(given)
    total = np.float64(values[0]) + np.float64(values[1])
    assert sorted(matrix.values) == sorted([total, np.float64(values[2])])


@pytest.mark.parametrize("dtype", [">f8", ">f4", ">i4", "f2", "int8", "bool"])
def test_dense_values_of_any_real_type_are_taken_exactly(dtype):
    given = np.array([[0, 3], [-2, 0]]).astype(dtype)
    matrix = Matrix.from_dense(given)
    assert matrix.values.dtype == np.float64
    np.testing.assert_array_equal(matrix.to_scipy().toarray(), given.astype(np.float64))


def test_padding_beyond_memory_is_a_sentence(monkeypatch):
    monkeypatch.setattr(host_memory, "free_bytes", lambda: 1000)
    with pytest.raises(UnsupportedError, match=r"pads 40 entries to .* and needs .* 1,000 are free; use csr"):
        arranged(Matrix.from_scipy(scipy.sparse.eye_array(40)), "ell")


@pytest.mark.parametrize("name", ["fp16", "fp16-zero", "e11m4", "e4m3", "bf16"])
def test_values_fit_up_to_where_they_are_rounded_to_infinity(name):
    storage = format_named(name)
    spacing = 2.0 ** (storage.bias - storage.mantissa_bits)
    fits = storage.max_finite + (0.75 if storage.rounding == "zero" else 0.0) * spacing
    require_fitting(np.array([1.0, -fits]), storage)
    if storage.exponent_bits < 11:
        with pytest.raises(InputError, match="too large for"):
            require_fitting(np.array([1.0, -storage.max_finite - spacing]), storage)
        require_fitting(np.array([1e300]), format_named(f"{name}-scaled"))
