"""Test matrices with values by specification, ``NAME:KEY=VALUE,…``: what products and solvers are measured on.

All are SciPy matrices in CSR with float64 values, made in seconds at millions of rows. Finite elements need the package
scikit-fem, real matrices pyamg.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cpms.base.errors import InputError
from cpms.base.text.suggestions import unknown
from cpms.sources import specification

if TYPE_CHECKING:
    import scipy.sparse

_MODULES = {
    "stencil": "stencils",
    "convection": "stencils",
    "recirculation": "stencils",
    "diffusion": "stencils",
    "elasticity": "elasticity",
    "banded": "banded",
    "elements": "finite_elements",
    "pyamg": "pyamg_files",
}
"""Each generator, and the module here that defines it."""


def names() -> list[str]:
    """Return the names of all generators of matrices.

    Examples
    --------
    >>> "elasticity" in names()
    True
    """
    return sorted(_MODULES)


def is_name(text: str) -> bool:
    """Return whether a text is the specification of a matrix, rather than of a graph.

    Examples
    --------
    >>> is_name("stencil:points=7,side=256"), is_name("rmat:scale=4")
    (True, False)
    """
    return text.partition(":")[0] in _MODULES


def checked(spec: str) -> str:
    """Return a specification whose generator and keys are known and all given; nothing is made.

    Examples
    --------
    >>> checked("banded:rows=100")
    'banded:rows=100'
    """
    specification.arguments(_function(spec), spec, spec.partition(":")[2])
    return spec


def generate(spec: str) -> scipy.sparse.csr_array:
    """Return the matrix that a specification describes.

    Raises
    ------
    InputError
        If the generator, a key or a value is not known or out of range.
    UnavailableError
        If it needs a package that is not installed.

    Examples
    --------
    >>> generate("stencil:points=7,side=3").shape
    (27, 27)
    """
    matrix: scipy.sparse.csr_array = specification.call(_function(spec), spec, spec.partition(":")[2])
    return matrix


def _function(spec: str) -> Callable[..., Any]:
    name = spec.partition(":")[0]
    if name not in _MODULES:
        raise InputError(unknown("generator of matrices", name, names()))
    found: Callable[..., Any] = getattr(import_module(f"cpms.sources.matrices.{_MODULES[name]}"), name)
    return found
