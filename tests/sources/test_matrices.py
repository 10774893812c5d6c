"""Test matrices by specification: shapes, symmetry, row sums and bands against what their equations say."""

from __future__ import annotations

import numpy as np
import pytest

from cpms import InputError
from cpms.base import host_memory
from cpms.sources import matrices


@pytest.mark.parametrize(
    "spec",
    [
        "stencil:points=27,side=5",
        "convection:side=5",
        "recirculation:side=9,peclet=3",
        "recirculation:side=1",
        "elasticity:side=4",
        "banded:rows=90,width=20,entries=5",
        "elements:points=60,degree=2",
        "elements:points=40,dimensions=3,numbering=random",
        "pyamg:knot",
    ],
)
def test_matrices_are_square_canonical_and_the_same_again(spec):
    if spec.startswith("elements"):
        pytest.importorskip("skfem")
    if spec.startswith("pyamg"):
        pytest.importorskip("pyamg")
    made = matrices.generate(spec)
    assert matrices.is_name(spec)
    assert made.shape[0] == made.shape[1]
    assert made.has_canonical_format
    assert made.indices.dtype == made.indptr.dtype == np.int32
    assert np.isfinite(made.data).all()
    assert (made.data != 0.0).all()
    assert (made != matrices.generate(spec)).nnz == 0


@pytest.mark.parametrize("peclet", [0.0, 4.0])
def test_differences_vanish_on_constants_away_from_the_boundary(peclet):
    wind = matrices.generate(f"recirculation:side=12,peclet={peclet}")
    inner = np.zeros((12, 12), bool)
    inner[1:-1, 1:-1] = True
    assert np.abs((wind @ np.ones(144))[inner.ravel()]).max() < 1e-12
    constant = matrices.generate(f"convection:side=6,dimensions=2,peclet={peclet}")
    assert abs((constant @ np.ones(36))[14]) < 1e-12
    # At Peclet number 0 both are the Laplacian.
    laplacian = matrices.generate("stencil:points=5,side=6")
    assert (abs(constant - laplacian).max() < 1e-12) == (peclet == 0.0)


def test_elasticity_is_symmetric_definite_and_free_of_stress_in_translation():
    made = matrices.generate("elasticity:side=5,poisson=0.2")
    assert abs(made - made.T).max() == 0.0
    assert np.linalg.eigvalsh(made.toarray()).min() > 0.0
    moved = (made @ np.ones(375)).reshape(5, 5, 5, 3)
    assert np.abs(moved[2, 2, 2]).max() < 1e-12


def test_finite_elements_are_definite_whatever_their_numbering():
    pytest.importorskip("skfem")
    near, far = (matrices.generate(f"elements:points=200,numbering={numbering}") for numbering in ("rcm", "random"))
    assert np.allclose(np.sort(near.diagonal()), np.sort(far.diagonal()))
    assert np.linalg.eigvalsh(near.toarray()).min() > 0.0
    assert near.sum() == pytest.approx(1.0, abs=0.1)  # Of the mass matrix: the area of the square, nearly its hull's.
    bands = [int(np.abs(each.tocoo().row - each.tocoo().col).max()) for each in (near, far)]
    assert bands[0] < bands[1] / 2


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("stencil:points=7", "side must be given"),
        ("convection:side=5,dimensions=4", "give 2 or 3"),
        ("recirculation:side=0", r"has side 0; give 1 to 11,585"),
        ("stencil:points=7,side=513", r"has side 513; give 1 to 512"),
        ("elasticity:side=3,poisson=0.5", "Poisson's ratio"),
        ("banded:rows=10,width=20", "1 <= entries <= width <= rows"),
        ("diffusion:side=3,contrast=1e200", "a contrast from 1 to 1e"),
        ("elements:points=5", "give 8 to"),
        ("elements:points=50,degree=3", "degree 1 or 2"),
        ("pyamg:sphinx", "is not known"),
        ("lattice:side=3", "is not known"),
        ("elasticity:side=500", "2\\*\\*31 entries or more; give fewer points"),
    ],
)
def test_impossible_matrices_are_a_sentence(spec, sentence):
    with pytest.raises(InputError, match=sentence):
        matrices.generate(spec)


def test_a_matrix_that_does_not_fit_is_a_sentence_before_memory_is_taken(monkeypatch):
    monkeypatch.setattr(host_memory, "free_bytes", lambda: 1000)
    with pytest.raises(InputError, match=r"64 rows and 1,728 entries needs .* 1,000 are free; give a smaller side"):
        matrices.generate("stencil:points=27,side=4")
