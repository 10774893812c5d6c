"""cpms.solve and its kin on hostile input: scales near the ends of float64, formats that are too small, odd shapes."""

from __future__ import annotations

import re
import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse
from linear_judges import is_within

import cpms
from cpms import InputError
from cpms.sources.fuzzed_systems import Fuzzed
from cpms.sources.matrices.stencils import stencil

ONES = np.ones(64)


@cache
def laplacian():
    return stencil(5, 8)


def is_honest(A, b, found):
    return not found.converged or is_within(Fuzzed("", scipy.sparse.csr_array(A), np.asarray(b), found.tol), found.x)


@pytest.mark.parametrize("preconditioner", ["jacobi", "block_jacobi"])
@pytest.mark.parametrize("method", ["cg", "gmres"])
def test_the_scale_of_a_matrix_changes_nothing_about_its_preconditioner(method, preconditioner):
    counts = set()
    for scale in (2.0**-40, 1.0, 2.0**40):
        found = cpms.solve(scale * laplacian(), ONES, method=method, preconditioner=preconditioner, engine="cpu")
        assert found.converged, (scale, found)
        counts.add(found.iterations)
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("storage", ["fp16", "e4m3", "int8", "mxfp4"])
def test_a_format_that_is_too_small_for_a_preconditioner_widens_and_says_so(storage):
    A = scipy.sparse.csr_array(np.diag(np.geomspace(1.0, 1e12, 40)))
    options = {"preconditioner": "jacobi", "preconditioner_storage": storage, "engine": "cpu"}
    for method in ("cg", "gmres"):
        found = cpms.solve(A, np.ones(40), method=method, **options)
        assert found.converged, found.reason
        assert found.preconditioned_by == "jacobi in fp64"
        assert f"preconditioner in fp64: the range of {storage} is too small" in found.reason


@pytest.mark.representatives(scale=("1e+100",))
@pytest.mark.representatives(method=("gmres",))
@pytest.mark.parametrize(("scale", "taken"), [(1e10, "fp32"), (1e100, "fp64")])
@pytest.mark.parametrize("method", ["cg", "gmres", "refine", "chebyshev"])
def test_a_format_that_is_too_small_for_the_matrix_widens_and_says_so(method, scale, taken):
    A = scale * laplacian()
    found = cpms.solve(A, ONES, method=method, storage="fp16", engine="cpu", max_iterations=3000)
    assert found.converged, found.reason
    assert is_honest(A, ONES, found)
    assert found.storage == taken
    assert "fp32 in place of fp16" in found.reason or "too large for" in found.reason
    pair = cpms.dominant_eigenpair(np.diag([scale, 2.0 * scale]), storage="fp16", engine="cpu")
    assert pair.converged
    assert pair.value == 2.0 * scale


@pytest.mark.representatives(scale=("1e-12",))
@pytest.mark.representatives(method=("cg", "gmres"))
@pytest.mark.parametrize("method", ["jacobi", "chebyshev", "cg", "gmres", "refine"])
@pytest.mark.parametrize("scale", [1e10, 1e-12])
def test_vectors_of_too_small_a_range_widen_before_iterations_run_out(method, scale):
    A = scale * (laplacian() + scipy.sparse.eye_array(64))
    found = cpms.solve(A, ONES, method=method, vectors="e4m3", engine="cpu")
    assert found.converged, (found, found.reason)
    assert is_honest(A, ONES, found)


@pytest.mark.parametrize(("method", "scale"), [("chebyshev", 1.0), ("jacobi", 1e6)])
@pytest.mark.parametrize("vectors", ["fp16", ("e4m3", "fp16", "fp32")])
def test_sweeps_whose_residual_neither_falls_nor_rises_widen_before_iterations_run_out(method, scale, vectors):
    A = scale * stencil(5, 16)
    b = np.random.default_rng(1).standard_normal(256)
    found = cpms.solve(A, b, method=method, vectors=vectors, engine="cpu", max_iterations=3000)
    assert found.converged, (found, found.reason)
    assert is_honest(A, b, found)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("method", ["auto", "cg", "gmres", "jacobi", "chebyshev", "refine"])
