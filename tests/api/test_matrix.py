"""`cpms.matrix` as users meet it: what goes in, what comes out, and the sentence where it cannot."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.io
import scipy.sparse
import scipy.sparse.linalg

import cpms
from cpms import InputError, UnsupportedError

DENSE = np.array([[0.5, 0.0, -0.1], [0.0, 0.0, 0.0], [3.0, 1 / 3, 0.0], [0.0, 0.0, 7.0]])
X = np.array([1.0, -2.0, 0.25])


@pytest.fixture(scope="module")
def stored():
    return cpms.matrix(DENSE, storage="cpms4", engine="cpu")


class Foreign:
    """An array of another library, with DLPack and nothing else."""

    def __init__(self, values):
        self.held = values

    def __dlpack__(self, **options):
        return self.held.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.held.__dlpack_device__()

    def __array_namespace__(self):
        return Foreign

    @staticmethod
    def from_dlpack(values):
        return Foreign(values)


def test_products_are_scipys(stored):
    A = stored
    np.testing.assert_allclose(A @ X, DENSE @ X, rtol=1e-15)
    np.testing.assert_allclose(A.rmatvec(np.ones(4)), DENSE.T @ np.ones(4), rtol=1e-15)
    np.testing.assert_allclose(A.T @ np.ones(4), DENSE.T @ np.ones(4), rtol=1e-15)
    np.testing.assert_allclose(A @ np.eye(3), DENSE, rtol=1e-15)
    np.testing.assert_allclose((2 * A + A) @ X, 3 * DENSE @ X, rtol=1e-15)
    assert (A @ X[:, None]).shape == (4, 1)
    assert A.matvec(X, read=1).tolist() == [0.5 - 0.25 * 0.09765625, 0.0, 3.0 - 2.0 * 0.328125, 1.75]


def test_its_text_states_shape_format_layout_engine_and_bytes():
    text = repr(cpms.matrix([[0.5, 0.0], [3.0, 0.25]], storage="cpms2", engine="cpu"))
    assert text == "StoredMatrix(2 x 2, 3 entries: cpms2 in csr on cpu, 48 bytes)"


def test_scipys_solvers_take_it():
    stencil = scipy.sparse.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(200, 200))
    x, status = scipy.sparse.linalg.cg(cpms.matrix(stencil, storage="cpms4", layout="sell"), np.ones(200), rtol=1e-12)
    assert status == 0
    np.testing.assert_allclose(stencil @ x, np.ones(200), atol=1e-10)


def test_what_comes_goes_back_in_kind(stored):
    A = stored
    assert (A @ X.tolist()).dtype == np.float64
    assert (A @ X.astype(np.float32)).dtype == np.float32
    found = A.matvec(Foreign(X))
    assert isinstance(found, Foreign)
    assert isinstance(A @ Foreign(X), Foreign)
    np.testing.assert_array_equal(found.held, A @ X)
    stored = cpms.encode(X, "cpms4")
    np.testing.assert_array_equal(A.matvec(stored, read_x=1), A @ stored.decode(1))
    out = np.empty(4, np.float32)
    assert A.matvec(X, out=out) is out
    np.testing.assert_array_equal(out, (A @ X).astype(np.float32))


def test_matrices_of_other_libraries_are_taken():
    np.testing.assert_array_equal(cpms.matrix(Foreign(DENSE)) @ X, cpms.matrix(DENSE) @ X)
    triplets = [Foreign(np.array(numbers)) for numbers in ([0, 1], [1, 0], [2.0, -3.0])]
    np.testing.assert_array_equal(cpms.matrix(tuple(triplets)) @ np.eye(2), [[0.0, 2.0], [-3.0, 0.0]])


def test_compute_is_apart_from_storage(stored):
    A = stored
    single = A.with_storage(compute="fp32")
    assert (single.storage, single.compute) == (A.storage, "fp32")
    wide = np.array([1.0, 2.0**-40, 0.0])
    assert cpms.matrix([[1.0, 1.0, 0.0]]).matvec(wide)[0] == 1 + 2.0**-40
    assert cpms.matrix([[1.0, 1.0, 0.0]], compute="fp32").matvec(wide)[0] == 1.0
    assert single.error_bound(1).relative > A.error_bound(1).relative > 2.0**-4


@pytest.mark.parametrize("compute", ["fp64", "fp32"])
@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_rows_of_any_size_keep_their_digits(engine, compute):
    sizes = np.array([2.0**-300, 1.0, 2.0**900])
    given = (np.arange(1, 10).reshape(3, 3) / 4) * sizes[:, None]
    A = cpms.matrix(given, storage="fp16", scaling="rows", engine=engine, compute=compute)
    np.testing.assert_array_equal(A @ np.ones(3), given @ np.ones(3))
    assert A.nbytes == cpms.matrix(np.ones((3, 3)), storage="fp16", engine="cpu").nbytes + 6


def test_bytes_are_counted_as_they_are_read(stored):
    A = stored
    assert A.nbytes == A.bytes_read() == 4 * 5 + 4 * 5 + 8 * 5
    assert [A.bytes_read(k) - 40 for k in (1, 2, 3, 4)] == [10, 20, 30, 40]
    assert A.with_storage("fp16").nbytes == 40 + 10
    assert A.with_storage(layout="coo").nbytes == 8 * 5 + 8 * 5


@pytest.mark.parametrize("layout", ["csr", "coo", "ell", "sell"])
def test_engines_agree_on_bytes_and_groups_count_their_own(layout):
    given = scipy.sparse.random_array((70, 50), density=0.1, format="csr", rng=np.random.default_rng(1))
    for storage in ("fp16", "cpms4", "posit16", "mxfp8-e4m3", "mxfp4", "gse", "bfp21", "split-1e-6"):
        A, B = (cpms.matrix(given, storage=storage, layout=layout, engine=engine) for engine in ("reference", "cpu"))
        assert (A.nbytes, A.bytes_read(), A.bytes_read(1)) == (B.nbytes, B.bytes_read(), B.bytes_read(1)), storage
        assert A.nbytes == A.bytes_read() >= A.bytes_read(1), storage
        if layout == "csr" and not storage.startswith(("bfp", "split")):
            assert A.bytes_read() == 4 * 71 + 4 * given.nnz + cpms.encode(given.data, storage).nbytes, storage


def test_the_matrix_as_given_is_kept(stored):
    A = stored
    coarse = A.with_storage("e4m3")
    assert coarse.diagonal().tolist() == [0.5, 0.0, 0.0]
    assert coarse.norm() == pytest.approx(np.linalg.norm(DENSE))
    assert (coarse.norm("l1"), coarse.norm("linf")) == (np.linalg.norm(DENSE, 1), np.linalg.norm(DENSE, np.inf))
    np.testing.assert_array_equal(coarse.with_storage("fp64") @ X, cpms.matrix(DENSE) @ X)


@pytest.mark.parametrize("size", [1.0, 2.0**1000, 2.0**-1070])
def test_norms_neither_overflow_nor_vanish(size):
    assert cpms.matrix([[3.0 * size, 0.0], [0.0, -4.0 * size]]).norm() == 5.0 * size


def test_conversion_in_place_keeps_memory_and_answers():
    A = cpms.matrix(DENSE, engine="cpu")
    memory, before = A.operator.values.memory, A @ X
    A.convert_inplace("cpms2")
    assert np.shares_memory(memory, A.operator.values.memory)
    assert A.storage == cpms.CPMS2
    np.testing.assert_array_equal(A @ X, before)
    with pytest.raises(InputError, match="packed float; only segments convert in place"):
        A.convert_inplace("fp16")
    with pytest.raises(UnsupportedError, match="keeps no values in segments"):
        cpms.matrix(DENSE, engine="reference").convert_inplace("cpms2")


@pytest.mark.parametrize(
    ("field", "symmetry", "dense"),
    [
        ("real", "general", [[0.5, 0.0], [0.0, -2.0], [1.0, 0.0]]),
        ("real", "symmetric", [[0.5, 3.0], [3.0, 0.0]]),
        ("real", "skew-symmetric", [[0.0, -3.0], [3.0, 0.0]]),
        ("integer", "general", [[1.0, -7.0]]),
        ("pattern", "symmetric", [[1.0, 1.0], [1.0, 0.0]]),
    ],
)
def test_matrix_market_files_are_read(tmp_path, field, symmetry, dense):
    path = tmp_path / "a.mtx"
    given = scipy.sparse.coo_array(np.array(dense, int if field == "integer" else float))
    scipy.io.mmwrite(path, given, field=field, symmetry=symmetry)
    A = cpms.matrix(str(path))
    assert (A.storage is None) == (field == "pattern")
    np.testing.assert_array_equal(A @ np.eye(A.shape[1]), dense)
    zipped = tmp_path / "b.mtx.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    np.testing.assert_array_equal(cpms.matrix(zipped) @ np.eye(A.shape[1]), dense)


def test_a_skew_symmetric_pattern_keeps_its_signs(tmp_path):
    path = tmp_path / "skew.mtx"
    path.write_text("%%MatrixMarket matrix coordinate pattern skew-symmetric\n3 3 2\n2 1\n3 1\n")
    A = cpms.matrix(path, engine="reference")
    np.testing.assert_array_equal(A @ np.eye(3), [[0.0, -1.0, -1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])


@pytest.mark.parametrize("symmetry", ["symmetric", "skew-symmetric"])
def test_a_symmetric_file_with_both_triangles_is_refused(symmetry, tmp_path):
    path = tmp_path / "both.mtx"
    path.write_text(f"%%MatrixMarket matrix coordinate real {symmetry}\n2 2 2\n2 1 -1\n1 2 1\n")
    with pytest.raises(InputError, match=r"both.mtx: the file says that the matrix is .*symmetric"):
        cpms.matrix(path)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_npz_files_of_scipy_are_read(tmp_path, layout):
    dense = np.array([[0.5, 0.0, 3.0], [0.0, -2.0, 0.0]])
    scipy.sparse.save_npz(tmp_path / "a.npz", scipy.sparse.coo_array(dense).asformat(layout))
    np.testing.assert_array_equal(cpms.matrix(tmp_path / "a.npz") @ np.eye(3), dense)


def npz_file(tmp_path, **arrays):
    whole = {"format": b"csr", "shape": [2, 2], "indptr": [0, 1, 2], "indices": [0, 1], "data": [1.0, 2.0]}
    np.savez(tmp_path / "w.npz", **{name: array for name, array in (whole | arrays).items() if array is not None})
    return tmp_path / "w.npz"


def test_graphs_and_triplets_are_matrices():
    graph = cpms.Graph.from_edges([0, 0, 1], [1, 2, 2])
    assert (cpms.matrix(graph) @ np.array([1.0, 10.0, 0.0])).tolist() == [0.0, 0.5, 10.5]
    assert cpms.matrix(([0], [1], [-4.0]), shape=(2, 3)).shape == (2, 3)
    assert cpms.matrix(cpms.matrix([[2.0]]), storage="fp32").storage == cpms.FP32


def read_only(length):
    made = np.empty(length)
    made.flags.writeable = False
    return made


def huge_file(tmp_path):
    path = tmp_path / "h.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n900000000000 900000000000 1\n1 1 2.0\n")
    return path


def cut_file(tmp_path, *, spoiled=False):
    scipy.io.mmwrite(tmp_path / "a.mtx", scipy.sparse.eye_array(500))
    packed = bytearray(gzip.compress((tmp_path / "a.mtx").read_bytes()))
    if spoiled:
        packed[40:60] = 20 * b"\xff"
    path = tmp_path / "cut.mtx.gz"
    path.write_bytes(packed if spoiled else packed[: len(packed) // 2])
    return path


class Series:
    """A column of another library, with an array's shape and type."""

    shape, dtype, flags = (4,), np.dtype(np.float64), None


