"""Solves on processors call no product of BLAS on vectors: its threads go on spinning where lanes want a processor."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import cpms

ROOMS = ("api/linear", "backends/cpu", "certify", "contracts", "problems", "solvers")
OF_BLAS = {"dot", "vdot", "inner", "matmul", "einsum", "tensordot", "norm"}
ALLOWED = {
    ("gmres.py", "least_squares"),  # Of at most as many numbers as a cycle has steps.
    ("linear_system.py", "jacobi_rate"),  # Of a sparse matrix.
    ("batch.py", "sums"),  # Of a sparse matrix.
}


def products(source):
    """Yield the function and the line of each matrix product, and of each call of NumPy that is one."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            is_operator = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
            owner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
            of_numpy = isinstance(owner, ast.Name) and owner.id == "np" and node.func.attr in OF_BLAS
            of_linalg = isinstance(owner, ast.Attribute) and owner.attr == "linalg" and node.func.attr == "norm"
            if is_operator or of_numpy or of_linalg:
                yield function.name, node.lineno


def test_the_search_finds_products():
    source = "def f(a, b):\n    a @ b\n    np.dot(a, b)\n    np.linalg.norm(a)\n    np.maximum(a, b)\n    out.dot(a)\n"
    assert [line for _, line in products(source)] == [2, 3, 4]


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_of_solves_have_no_product_of_blas(room):
    files = sorted((Path(cpms.__file__).parent / room).rglob("*.py"))
    found = [(path.name, *each) for path in files for each in products(path.read_text(encoding="utf-8"))]
    assert files
    assert [each for each in found if each[:2] not in ALLOWED] == []