def test_values_near_the_ends_of_float64_end_without_a_warning(method, engine):
    tridiagonal = np.diag(np.full(5, 2.0)) - np.diag(np.ones(4), 1) - np.diag(np.ones(4), -1)
    matrices = [
        tridiagonal * 8e307,
        tridiagonal * 1e-310,
        np.diag([1e300, 1e-300, 1.0, 1e150, 1e-150]),
        np.diag([5e-310, 1.0, 3.0, 1.0, 1.0]),
        np.zeros((5, 5)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for A in matrices:
            for b in (np.ones(5), np.full(5, 5e-324), np.full(5, 1e307)):
                try:
                    found = cpms.solve(A, b, method=method, engine=engine, max_iterations=20)
                except InputError as error:
                    assert method != "auto"
                    assert "on the diagonal" in str(error)
                    continue
                assert is_honest(A, b, found)
                assert ":" in found.status.value


@pytest.mark.parametrize("options", [{"method": "jacobi"}, {"method": "chebyshev"},
                                     {"method": "cg", "preconditioner": "chebyshev"}])  # fmt: skip
def test_directions_beyond_float64_end_without_an_error_where_a_format_has_no_infinity(options):
    A = 6e-309 * np.array([[1.0, 0.95, 0.0], [0.95, 1.0, 0.2], [0.0, 0.2, 1.0]])
    b = np.array([0.999, -0.999, 0.999])
    found = cpms.solve(A, b, vectors="bfp16", engine="cpu", max_iterations=300, **options)
    assert is_honest(A, b, found)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("method", ["auto", "cg", "gmres", "jacobi", "chebyshev", "refine"])
@pytest.mark.parametrize("x0", [[1e300, 1.0], [1.0, 1.0], [1e-290, 0.0]])
def test_a_start_that_is_far_too_large_is_left_out(method, engine, x0):
    A, b = np.array([[2.0, 1.0], [1.0, 2.0]]), [1e-300, 2e-300]
    found = cpms.solve(A, b, x0=x0, method=method, engine=engine, tol=1e-8)
    assert found.converged, (found, found.reason)
    assert is_honest(A, b, found)
    assert ("x0 left out" in found.reason) == (max(x0) > 1e-200)


def test_what_is_beyond_float64_meets_no_tolerance_beyond_it():
    A, b = 1e-300 * np.eye(2), np.array([1e100, 1e100])
    found = cpms.solve(A, b, tol=1e300, method="gmres", engine="cpu")
    assert not found.converged or np.isfinite(found.x).all()
    found = cpms.solve(1e10 * np.eye(2), b, tol=1e300, x0=[1e308, 1e308], max_iterations=0, engine="cpu")
    assert not found.converged or is_honest(1e10 * np.eye(2), b, found)


def test_auto_does_not_divide_by_a_diagonal_whose_inverse_overflows():
    A, b = np.diag([5e-310, 1.0, 3.0]), [5e-310, 1.0, 1.0]
    found = cpms.solve(A, b, engine="cpu")
    assert found.converged
    assert is_honest(A, b, found)
    assert found.preconditioner is None


def test_columns_of_b_and_x0_go_together():
    b = np.stack([ONES, np.arange(64.0)], axis=1)
    for given in (b, b.tolist(), np.asfortranarray(b)):
        found = cpms.solve(laplacian(), given, x0=b, engine="cpu")
        assert [each.converged for each in found] == [True, True]
    for wrong in (ONES, np.ones((64, 1)), np.ones((64, 3)), np.ones((64, 0))):
        with pytest.raises(InputError, match="in the shape of b"):
            cpms.solve(laplacian(), b, x0=wrong, engine="cpu")
    for wrong in (3.0, "ones", {}, scipy.sparse.csr_array(b), np.ma.masked_array(b, mask=b == 0.0), b[:5]):
        with pytest.raises(InputError):
            cpms.solve(laplacian(), b, x0=wrong, engine="cpu")
    with pytest.raises(InputError, match=r"b has shape \(5, 2\); the matrix needs \(64,\), or \(64, k\)"):
        cpms.solve(laplacian(), b[:5], engine="cpu")


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        (lambda r: 1j * r, "values of type complex128"),
        (lambda r: r.astype(str), "values of type <U32"),
        (lambda r: np.ma.masked_array(r), "masked values"),
    ],
)
def test_what_a_preconditioner_returns_is_real(returned, sentence):
    for method in ("cg", "gmres"):
        with pytest.raises(InputError, match=sentence):
            cpms.solve(laplacian(), ONES, method=method, preconditioner=returned, engine="cpu")


@pytest.mark.parametrize(
    ("wide", "kept"),
    [
        (np.array([2**53 + 1, 1]), np.array([2**53, -(2**53)])),
        (np.array([2**64 - 1, 1], np.uint64), np.array([2**53, 0], np.uint64)),
        (np.array([1, 1], np.longdouble) / 3, np.array([0.1, 3.0], np.longdouble)),
    ],
)
def test_numbers_that_float64_rounds_are_refused(wide, kept):
    """A certificate of the rounded right-hand side would be of another system."""
    if np.array_equal(wide.astype(np.float64), wide) and wide.dtype.kind == "f":
        pytest.skip("long doubles are float64 here")
    for b in (wide, wide[:, None]):
        with pytest.raises(InputError, match=r"b holds .* which float64 rounds"):
            cpms.solve(np.eye(2), b, engine="cpu")
    assert cpms.solve(np.eye(2), kept, engine="cpu").converged
    A = cpms.matrix(np.eye(2), engine="cpu")
    with pytest.raises(InputError, match="x holds"):
        A @ wide


def test_a_preconditioner_that_is_a_matrix_is_refused():
    for given in (np.eye(64), scipy.sparse.eye_array(64)):
        with pytest.raises(InputError, match=r"preconditioner is .*lambda r: M @ r"):
            cpms.solve(laplacian(), ONES, method="cg", preconditioner=given, engine="cpu")


def resized(x, length):
    x.resize(length, refcheck=False)