class Absent:
    """An array that has no memory yet."""

    def __dlpack_device__(self):
        raise ValueError("no device")

    def __dlpack__(self, **options):
        raise ValueError("no memory")


def outside(columns, values):
    made = scipy.sparse.lil_array((2, 2))
    made.rows[0], made.data[0] = columns, values
    return made


def two_offsets():
    made = scipy.sparse.dia_array((np.ones((1, 3)), [0]), shape=(3, 3))
    made.offsets = np.array([0, 1])
    return made


def into_its_own_memory():
    x = cpms.encode(np.ones(3), "fp64")
    cpms.matrix(np.eye(3), engine="cpu").matvec(x, out=x.memory.view(np.float64))


def complex_file(tmp_path):
    path = tmp_path / "c.mtx"
    scipy.io.mmwrite(path, scipy.sparse.coo_array([[1j]]))
    return path


@pytest.mark.parametrize(
    ("work", "sentence"),
    [
        (lambda A, _: A.matvec(np.ones(4)), r"x has shape \(4,\); the product needs \(3,\)"),
        (lambda A, _: A.rmatvec(np.ones(3)), r"needs \(4,\)"),
        (lambda A, _: A.matmat(np.ones((2, 2))), r"X has shape \(2, 2\); the product needs \(3, k\)"),
        (lambda A, _: A.matvec(X * 1j), "x holds complex numbers"),
        (lambda A, _: A.matvec(["a", "b", "c"]), "x holds values of type"),
        (lambda A, _: A.matvec(np.ones(3, np.longdouble)), "give float64 or float32"),
        (lambda A, _: A.matvec(np.ma.masked_array(X)), "masked"),
        (lambda A, _: A.matvec([[1.0], [2.0, 3.0]]), "cannot be an array"),
        (lambda A, _: A.matvec(X, read=5), "5 of them cannot be read"),
        (lambda A, _: A.matvec(X, read_x=1), "x is a plain array"),
        (lambda A, _: A.matvec(X, out=np.empty(3)), r"out must be an array of NumPy .* shape \(4,\)"),
        (lambda A, _: A.matvec(X, out=np.empty(4, int)), "float64 or float32"),
        (lambda A, _: A.matvec(X, out=np.empty(8)[::2]), "out must be contiguous"),
        (lambda *_: cpms.matrix(np.eye(3), engine="cpu").matvec(X, out=X), "shares memory with x"),
        (lambda *_: into_its_own_memory(), "shares memory with x"),
        (lambda A, _: A.matvec(X, out=Series()), "out must be an array of NumPy or CuPy"),
        (lambda A, _: A.matvec(Absent()), r"x cannot be read by DLPack \(no memory\)"),
        (lambda *_: cpms.matrix(Absent()), r"the matrix cannot be read by DLPack \(no memory\)"),
        (lambda *_: cpms.matrix(outside([7], [1.0])), "the matrix is not valid in LIL: indices must be < 2"),
        (lambda *_: cpms.matrix(outside([0, 1], [1.0])), "the matrix is not valid in LIL: rows and data differ"),
        (lambda *_: cpms.matrix(two_offsets()), "the matrix is not valid in DIA"),
        (lambda *_: cpms.matrix([[1e300]], compute="fp32"), "1e[+]300, too large for products in fp32"),
        (lambda A, _: cpms.matrix(A, shape=(9, 9)), "shape is for triplets"),
        (lambda *_: cpms.matrix(([0], [0]), storage="fp17"), "storage 'fp17' is not known"),
        (lambda _, path: cpms.matrix(cut_file(path)), "cut.mtx.gz: not a Matrix Market file"),
        (lambda _, path: cpms.matrix(cut_file(path, spoiled=True)), "cut.mtx.gz: not a Matrix Market file"),
        (lambda A, _: A @ scipy.sparse.eye_array(3), "toarray"),
        (lambda A, _: A.dot("abc"), "x holds values of type"),
        (lambda A, _: A.matvec(X, out=read_only(4)), "out is read-only"),
        (lambda _, path: cpms.matrix(huge_file(path)), "h.mtx: a matrix of 900,000,000,000 rows needs .* bytes"),
        (lambda *_: cpms.matrix(([0], [0], [1.0]), shape=(2**40, 1)), "rows and 1 columns needs .* bytes"),
        (lambda *_: cpms.matrix(([0], [0], [1.0]), shape=(1, -1)), "has a row and a column at least"),
        (lambda A, _: A.norm("l7"), "norm 'l7' is not known"),
        (lambda *_: cpms.matrix([[70000.0]], storage="fp16"), "too large for fp16"),
        (lambda *_: cpms.matrix([[1.0]], storage="fp17"), "storage 'fp17' is not known"),
        (lambda *_: cpms.matrix([[1.0]], compute="fp8"), "compute 'fp8' is not known"),
        (lambda *_: cpms.matrix([[1.0]], scaling="columns"), "scaling 'columns' is not known"),
        (lambda *_: cpms.matrix([[1.0]], scaling="rows"), "rows are scaled where values are packed floats .* not fp64"),
        (lambda *_: cpms.matrix([[1.0]], storage="bf16-scaled", compute="fp32"), "near the largest float32"),
        (lambda *_: cpms.matrix([[1.0]], indices="compressed", engine="cpu"), "compressed ones cost it more"),
        (lambda *_: cpms.matrix([[1.0]], engine="abacus"), "engine 'abacus' is not known"),
        (lambda *_: cpms.matrix([[1.0]], shape=(1, 1)), "shape is for triplets"),
        (lambda *_: cpms.matrix(([0],)), "cannot be made of tuple"),
        (lambda *_: cpms.matrix(7), "cannot be made of int"),
        (lambda A, _: A.matvec(np.ones(3), out=np.ma.zeros(4)), "out is a masked array"),
        (lambda *_: cpms.matrix("nowhere.mtx"), "nowhere.mtx: there is no such file"),
        (lambda _, path: cpms.matrix(complex_file(path)), "the matrix is complex"),
        (lambda _, path: cpms.matrix(path), "there is no such file"),
        (lambda *_: cpms.matrix(__file__), "not a Matrix Market file.*scipy.io.mmwrite"),
        (lambda _, path: cpms.matrix(npz_file(path, indptr=[0, 2, 1])), "row starts do not ascend"),
        (lambda _, path: cpms.matrix(npz_file(path, indices=[0, 7])), "outside shape"),
        (lambda _, path: cpms.matrix(npz_file(path, indices=[0, -1])), "count from 0"),
        (lambda _, path: cpms.matrix(npz_file(path, data=[1.0])), "1 values for 2 entries"),
        (lambda _, path: cpms.matrix(npz_file(path, format=b"dia")), "convert it to csr, csc or coo"),
        (lambda _, path: cpms.matrix(npz_file(path, shape=[2, 2, 2])), "give two dimensions"),
        (lambda _, path: cpms.matrix(npz_file(path, data=np.array([1.0, None]))), "w.npz: array data.npy is .*object"),
        (lambda _, path: cpms.matrix(npz_file(path, data=None)), "there is no array 'data'"),
        (lambda _, path: cpms.matrix(npz_file(path, cpms_graph=1)), "it holds a graph"),
        (lambda *_: cpms.matrix(([0], [0]), layout="sell"), "which a pattern has no values for"),
        (lambda *_: cpms.matrix(([0], [0])).matvec([1.0], read=2), "pattern without values"),
        (lambda *_: cpms.matrix([[1.0]], storage="fp16-stochastic", engine="reference"), "stochastically"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(stored, tmp_path, work, sentence):
    with pytest.raises((InputError, UnsupportedError), match=sentence):
        work(stored, tmp_path)
