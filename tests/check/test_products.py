"""Laws of products: they hold for what `cpms.matrix` returns, and fail for what is broken."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import cpms
from cpms import check
from cpms.api import product_engines
from cpms.backends.cpu import product
from cpms.check import LawError
from cpms.contracts.product_request import ProductRequest


def uneven():
    """Return a matrix with empty, short and full rows, any sign and 12 binades, 70 x 41."""
    rng = np.random.default_rng(7)
    dense = np.where(rng.random((70, 41)) < 0.08, rng.standard_normal((70, 41)), 0.0)
    dense[3], dense[40:44] = rng.standard_normal(41), 0.0
    return dense * 2.0 ** rng.integers(-6, 6, dense.shape)


CASES = [
    *(("cpu", storage, "csr", "fp64") for storage in ("fp64", "fp32")),
    ("cpu", "cpms2", "sell", "fp32"),
    ("cpu", "codes8", "sell", "fp64"),
    ("cpu", "bfp16", "sell", "fp32"),
    ("reference", "bfp32", "csr", "fp64"),
    ("cpu", "e4m3 by rows", "coo", "fp64"),
    ("reference", "cpms2-nearest", "csr", "fp32"),
    ("cpu", "seg24-40", "csr", "fp64"),
    ("reference", "seg8-40-16-planes", "sell", "fp64"),
    # Each compiles loops of its own.
    *(
        pytest.param("cpu", *case, marks=pytest.mark.slow)
        for case in (
            ("cpms2-planes", "ell", "fp64"),
            ("bfp21", "csr", "fp64"),
            ("e4m3 by rows", "csr", "fp32"),
            ("e4m3 by rows", "sell", "fp64"),
            ("cpms4-planes", "csr", "fp64"),
            ("seg16-16-32", "ell", "fp64"),
            ("seg40-24", "sell", "fp32"),
            ("seg24-24-16-planes", "coo", "fp64"),
            ("fp16-scaled-zero", "sell", "fp64"),
            ("cpms4", "csr", "fp32"),
            ("cpms2", "coo", "fp32"),
            ("e5m2-scaled", "csr", "fp64"),
        )
    ),
]


@pytest.mark.parametrize(("engine", "storage", "layout", "compute"), CASES)
def test_products_keep_the_laws(engine, storage, layout, compute):
    given = np.round(2 * uneven()) / 3 if storage == "codes8" else uneven()
    name, _, by_rows = storage.partition(" by ")
    scaling = by_rows or "none"
    A = cpms.matrix(given, engine=engine, storage=name, layout=layout, compute=compute, scaling=scaling)
    for law in check.PRODUCT_LAWS:
        law(A)


@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_patterns_keep_the_laws(layout):
    rows, columns = np.nonzero(uneven())
    A = cpms.matrix((rows, columns), layout=layout, engine="cpu")
    assert A.storage is None
    for law in check.PRODUCT_LAWS:
        law(A)


@pytest.mark.parametrize(
    "layout", ["csr", *(pytest.param(name, marks=pytest.mark.slow) for name in ("coo", "ell", "sell"))]
)
def test_indices_of_64_bits_give_the_same_bits(layout):
    A = cpms.matrix(uneven(), layout=layout, engine="cpu")
    wide = A.with_storage(indices=64)
    x = np.random.default_rng(1).standard_normal(41)
    assert wide.nbytes > A.nbytes
    np.testing.assert_array_equal(A @ x, wide @ x)
    assert wide.nbytes == cpms.matrix(uneven(), layout=layout, engine="cpu", indices="64").nbytes


def test_the_number_of_threads_changes_no_bit():
    from cpms.base import threads

    A = cpms.matrix(scipy.sparse.random_array((3000, 3000), density=0.05, rng=np.random.default_rng(3)), engine="cpu")
    assert len(A.operator._parts) > 2
    x = np.random.default_rng(1).standard_normal(3000)
    with threads.limited(1):
        alone = A @ x, A.operator.dots([x, A @ x], x)
    np.testing.assert_array_equal(alone[0], A @ x)
    np.testing.assert_array_equal(alone[1], A.operator.dots([x, A @ x], x))
    np.testing.assert_allclose(alone[0], A.source.to_scipy() @ x, rtol=1e-12, atol=1e-13)


def faulty(A, **changes):
    """Return the matrix with methods of its operator replaced."""
    made = type("Faulty", (type(A.operator),), changes)
    operator = made(*(getattr(A.operator, name) for name in A.operator.__dataclass_fields__))
    return cpms.StoredMatrix(operator, A.source, engine=A.engine)


def with_result(change):
    def apply(self, x, out, **options):
        found = product.CpuProduct.apply(self, x, out, **options)
        change(out, options)
        return None if found is None else float(out @ options["epilogue"].dot)

    return {"apply": apply}


def one_row_off(out, options):
    out[5] = out[5] * (1 + 1e-7) + 1e-7


def transposed_only(out, options):
    if options.get("transpose"):
        out[5] += 1e-3


def more_bits_are_worse(out, options):
    if options["read_matrix"] == 3:
        out *= 0.75


def not_linear(out, options):
    np.round(out, 3, out=out)


@pytest.mark.parametrize(
    ("law", "change"),
    [
        (check.products_are_within_their_bound, one_row_off),
        (check.products_agree, one_row_off),
        (check.transposed_products_are_adjoint, transposed_only),
        (check.products_improve_with_levels, more_bits_are_worse),
        (check.products_are_linear, not_linear),
    ],
)
def test_laws_of_products_can_fail(law, change):
    A = cpms.matrix(np.abs(uneven()), storage="cpms4", engine="cpu")
    law(A)
    with pytest.raises(LawError, match="engine cpu, cpms4 in csr, computed in fp64"):
        law(faulty(A, **with_result(change)))


@pytest.mark.parametrize("verb", ["dots", "combine", "update_and_norm", "scale", "convert"])
def test_the_law_of_vector_operations_can_fail(verb):
    def changed(self, *given):
        found = getattr(product.CpuProduct, verb)(self, *given)
        if verb in ("combine", "scale"):
            given[2 if verb == "combine" else 0][7] += 1e-3
            return None
        return found * (1 + 1e-3) if verb != "convert" or isinstance(found, np.ndarray) else found

    A = cpms.matrix(uneven(), storage="cpms4", engine="cpu")
    # Vectors are read back by conversion, so that a wrong one is found in the first verb that is checked.
    with pytest.raises(LawError, match="dots" if verb == "convert" else verb):
        check.vector_operations_agree(faulty(A, **{verb: changed}))


def test_engines_of_products_are_known_by_name():
    for name in product_engines.names():
        assert product_engines.refusal(name, ProductRequest(cpms.FP64)) is None
    assert "no segments of 24 bits" in product_engines.refusal("cuda", ProductRequest(cpms.format_named("seg24-40")))
    with pytest.raises(cpms.InputError, match="'opencl' multiplies with transition matrices"):
        cpms.matrix([[1.0]], engine="opencl")
