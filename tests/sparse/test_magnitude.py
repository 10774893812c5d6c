"""Split by magnitude: no entry errs more than the tolerance allows, and products keep the laws on every engine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cpms
from cpms import FP16, FP32, FP64, InputError, MagnitudeSplit, UnsupportedError, check
from cpms.backends.products.split import SplitProduct
from cpms.sparse import magnitude
from cpms.sparse.arrangement import arranged
from cpms.sparse.magnitude import split_by_magnitude
from cpms.sparse.matrix import Matrix
from cpms.sparse.stored_values import stored_values

TOLERANCES = [2.0**-53, 1e-12, 1e-8, 1e-4, 0.1]


@pytest.fixture
def every_part(monkeypatch):
    """Keep parts of few entries, which small matrices have."""
    monkeypatch.setattr(magnitude, "_ROW_BYTES", 0)


def wide(rows=40, columns=30, decades=12):
    """Return a matrix of any sign whose entries have many sizes, with empty rows and a full one."""
    random = np.random.default_rng(3)
    dense = random.standard_normal((rows, columns)) * 10.0 ** random.uniform(-decades, 0, (rows, columns))
    dense[random.random(dense.shape) < 0.7] = 0.0
    dense[4:7], dense[9] = 0.0, random.standard_normal(columns)
    return dense


def stored(found):
    """Return the matrix as its parts hold it."""
    total = np.zeros(found.parts[0][1].shape)
    for storage, part in found.parts:
        values = stored_values(arranged(part, "csr"), storage).decode()
        np.add.at(total, (part.row_numbers(), part.indices), values)
    return total


def require_within(dense, split):
    found = split_by_magnitude(Matrix.from_dense(dense), split)
    errors, sizes = np.abs(stored(found) - dense), np.abs(dense)
    assert errors.max(initial=0.0) <= found.error
    of_rows = split.tolerance * sizes.sum(axis=1) * (1.0 + 1e-12)
    if split.by == "matrix":
        of_rows[:] = of_rows.max(initial=0.0)
    else:
        entries = np.maximum((dense != 0.0).sum(axis=1), 1)
        assert (errors <= (of_rows / entries)[:, None]).all()
    assert (errors.sum(axis=1) <= of_rows).all()


@pytest.mark.parametrize("by", ["rows", "matrix"])
@given(data=st.data(), tolerance=st.sampled_from(TOLERANCES) | st.floats(2.0**-53, 0.99))
def test_the_stored_matrix_is_within_the_tolerance(by, data, tolerance):
    value = st.just(0.0) | st.floats(-1e250, 1e250, allow_subnormal=False) | st.floats(-2.0, 2.0, width=32)
    shape = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 6)))
    dense = np.array(data.draw(st.lists(value, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])))
    dense = dense.reshape(shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(magnitude, "_ROW_BYTES", data.draw(st.sampled_from([0, 1])))
        require_within(dense, MagnitudeSplit(tolerance, by=by))


@pytest.mark.parametrize("by", ["rows", "matrix"])
def test_sums_of_rows_do_not_overflow(by):
    A = cpms.matrix([[1e308, 1e308, -1e308], [1e305, 0.0, 0.0]], storage=MagnitudeSplit(1e-6, by=by), engine="cpu")
    np.testing.assert_allclose(A @ np.eye(3)[:, :1], [[1e308], [1e305]], rtol=1e-3)


@pytest.mark.parametrize("by", ["rows", "matrix"])
def test_the_stored_matrix_is_within_any_tolerance(every_part, by):
    for tolerance in 2.0 ** np.arange(-53.0, 0.0, 0.5):
        require_within(wide(), MagnitudeSplit(tolerance, by=by))


@pytest.mark.parametrize("tolerance", [1e-6, *(pytest.param(eps, marks=pytest.mark.slow) for eps in (1e-12, 0.1))])
@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize(
    ("layout", "by", "compute"), [("csr", "rows", "fp64"), ("sell", "matrix", "fp64"), ("csr", "matrix", "fp32")]
)
@pytest.mark.representatives(layout=("csr",), by=("rows",))
@pytest.mark.representatives(engine=("reference",))
def test_products_keep_the_laws(every_part, engine, tolerance, layout, by, compute):
    A = cpms.matrix(wide(), storage=MagnitudeSplit(tolerance, by=by), layout=layout, engine=engine, compute=compute)
    for law in check.PRODUCT_LAWS:
        law(A)


@pytest.mark.parametrize("layout", ["csr", pytest.param("sell", marks=pytest.mark.slow)])
def test_products_on_a_device_keep_the_laws(device, every_part, layout):
    A = cpms.matrix(wide(), storage=MagnitudeSplit(1e-6, by="matrix"), layout=layout, engine="reference")
    from cpms.backends.cuda.product.operator import CudaProduct

    made = SplitProduct.of(A.source, A.operator.request, CudaProduct.of)
    assert [part.request.storage.name for part in made.parts] == ["e4m3-scaled", "fp16-scaled", "fp32"]
    on_device = cpms.StoredMatrix(made, A.source, engine="cuda")
    for law in check.PRODUCT_LAWS:
        law(on_device)


def test_a_wider_tolerance_stores_fewer_bits(every_part):
    sizes = [cpms.matrix(wide(), storage=f"split-{eps}", engine="cpu").operator.mean_bits for eps in TOLERANCES]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 60
    assert sizes[-1] < 8
    of_rows, of_all = (
        cpms.matrix(wide(), storage=MagnitudeSplit(1e-8, by=by), engine="cpu").operator.mean_bits
        for by in ("rows", "matrix")
    )
    assert of_all < of_rows


def test_a_part_of_few_entries_joins_the_next():
    A = cpms.matrix(wide(), storage="split-1e-6", engine="cpu")
    assert len(A.operator.parts) == 1
    assert A.nbytes < cpms.matrix(wide(), engine="cpu").nbytes + 1


@pytest.mark.parametrize("dense", [np.zeros((3, 4)), np.array([[1.0, 0.0], [0.0, 0.0]]), np.eye(3)])
def test_matrices_of_few_entries_have_products(dense):
    for engine in ("cpu", "reference"):
        A = cpms.matrix(dense, storage="split-0.001", engine=engine)
        np.testing.assert_allclose(A @ np.ones(dense.shape[1]), dense.sum(axis=1), rtol=1e-3)
        assert A.with_storage(layout="sell").storage == A.storage
        assert A.with_storage("fp32").storage == FP32


def test_the_result_may_be_float32_and_is_rounded_once(every_part):
    A = cpms.matrix(wide(), storage="split-1e-12", engine="cpu")
    x, out = np.ones(30), np.empty(40, np.float32)
    np.testing.assert_array_equal(A.matvec(x, out=out), (A @ x).astype(np.float32))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: MagnitudeSplit(1e-20), InputError, "from 2"),
        (lambda: MagnitudeSplit(1.0), InputError, "below 1"),
        (lambda: MagnitudeSplit("much"), InputError, "tolerance"),
        (lambda: MagnitudeSplit(1e-3, by="columns"), InputError, "columns"),
        (lambda: MagnitudeSplit(1e-3, ()), InputError, "tuple of formats"),
        (lambda: MagnitudeSplit(1e-3, ("cpms2",)), InputError, "not cpms2"),
        (lambda: cpms.matrix([[1.0]], storage="split-much"), InputError, "no split"),
        (lambda: cpms.matrix([[1 / 3]], storage=MagnitudeSplit(1e-9, (FP16,))), InputError, "fp64 as well"),
        (lambda: cpms.matrix([[1.0]], storage="split-1e-3", scaling="rows"), UnsupportedError, "leave scaling out"),
        (lambda: cpms.matrix([[1.0]], storage="split-1e-3").matvec([1.0], read=2), InputError, "has 1 segment"),
        (lambda: cpms.matrix([[1.0]], storage="split-1e-3").convert_inplace("cpms2"), UnsupportedError, "no values"),
    ],
)
def test_bad_splits_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_formats_are_used_from_the_narrowest():
    assert MagnitudeSplit(1e-3, (FP64, FP16, "fp32")).formats == (FP16, FP32, FP64)
