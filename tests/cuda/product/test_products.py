"""Products and vector operations of engine cuda, on this machine's processor and, where there is one, on a GPU."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
import scipy.sparse

import cpms
from cpms import InputError, StoredMatrix, UnsupportedError, check
from cpms.backends.cuda.kernels import streaming
from cpms.backends.cuda.kernels.product import (
    ProductSpec,
    decode_blocks,
    encode_blocks,
    vector_combine,
    vector_dots,
    vector_update,
)
from cpms.backends.cuda.product import block_codec, operator
from cpms.backends.cuda.product.cusparse import CusparseProduct, in_32_bits
from cpms.backends.cuda.product.operator import CudaProduct
from cpms.contracts.linear_operator import Epilogue
from cpms.contracts.product_request import ProductRequest
from cpms.formats.block_float import BFP16, BFP21, BLOCK_FLOATS, BlockFloatFormat
from cpms.formats.codes import CODES8
from cpms.formats.formats import FP64, SegmentFormat, format_named
from cpms.sparse.matrix import Matrix
from cpms.storage.block_float import encode_blocks as encode_on_host
from cpms.storage.device import to_device

ODD = SegmentFormat("odd", (8, 16, 8, 32), 3)


def uneven(rows=70, columns=41):
    """Return a matrix with empty, short and full rows, any sign and 12 binades."""
    rng = np.random.default_rng(7)
    dense = np.where(rng.random((rows, columns)) < 0.08, rng.standard_normal((rows, columns)), 0.0)
    dense[3], dense[40:44] = rng.standard_normal(columns), 0.0
    return dense * 2.0 ** rng.integers(-6, 6, dense.shape)


def on_device(source, storage, layout, **options):
    return StoredMatrix(CudaProduct.of(source, ProductRequest(storage, layout, **options)), source, engine="cuda")


def needed(A):
    """Return what the laws launch, to compile it at once."""
    found = []
    storage = None if A.storage == CODES8 else A.storage
    for made in (A.operator, A.operator.transposed):
        for read in range(1, 1 + (1 if storage is None else storage.segments)):
            specs = [made._spec(read, FP64, 1, "fp64"), made._spec(read, FP64, 1, "fp64", vectors=2)]
            specs += [] if storage is None else [made._spec(storage.segments, storage, read, "fp64")]
            for spec in specs:
                if A.layout == "csr":
                    found.append(spec.row_blocks() if spec.vectors == 1 else spec.rows(made._threads))
                else:
                    width = made.width if spec.vectors == 1 else 0
                    found.append(spec.slices(width, ell=A.layout == "ell"))
    levels = [(FP64, 1)] if storage is None else [(storage, k) for k in range(1, storage.segments + 1)]
    found += [make(form, k, "fp64") for form, k in levels for make in (vector_dots, vector_combine)]
    found += [vector_dots(FP64, 1, "fp64"), vector_update("fp64", "fp64")]
    if isinstance(storage, BlockFloatFormat):
        return [*found, encode_blocks(storage), decode_blocks(storage)]
    return [*found, *([] if storage is None else streaming.conversions(storage))]


@pytest.mark.parametrize(
    ("storage", "layout", "options"),
    [
        ("cpms2", "csr", {}),
        ("fp64", "ell", {"indices": "64"}),
        pytest.param("cpms4-planes", "sell", {"compute": "fp32", "indices": "32"}, marks=pytest.mark.slow),
        ("cpms2", "sell", {"indices": "compressed"}),
        ("fp16-scaled", "sell", {}),
        ("e4m3", "csr", {"compute": "fp32", "scaling": "rows"}),
        pytest.param("odd", "sell", {}, marks=pytest.mark.slow),
        ("codes8", "csr", {}),
        ("bfp21", "csr", {}),
        ("bfp16", "sell", {"compute": "fp32"}),
        (None, "csr", {}),
    ],
)
def test_products_keep_the_laws(device, storage, layout, options):
    source = Matrix.from_dense(np.round(2 * uneven()) / 3 if storage == "codes8" else uneven())
    if storage is None:
        source = Matrix.from_triplets(*np.nonzero(uneven()), shape=source.shape)
    own = {"odd": ODD, "codes8": CODES8, "bfp16": BFP16, "bfp21": BFP21, None: None}
    chosen = own[storage] if storage in own else format_named(storage)
    A = on_device(source, chosen, layout, **options)
    device.compile(needed(A))
    for law in check.PRODUCT_LAWS:
        law(A)


@pytest.mark.parametrize("storage", BLOCK_FLOATS, ids=lambda storage: storage.name)
def test_block_floats_are_those_of_main_memory_to_the_last_bit(device, storage):
    device.compile([encode_blocks(storage), decode_blocks(storage)])
    rng = np.random.default_rng(5)
    for length in (1, 32, 33, 1000):
        values = rng.standard_normal(length) * 2.0 ** rng.integers(-30, 30, length)
        values[::7] = [0.0, -0.0, 5e-324, 2.0**-950, 1e308][length % 5]
        on_host = encode_on_host(values, storage)
        stored = block_codec.encode(to_device(values), storage)
        assert device.to_host(stored.memory).tobytes() == on_host.memory.tobytes()
        assert stored.top == on_host.top
        np.testing.assert_array_equal(device.to_host(block_codec.decode(stored)), on_host.decode())
    with pytest.raises(InputError, match="no infinity"):
        block_codec.encode(to_device(np.array([np.inf])), storage)


def test_long_rows_are_summed_in_parts(device, monkeypatch):
    monkeypatch.setattr(operator, "BLOCK_ENTRIES", 16)
    monkeypatch.setattr(operator, "part_entries", lambda _: 24)
    A = on_device(Matrix.from_dense(uneven()), FP64, "csr")
    blocks = A.operator.row_blocks
    assert blocks.ended.shape == (1,)
    assert blocks.count > 12
    device.compile(needed(A))
    for law in (check.products_are_within_their_bound, check.products_agree):
        law(A)
        assert device.to_host(blocks.ended).tolist() == [0]


@pytest.mark.parametrize("longest", [100, 600])
def test_rows_far_longer_than_the_others_of_a_block_are_summed_by_warps(device, longest):
    rows = np.r_[np.arange(300), np.repeat([7, 40, 299], longest)]
    columns = np.r_[np.zeros(300, int), np.tile(np.arange(longest) + 1, 3)]
    rng = np.random.default_rng(2)
    source = Matrix.from_triplets(rows, columns, rng.standard_normal(len(rows)))
    A = on_device(source, FP64, "csr")
    assert A.operator.row_blocks.first_even == 1 + (longest == 600)
    x, w, y = rng.standard_normal(source.shape[1]), rng.standard_normal(300), to_device(np.empty(300))
    dotted = A.operator.apply(to_device(x), y, epilogue=Epilogue(dot=to_device(w)))
    expected = source.to_scipy() @ x
    np.testing.assert_allclose(device.to_host(y), expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(dotted, w @ expected, rtol=1e-12)


def test_slices_whose_columns_are_far_apart_keep_them_in_full(device):
    apart = np.zeros((320, 70000))
    for row, step in ((0, 3), (32, 2200), (64, 5), (96, 1), (128, 7), (160, 2), (192, 4), (224, 6), (256, 8), (288, 3)):
        apart[np.arange(row, row + 32), np.arange(32) * step] = row - 70.5
        apart[np.arange(row, row + 32), 100 + np.arange(32) * step] = 2.5
    source = Matrix.from_dense(apart)
    A = on_device(source, FP64, "sell", indices="compressed")
    found = A.operator.compressed
    assert found.offset_bits == 8
    assert device.to_host(found.far).tolist() == [0, 1, *8 * [0]]
    x = np.random.default_rng(4).standard_normal(70000)
    x[2200] = np.inf  # Of a row that is far apart, and of no other.
    np.testing.assert_allclose(A @ x, source.to_scipy() @ x, rtol=1e-13, atol=1e-13)
    assert A.operator.nbytes < on_device(source, FP64, "sell", indices="32").nbytes
    alone = on_device(Matrix.from_dense(apart[32:64]), FP64, "sell", indices="compressed")
    assert alone.operator.compressed.offset_bits == 16 or alone.operator.compressed.far is not None
    assert on_device(Matrix.from_dense(apart[32:64]), FP64, "sell").operator.compressed is None


def test_lossless_values_give_the_same_bits_as_float64(device):
    stencil = scipy.sparse.diags_array([-1.0, -0.75, 4.0, -1.5], offsets=[-9, -1, 0, 9], shape=(640, 640))
    thirds = scipy.sparse.csr_array(stencil) * (1 / 3)
    x = np.random.default_rng(4).standard_normal(640)
    for matrix, names in ((stencil, ("fp64", "e4m3", "fp16")), (thirds, ("fp64", "codes8"))):
        source = Matrix.from_scipy(matrix)
        for layout in ("csr", "sell"):
            chosen = [CODES8 if name == "codes8" else format_named(name) for name in names]
            made = [on_device(source, storage, layout) for storage in chosen]
            specs = [A.operator._spec(None, FP64, 1, "fp64") for A in made]
            width = made[0].operator.width if layout == "sell" else 0
            device.compile([s.row_blocks() if layout == "csr" else s.slices(width, ell=False) for s in specs])
            exact, *found = (A @ x for A in made)
            for product in found:
                np.testing.assert_array_equal(product, exact)


@pytest.mark.representatives(rows=("70",))
@pytest.mark.parametrize("rows", [70, 64])
def test_groups_of_columns_are_kept_by_conversions_in_place(device, rows):
    dense = np.random.default_rng(6).standard_normal((rows, 13)) * (np.arange(13) < 3 + np.arange(rows)[:, None] // 32)
    A = on_device(Matrix.from_dense(dense), FP64, "sell", indices="compressed")
    assert A.operator.arrangement.group == 4
    device.compile(needed(A))
    x = np.random.default_rng(4).standard_normal(13)
    before = A @ x
    A.convert_inplace("cpms2")
    device.compile([*needed(A), *streaming.conversions(A.storage)])
    np.testing.assert_array_equal(A @ x, before)
    np.testing.assert_allclose(A.matvec(x, read=1), dense @ x, atol=1e-4)
    np.testing.assert_allclose(before, dense @ x, rtol=1e-13, atol=1e-13)


def test_stencils_are_compressed_by_themselves(device):
    stencil = scipy.sparse.diags_array([-1.0, 4.0, -1.0], offsets=[-9, 0, 9], shape=(640, 640))
    A = on_device(Matrix.from_scipy(stencil), FP64, "sell")
    assert A.operator.compressed is not None
    assert A.operator.compressed.nbytes < A.operator.arrangement.columns.nbytes / 2
    x = np.random.default_rng(4).standard_normal(640)
    np.testing.assert_allclose(A @ x, stencil @ x, rtol=1e-13, atol=1e-14)


def test_equal_slices_are_unrolled(device):
    source = Matrix.from_dense(np.random.default_rng(2).standard_normal((70, 11)))
    A = on_device(source, FP64, "sell")
    assert A.operator.width == 11
    device.compile(needed(A))
    check.products_are_within_their_bound(A)
    assert on_device(Matrix.from_dense(uneven()), FP64, "sell").operator.width == 0


def test_a_product_of_float32_is_float32(device):
    A = on_device(Matrix.from_dense(uneven()), cpms.FP32, "sell", compute="fp32")
    x = np.random.default_rng(3).standard_normal(41).astype(np.float32)
    found = A @ x
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, uneven() @ x, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["cuda", "cusparse"])
@pytest.mark.parametrize("storage", ["fp64", "fp32"])
def test_engines_of_a_gpu_keep_the_laws(gpu_backend, engine, storage):
    for layout in ("csr", "coo" if engine == "cusparse" else "sell"):
        A = cpms.matrix(uneven(), storage=storage, layout=layout, engine=engine, compute=storage)
        for law in check.PRODUCT_LAWS:
            law(A)


def in_64_bits(dense):
    given = scipy.sparse.csr_array(dense)
    arrays = given.data, given.indices.astype(np.int64), given.indptr.astype(np.int64)
    return scipy.sparse.csr_array(arrays, shape=given.shape)


def test_cusparse_gets_indices_of_32_bits_whatever_a_matrix_has():
    matrix = Matrix.from_scipy(in_64_bits(uneven()))
    assert matrix.indices.dtype == np.int64
    narrow = in_32_bits(matrix)
    assert (narrow.indices.dtype, narrow.indptr.dtype) == (np.int32, np.int32)
    np.testing.assert_array_equal(narrow.toarray(), uneven())
    with pytest.raises(UnsupportedError, match="indices of 32 bits, which 2,147,483,648 exceeds"):
        in_32_bits(Matrix(1, 2**31, np.zeros(2, np.int64), np.zeros(0, np.int64), np.zeros(0)))


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_cusparse_multiplies_matrices_with_indices_of_64_bits(gpu_backend, layout):
    x = np.random.default_rng(0).standard_normal(uneven().shape[1])
    A = cpms.matrix(in_64_bits(uneven()), layout=layout, engine="cusparse")
    np.testing.assert_allclose(A @ x, uneven() @ x, rtol=1e-12, atol=1e-12)


@pytest.mark.gpu
def test_solvers_of_cupy_take_a_matrix(gpu_backend):
    arrays, linalg = import_module("cupy"), import_module("cupyx.scipy.sparse.linalg")
    poisson = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(50, 50))
    A, b = cpms.matrix(poisson, storage="cpms4", engine="cuda"), arrays.ones(50)
    for given in (A, linalg.aslinearoperator(A)):
        x, status = linalg.cg(given, b)
        assert status == 0
        np.testing.assert_allclose(poisson @ x.get(), b.get(), atol=1e-4)


def test_layouts_that_are_not_there_are_a_sentence():
    assert "no layout 'ell'" in CusparseProduct.refusal(ProductRequest(FP64, "ell", "auto", "fp64"))
    assert "not fp16 in fp32; use cuda" in CusparseProduct.refusal(ProductRequest(cpms.FP16, "csr", "auto", "fp32"))
    assert "not a pattern in fp64" in CusparseProduct.refusal(ProductRequest(None, "csr", "auto", "fp64"))
    assert "32 bits" in CusparseProduct.refusal(ProductRequest(FP64, "csr", "64", "fp64"))
    assert "no layout 'coo'" in CudaProduct.refusal(ProductRequest(FP64, "coo", "auto", "fp64"))
    assert "for layout 'sell', not 'csr'" in CudaProduct.refusal(ProductRequest(FP64, "csr", "compressed", "fp64"))
    assert "infinite" in CudaProduct.refusal(ProductRequest(format_named("bf16-scaled"), "csr", "auto", "fp32"))


def test_specs_of_products_have_symbols_of_their_own():
    specs = [ProductSpec(), ProductSpec(read=1, x=cpms.FP32), ProductSpec(compute="fp32"), ProductSpec(index_bits=64)]
    assert len({spec.rows(4).symbol for spec in specs} | {spec.slices(0, ell=True).symbol for spec in specs}) == 8


def test_the_device_keeps_its_vectors(device):
    A = on_device(Matrix.from_dense(uneven()), FP64, "csr")
    x = to_device(np.ones(41))
    found = A.matvec(x)
    assert type(found) is type(x)
    out = np.empty(70, np.float32)
    assert A.matvec(np.ones(41), out=out) is out
    np.testing.assert_allclose(out, uneven() @ np.ones(41), rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(device.to_host(found), uneven() @ np.ones(41), atol=1e-12)