def typed(x, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy's, of a type that is set.
        x.dtype = name


@pytest.mark.parametrize(
    "change",
    [lambda x: resized(x, 8), lambda x: resized(x, 4096), lambda x: typed(x, "int64"), lambda x: typed(x, "float32")],
)
@pytest.mark.parametrize("method", ["own", "refine"])
def test_a_method_that_changes_the_shape_or_the_type_of_x_is_refused(change, method):
    def own(task, x):
        change(x)
        return cpms.SolveStatus.CONVERGED

    options = {"method": own} if method == "own" else {"method": "refine", "inner": own}
    with pytest.raises(InputError, match="own made x an array of shape"):
        cpms.solve(laplacian(), ONES, engine="cpu", **options)


@pytest.mark.parametrize("given", [None, 3, b"csr", [], object()])
def test_layouts_that_are_none_are_refused(given):
    for call in (lambda **options: cpms.solve(laplacian(), ONES, **options), cpms.dominant_eigenpair):
        with pytest.raises(InputError, match=r"layout .* is not known"):
            call(**({"A": laplacian()} if call is cpms.dominant_eigenpair else {}), layout=given, engine="cpu")


def test_on_step_must_be_a_function():
    for call in (lambda step: cpms.solve(laplacian(), ONES, on_step=step, engine="cpu"),
                 lambda step: cpms.dominant_eigenpair(laplacian(), on_step=step, engine="cpu")):  # fmt: skip
        with pytest.raises(InputError, match="on_step is 3; give a function"):
            call(3)


def test_a_method_that_records_no_bytes_is_refused_in_its_name(tmp_path, monkeypatch):
    text = "def silent(task, x):\n    task.recorder.add(1.0, 64, None)\n"
    (tmp_path / "mine.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"mine.py:silent failed: TypeError"):
        cpms.solve(laplacian(), ONES, method="mine.py:silent", engine="cpu")


@pytest.mark.parametrize("scale", [1e-320, 1e-160, 1e300])
def test_eigenvectors_have_norm_1_at_any_scale(scale):
    found = cpms.dominant_eigenpair(np.diag([3.8, 1e-110]) * scale, engine="cpu", max_iterations=200)
    assert abs(np.linalg.norm(found.vector) - 1.0) < 1e-12
    assert repr(found).startswith(f"Eigenpair({found.value:.12g}, vector of 2: {found.status.name} after ")
    for start in (np.full(3, 1e308), np.full(3, 5e-324)):
        assert cpms.dominant_eigenpair(np.diag([1.0, 3.0, 7.0]), x0=start, engine="cpu").converged


def test_products_that_vanish_are_no_eigenvalue_0():
    found = cpms.dominant_eigenpair(5e-324 * np.eye(5), x0=np.ones(5), engine="cpu", max_iterations=3)
    assert (found.converged, found.value) == (True, 5e-324)
    found = cpms.dominant_eigenpair(np.diag([1e300, 5e-324]), x0=[0.0, 1.0], engine="cpu", max_iterations=3)
    assert not found.converged
    assert found.residual == np.inf


@pytest.mark.parametrize("exponent", [-1060, -600, -520, 510, 1000, 1020])
def test_eigenpairs_of_any_scale_are_those_of_the_matrix_near_1(exponent):
    A = laplacian() + scipy.sparse.eye_array(64)
    near = cpms.dominant_eigenpair(A, tol=1e-4, engine="cpu")
    found = cpms.dominant_eigenpair(A * 2.0**exponent, tol=1e-4, engine="cpu")
    assert near.converged
    assert found.converged
    assert found.vector.tobytes() == near.vector.tobytes()
    assert found.value == near.value * 2.0**exponent or exponent < -1000
    assert [each.residual for each in found.history] == [each.residual * 2.0**exponent for each in near.history]


@pytest.mark.parametrize("exponent", [513, 600, 990])
def test_gmres_on_a_matrix_whose_squares_overflow_says_so(exponent):
    found = cpms.solve(laplacian() * 2.0**exponent, ONES, method="gmres", engine="cpu")
    assert found.converged or found.status.name == "OVERFLOW"


def test_an_exact_eigenvalue_0_is_certified():
    for A in ([[0.1, -0.1], [0.1, -0.1]], np.zeros((3, 3)), [[0.0, 1.0], [0.0, 0.0]]):
        found = cpms.dominant_eigenpair(A, engine="cpu")
        assert (found.converged, found.value, found.residual) == (True, 0.0, 0.0)


def test_half_precision_matrices_are_taken():
    A = laplacian().toarray().astype(np.float16)
    assert cpms.solve(A, ONES, engine="cpu").converged


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vectors": 0}, "vectors is 0; give a format"),
        ({"vectors": ["fp32", 0.5]}, "vectors is 0.5; give a format"),
        ({"read": "a"}, "read is 'a'; it must be a whole number"),
        ({"read": 0}, "read is 0; it must be 1 or more"),
        ({"preconditioner": "jacobi", "preconditioner_storage": 3}, "preconditioner_storage is 3; give a format"),
    ],
)
def test_errors_name_the_argument_that_was_given(options, message):
    with pytest.raises(InputError, match=re.escape(message)):
        cpms.solve(laplacian(), ONES, engine="cpu", **options)
