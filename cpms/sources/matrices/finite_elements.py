"""Stiffness matrices of Poisson's equation on unstructured meshes, assembled by scikit-fem."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from cpms.base.errors import InputError, UnavailableError

if TYPE_CHECKING:
    import scipy.sparse

_MOST_POINTS = 2**24


def elements(
    *, points: int, dimensions: int = 2, degree: int = 1, numbering: str = "rcm", seed: int = 1
) -> scipy.sparse.csr_array:
    """Return the stiffness matrix on the Delaunay mesh of random points of the unit square or cube, plus its mass.

    Parameters
    ----------
    points : int
        Vertices of the mesh, 8 or more.
    dimensions : {2, 3}
        Triangles or tetrahedra.
    degree : {1, 2}
        Of the polynomials on an element.
    numbering : {"rcm", "random"}
        Unknowns in reverse Cuthill–McKee order, or at random.
    seed : int

    Raises
    ------
    UnavailableError
        If scikit-fem is not installed.
    """
    import scipy.sparse
    from scipy.sparse.csgraph import reverse_cuthill_mckee
    from scipy.spatial import Delaunay

    if dimensions not in (2, 3) or degree not in (1, 2) or numbering not in ("rcm", "random") or seed < 0:
        raise InputError(
            f"elements of degree {degree} in {dimensions} dimensions, numbered {numbering!r}, seed {seed}; give degree "
            "1 or 2, 2 or 3 dimensions, 'rcm' or 'random', and a seed from 0"
        )
    if not 8 <= points <= _MOST_POINTS:
        raise InputError(f"elements on {points} points; give 8 to {_MOST_POINTS:,}")
    try:
        fem: Any = import_module("skfem")
        helpers: Any = import_module("skfem.helpers")
    except ImportError:
        raise UnavailableError("finite elements are assembled by scikit-fem: pip install scikit-fem") from None
    generator = np.random.default_rng(seed)
    places = generator.random((points, dimensions))
    mesh_type = fem.MeshTri if dimensions == 2 else fem.MeshTet
    element = getattr(fem, f"Element{'Tri' if dimensions == 2 else 'Tet'}P{degree}")()
    mesh = mesh_type(places.T.copy(), Delaunay(places).simplices.T.astype(np.int32).copy())

    @fem.BilinearForm  # type: ignore[untyped-decorator, unused-ignore]
    def form(u: Any, v: Any, _: Any) -> Any:
        return helpers.dot(helpers.grad(u), helpers.grad(v)) + u * v

    made = scipy.sparse.csr_array(form.assemble(fem.Basis(mesh, element)))
    order = generator.permutation(made.shape[0])
    if numbering == "rcm":
        order = reverse_cuthill_mckee(scipy.sparse.csr_matrix(made), symmetric_mode=True)
    made = scipy.sparse.csr_array(made[order][:, order])
    made.sort_indices()
    made.indices, made.indptr = made.indices.astype(np.int32), made.indptr.astype(np.int32)
    return made
