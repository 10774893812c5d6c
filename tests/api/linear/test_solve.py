"""cpms.solve: certified answers whatever the system, methods, formats, warm starts, several right sides, bad input."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse
from linear_judges import is_within

import cpms
from cpms import InputError, SolveStatus
from cpms.certify import linear_loops
from cpms.formats.block_float import BFP32
from cpms.solvers.linear.cg import cg
from cpms.sources.fuzzed_systems import KINDS, fuzzed
from cpms.sources.matrices.stencils import stencil
from cpms.storage.block_float import encode_blocks

ONES = np.ones(256)


@cache
def laplacian():
    return stencil(5, 16)


def exact(A, b, x, tol):
    return np.linalg.norm(b - A @ x) <= tol * np.linalg.norm(b) * (1 + 1e-6)


@pytest.mark.representatives(part=("0", "1"))
@pytest.mark.parametrize("part", range(6))
def test_what_is_called_converged_is_so_exactly(part):
    converged = 0
    for seed in range(50 * part, 50 * part + 50):
        system = fuzzed(seed, largest=2000 if seed % 10 == 0 else 60)
        found = cpms.solve(system.A, system.b, tol=system.tol, engine="cpu", max_iterations=200)
        if found.converged:
            converged += 1
            assert is_within(system, found.x), f"seed {seed}, {system.kind}: {found}"
            assert found.residual <= system.tol
    assert converged > 10


@pytest.mark.parametrize("method", ["cg", "gmres", "jacobi", "chebyshev", "refine"])
def test_a_wrong_method_never_lies(method):
    for seed in range(len(KINDS)):
        system = fuzzed(seed + 1000, largest=60)
        try:
            found = cpms.solve(system.A, system.b, tol=system.tol, engine="cpu", method=method, max_iterations=200)
        except InputError as error:
            assert "diagonal" in str(error)
            continue
        assert not found.converged or is_within(system, found.x)


@pytest.mark.parametrize("method", ["cg", "gmres", "jacobi", "chebyshev", "refine"])
@pytest.mark.parametrize("vectors", ["fp64", "fp32", pytest.param("bfp16", marks=pytest.mark.slow), "bf16"])
def test_every_method_reaches_1e_12_with_any_vectors(method, vectors):
    found = cpms.solve(laplacian(), ONES, tol=1e-12, method=method, vectors=vectors, engine="cpu", max_iterations=5000)
    assert found.converged, found
    assert exact(laplacian(), ONES, found.x, 1e-12)
    assert found.history[-1].exact
    assert found.history[-1].residual <= 1e-12
    assert found.bytes_read > 0


def test_reference_engine_agrees():
    A = stencil(5, 4)
    for method in ("cg", "gmres"):
        found = cpms.solve(A, np.ones(16), method=method, engine="reference")
        np.testing.assert_allclose(found.x, np.linalg.solve(A.toarray(), np.ones(16)), rtol=1e-9)


@pytest.mark.representatives(storage=("fp16", "cpms4"))
@pytest.mark.parametrize("storage", ["fp32", "fp16", "bf16", "cpms4", "bfp21"])
def test_rounded_matrices_are_solved_for_the_given_values(storage):
    rng = np.random.default_rng(4)
    A = laplacian().copy()
    A.data = A.data * (1.0 + 0.1 * rng.random(A.nnz))
    A = scipy.sparse.csr_array(A + A.T)
    for method in ("cg", "gmres", "refine"):
        read = 2 if storage == "cpms4" else None
        found = cpms.solve(A, ONES, method=method, storage=storage, read=read, engine="cpu", max_iterations=3000)
        assert found.converged, (storage, method, found, found.reason)
        assert exact(A, ONES, found.x, 1e-10)


def test_a_stored_matrix_is_solved_for_the_values_that_it_was_made_of():
    A = laplacian() * (1.0 + 1.0 / 3000.0)
    stored = cpms.matrix(A, storage="fp16", engine="cpu")
    assert np.abs(stored @ ONES - A @ ONES).max() > 1e-4
    found = cpms.solve(stored, ONES, engine="cpu")
    assert found.converged
    assert exact(A, ONES, found.x, 1e-10)


@pytest.mark.parametrize("storage", [None, "fp16", "bfp32"])
def test_a_certificate_says_whether_the_matrix_exists_only_rounded(storage):
    A = laplacian().tocoo() * (1.0 + 1.0 / 3000.0)
    values = encode_blocks(A.data, BFP32) if storage == "bfp32" else A.data
    values = cpms.encode(A.data, storage) if storage == "fp16" else values
    of = "the stored matrix" if storage else "the matrix as given"
    for given in ((A.row, A.col, values), cpms.matrix((A.row, A.col, values), engine="cpu").source.transposed()):
        found = cpms.solve(given, ONES, engine="cpu")
        assert found.converged
        assert found.certificate.of == of


def test_few_bits_of_a_matrix_are_guarded_in_cg():
    A = scipy.sparse.csr_array(np.array([[1.0, 1.0 - 1e-5], [1.0 - 1e-5, 1.0]]))
    found = cpms.solve(A, [1.0, -1.0], method="cg", storage="fp16", engine="cpu")
    assert found.storage == "fp32"
    assert "indefinite" in found.reason
    assert found.converged


def test_a_format_that_is_too_small_widens_and_says_so():
    A = scipy.sparse.csr_array(np.diag(np.geomspace(1.0, 1e12, 40)))
    found = cpms.solve(A, np.ones(40), tol=1e-12, method="cg", vectors=("e4m3", "fp16"), engine="cpu")
    assert "widened" in found.reason, found.reason
    assert found.converged == is_within(fuzzed(0)._replace(A=A, b=np.ones(40), tol=1e-12), found.x)


def test_a_failed_solve_says_what_the_system_and_the_residuals_show():
    diagonals = [np.r_[1.0, np.full(28, 2.0), 1.0], -np.ones(29), -np.ones(29)]
    path = scipy.sparse.diags_array(diagonals, offsets=[0, 1, -1]).tocsr()
    scaled = scipy.sparse.csr_array(scipy.sparse.diags_array(np.geomspace(1e-6, 1e6, 256)) @ laplacian())
    columns = scipy.sparse.csr_array([[1.0, 0.0], [2.0, 0.0]])
    for A, b, said in (
        (path, np.ones(30), "so A is singular; as A is symmetric, b must sum to 0, and sums to 30"),
        (np.diag([1.0, 0.0]), [1.0, 1.0], "row 1 of A is 0, so A is singular, and no x solves this equation"),
        (columns, [1.0, 1.0], "column 1 of A is 0, so A is singular"),
        (scaled, ONES, "the largest entries of rows differ by a factor of 1.0e+12: divide rows of A and b by them"),
        (path, np.arange(30.0) ** 2, "the residual is larger than that of x = 0: more iterations would hardly help"),
    ):
        found = cpms.solve(A, b, max_iterations=200, engine="cpu")
        assert not found.converged
        assert said in found.reason, found.reason
    slow = cpms.solve(path, np.linspace(-1.0, 1.0, 30), max_iterations=200, method="jacobi", engine="cpu")
    assert "the residual did not halve in the last 100 iterations: more iterations would hardly help" in slow.reason
    balanced = cpms.solve(path, np.linspace(-1.0, 1.0, 30), engine="cpu")
    assert balanced.converged
    assert "singular" not in balanced.reason


def test_indefinite_singular_and_scaled_systems_end_with_advice():
    indefinite = scipy.sparse.csr_array(np.diag([1.0, -1.0, 2.0]))
    assert cpms.solve(indefinite, np.ones(3), method="cg", engine="cpu").status is SolveStatus.INDEFINITE
    auto = cpms.solve(scipy.sparse.csr_array([[1.0, 2.0], [2.0, 1.0]]), [1.0, 0.0], engine="cpu")
    assert auto.converged
    assert "gmres continued" in auto.reason
    assert auto.method == "gmres"
    singular = cpms.solve([[1.0, 1.0], [1.0, 1.0]], [1.0, 0.0], engine="cpu")
    assert not singular.converged
    assert ":" in singular.status.value
    limit = cpms.solve(laplacian(), ONES, max_iterations=3, engine="cpu")
    assert (limit.status, limit.iterations) == (SolveStatus.MAX_ITERATIONS, 3)
    tiny = cpms.solve(laplacian(), 1e-250 * ONES, engine="cpu")
    assert tiny.converged
    assert cpms.solve(laplacian(), 1e250 * ONES, engine="cpu").converged
    nothing = cpms.solve(laplacian(), 0.0 * ONES, engine="cpu")
    assert nothing.converged
    assert not nothing.x.any()


@pytest.mark.parametrize(
    ("A", "b", "method", "status"),
    [
        ([[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0], "cg", SolveStatus.BREAKDOWN),
        ([[1.0, 2.0], [3.0, 1.0]], [1.0, 1.0], "jacobi", SolveStatus.DIVERGED),
        (np.diag([1e-300, 1.0]), [1e300, 1.0], "gmres", SolveStatus.OVERFLOW),
        ([[1e308, 1e308], [1e308, -1e308]], [1.0, 2.0], "gmres", SolveStatus.OVERFLOW),
    ],
)
def test_solves_that_cannot_succeed_end_with_their_cause_after_all_bits(A, b, method, status):
    found = cpms.solve(A, b, method=method, engine="cpu")
    assert found.status is status
    assert "not converged" in found.status.value
    assert status is SolveStatus.OVERFLOW or "widened to 64 bits" in found.reason


@pytest.mark.parametrize("preconditioner", ["jacobi", "block_jacobi", "chebyshev", "own"])
def test_preconditioners_reduce_iterations_of_a_scaled_system(preconditioner):
    scale = scipy.sparse.diags_array(10.0 ** np.random.default_rng(2).uniform(-1.5, 1.5, 256))
    A = scipy.sparse.csr_array(scale @ laplacian() @ scale)
    A = scipy.sparse.csr_array((A + A.T) / 2)
    inverse = 1.0 / A.diagonal()
    given = (lambda r: inverse * r) if preconditioner == "own" else preconditioner
    without = cpms.solve(A, ONES, method="cg", engine="cpu")
    names = {
        "jacobi": "jacobi in fp32",
        "block_jacobi": "block_jacobi in fp32",
        "chebyshev": "chebyshev in fp32",
        "own": "own preconditioner <lambda> in fp64",
    }
    assert without.preconditioned_by == "none"
    for method in ("cg", "gmres"):
        found = cpms.solve(A, ONES, method=method, preconditioner=given, preconditioner_storage="fp32", engine="cpu")
        assert found.converged
        assert found.preconditioned_by == names[preconditioner]
        assert found.iterations < 0.5 * without.iterations


def test_a_solver_is_prepared_once_and_starts_warm():
    solver = cpms.Solver(laplacian(), engine="cpu", smallest_eigenvalue=0.06)
    cold = solver.solve(ONES)
    warm = solver.solve(ONES, x0=cold.x)
    assert warm.iterations == 0
    assert warm.converged
    truth = np.linalg.solve(laplacian().toarray(), ONES)
    assert np.linalg.norm(cold.x - truth) <= cold.error_bound
    seen = []
    both = cpms.solve(laplacian(), np.stack([ONES, np.arange(256.0)], axis=1), engine="cpu", on_step=seen.append)
    assert [each.converged for each in both] == [True, True]
    assert len(seen) == sum(each.iterations for each in both)
    assert list(cold.trace().columns)[:3] == ["iteration", "residual", "bits"]
    assert "Solution(256 unknowns" in repr(cold)
    assert "certified" in cold._repr_html_()


def test_an_own_method_that_reads_rounded_values_is_called_thrice_and_not_verified():
    A = scipy.sparse.csr_array(laplacian() * (1.0 + 1.0 / 3000.0))
    calls = []

    def from_rounded_values(task, x):
        calls.append(task.goal)
        r, step = task.zeros(), task.zeros()
        for _ in range(2000):
            r[...] = task.b
            task.stored.apply(x, r, alpha=-1.0, beta=1.0)
            step[...] = r
            task.exact.combine([step], [0.2], x)
        size = float(task.exact.dots([r], r)[0]) ** 0.5
        task.recorder.add(size, bits=64, bytes_read=task.bytes_read(vectors=3))
        return SolveStatus.CONVERGED

    found = cpms.solve(A, ONES, method=from_rounded_values, storage="fp16", engine="cpu", tol=1e-6)
    assert found.status is SolveStatus.UNVERIFIED
    assert "store A in more bits" in found.status.value
    np.testing.assert_allclose(calls, calls[0] * np.array([1.0, 0.1, 0.01]))
    of_matrix = cpms.matrix(A, storage="fp16", engine="cpu").operator.bytes_read()
    assert {step.bytes_read for step in found.history} == {of_matrix + 3 * 8 * 256}


@pytest.mark.parametrize(("answers", "certified"), [([1.0, 1.0, 1.0], 1), ([1.0, 2.0, 2.0], 2), ([1.0, 2.0, 1.0], 3)])
def test_an_answer_that_a_second_goal_leaves_is_certified_once(answers, certified, monkeypatch):
    left, calls, loop = list(answers), [], linear_loops.residual_rows
    monkeypatch.setattr(linear_loops, "residual_rows", lambda *given: calls.append(given[-2:]) or loop(*given))

    def claim(task, x):
        x[...] = left.pop(0)
        return SolveStatus.CONVERGED

    found = cpms.solve(laplacian(), 8.0 * ONES, method=claim, engine="cpu")
    assert (found.status, left, len(calls)) == (SolveStatus.UNVERIFIED, [], certified)
    assert found.x.tolist() == (answers[-1] * 2.0**4 * ONES).tolist()
    np.testing.assert_allclose(found.certificate.residual, np.linalg.norm(8.0 * ONES - laplacian() @ found.x))


def test_eigenpairs_are_certified():
    A = scipy.sparse.csr_array(np.diag([1.0, -3.0, 2.0]) + 0.1)
    found = cpms.dominant_eigenpair(A, tol=1e-12, engine="cpu")
    assert found.converged
    assert abs(found.value - min(np.linalg.eigvalsh(A.toarray()))) < 1e-11
    assert {step.bits for step in found.history} == {32, 64}
    turning = cpms.dominant_eigenpair([[0.0, -1.0], [1.0, 0.0]], max_iterations=50, engine="cpu")
    assert not turning.converged


def test_eigenpairs_beyond_float64_say_what_to_do():
    A = np.full((4, 4), 1.7e308)
    found = cpms.dominant_eigenpair(A, engine="cpu")
    assert (found.status, found.value) == (cpms.SolveStatus.OVERFLOW, np.inf)
    assert "of an eigenpair, divide all of A by a power of two" in found.status.value
    scaled = cpms.dominant_eigenpair(A * 2.0**-600, engine="cpu")
    assert (scaled.converged, scaled.value) == (True, pytest.approx(4.0 * (1.7e308 * 2.0**-600)))


def test_eigenvectors_that_a_format_rounds_to_0_are_found_in_more_bits():
    size = 1 << 21
    found = cpms.dominant_eigenpair(
        3.0 * scipy.sparse.eye_array(size), x0=np.ones(size), vectors="e4m3", engine="cpu", max_iterations=20
    )
    assert (found.converged, found.value) == (True, pytest.approx(3.0))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "sor"}, "method 'sor' is not known"),
        ({"tol": 0.0}, "must be positive"),
        ({"tol": float("nan")}, "tol"),
        ({"b": np.ones(3)}, "needs \\(256,\\)"),
        ({"b": np.full(256, np.nan)}, "must be finite"),
        ({"b": 1j * ONES}, "complex"),
        ({"x0": np.full(256, np.inf)}, "must be finite"),
        ({"restart": 0}, "1 or more"),
        ({"max_iterations": -1}, "0 or more"),
        ({"preconditioner": "ilu"}, "not known.*or a function of r"),
        ({"preconditioner": "jacobi", "method": "jacobi"}, "takes no preconditioner: .* give method='cg'"),
        ({"preconditioner": "jacobi", "method": "refine", "inner": "jacobi"}, "inner='jacobi' takes no preconditioner"),
        ({"preconditioner": lambda r: r[:3], "method": "cg"}, "must return"),
        ({"vectors": ("fp32", "fp16")}, "from the fewest bits on"),
        ({"vectors": "codes8"}, "vectors cannot be 'codes8', .* use fp32"),
        ({"preconditioner": "block_jacobi", "preconditioner_storage": "codes8"}, "preconditioner_storage cannot be"),
        ({"vectors": ()}, "empty"),
        ({"engine": "scipy"}, "engine"),
        ({"inner": "sor", "method": "refine"}, "not known"),
        ({"smallest_eigenvalue": -1.0}, "positive"),
        ({"smallest_eigenvalue": 4.5}, r"row 0 of A has 4.0 on the diagonal"),
        ({"smallest_eigenvalue": 1.0}, r"x.Ax / x.x is 0.07"),
        ({"tolerance": 1e-8}, "solve: argument 'tolerance' is not known; did you mean tol?"),
    ],
)
def test_bad_input_is_a_sentence(options, sentence):
    options = {"engine": "cpu"} | options
    with pytest.raises(InputError, match=sentence):
        cpms.solve(laplacian(), options.pop("b", ONES), **options)


def test_matrices_without_solutions_are_refused():
    with pytest.raises(InputError, match="square"):
        cpms.solve(np.ones((2, 3)), np.ones(2), engine="cpu")
    with pytest.raises(InputError, match="A is not symmetric"):
        cpms.solve([[2.0, 1.0], [0.0, 2.0]], np.ones(2), smallest_eigenvalue=1.0, engine="cpu")
    with pytest.raises(InputError, match="on the diagonal"):
        cpms.solve([[0.0, 1.0], [1.0, 0.0]], np.ones(2), method="jacobi", engine="cpu")


def richardson(applies):
    """Return a method of ten steps that applies the preconditioner of its task, or ignores it."""

    def method(task, x):
        for _ in range(10):
            r, size = task.residual(x)
            task.recorder.add(size, 64, 0, exact=True)
            x += task.preconditioner.apply(r) if applies else 0.1 * r
        return cpms.SolveStatus.MAX_ITERATIONS

    return method


@pytest.mark.parametrize("applies", [True, False])
def test_a_preconditioner_that_a_method_ignored_is_not_reported(applies):
    found = cpms.solve([[4.0, 1.0], [1.0, 3.0]], [1.0, 2.0], method=richardson(applies), preconditioner="jacobi")
    assert found.preconditioned_by == ("jacobi in fp64" if applies else "none")
    assert ("; the method did not apply preconditioner jacobi" in found.reason) is not applies


def test_conjugate_gradients_without_the_preconditioner_they_were_given_have_no_error_estimate():
    def method(task, x):
        return cg(replace(task, preconditioner=None), x)

    found = cpms.solve([[4.0, 1.0], [1.0, 3.0]], [1.0, 2.0], method=method, preconditioner="jacobi")
    assert (found.converged, found.preconditioned_by, found.error_estimate) == (True, "none", None)
