"""Unknown keyword arguments of public functions are errors that name the nearest one."""

from __future__ import annotations

import inspect

import pytest

import cpms
from cpms import InputError

A = [[4.0, -1.0], [-1.0, 4.0]]
GRAPH = ([0, 1], [1, 0])


@pytest.mark.quick
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: cpms.solve(A, [1.0, 1.0], tolerance=1e-8), "solve: argument 'tolerance'.*did you mean tol?"),
        (lambda: cpms.Solver(A, precond="jacobi"), "Solver: argument 'precond'.*did you mean preconditioner?"),
        (lambda: cpms.Solver(A).solve([1.0, 1.0], eps=1e-8), "Solver.solve: argument 'eps'.*did you mean tol?"),
        (lambda: cpms.dominant_eigenpair(A, maxiter=3), "argument 'maxiter'.*did you mean max_iterations?"),
        (lambda: cpms.matrix(A, dtype="fp16"), "matrix: argument 'dtype'.*did you mean storage?"),
        (lambda: cpms.pagerank(GRAPH, alpha=0.9), "pagerank: argument 'alpha'.*did you mean damping?"),
        (lambda: cpms.PageRank(GRAPH, backend="cpu"), "PageRank: argument 'backend'.*did you mean engine?"),
        (lambda: cpms.personalized_pagerank(GRAPH, [0], eps=1.0), "argument 'eps'.*did you mean tol?"),
        (lambda: cpms.quantize([0.1], formt="fp16"), "argument 'formt'.*did you mean format?"),
        (lambda: cpms.load("wiki-Vote", weight="ignore"), "argument 'weight'.*did you mean weights?"),
    ],
)
def test_the_nearest_argument_is_named(call, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        call()
    assert str(caught.value.page).startswith("docs/")


@pytest.mark.quick
def test_a_word_of_another_function_is_no_near_miss():
    with pytest.raises(InputError, match="argument 'tolerance' is not known; it can be one of A, method"):
        cpms.Solver(A, tolerance=1e-8)


@pytest.mark.quick
def test_signatures_and_missing_arguments_stay():
    assert "smallest_eigenvalue" in inspect.signature(cpms.solve).parameters
    assert next(iter(inspect.signature(cpms.pagerank).parameters)) == "graph"
    with pytest.raises(TypeError, match="missing"):
        cpms.pagerank()
