"""Test matrices with values by specification, ``NAME:KEY=VALUE,…``: what products and solvers are measured on.

All are SciPy matrices in CSR with float64 values, made in seconds at millions of rows. Finite elements need the package
scikit-fem, real matrices pyamg. Generators of one's own are plug-ins: functions that return a sparse matrix or array.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from cpms.base import plugins
from cpms.base.errors import InputError
from cpms.base.text import specification
from cpms.base.text.phases import phase
from cpms.base.validation import described

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
    """Return the names of all generators of matrices: the package's, and entry points of the group ``cpms.matrices``.

    Examples
    --------
    >>> "elasticity" in names()
    True
    """
    return sorted({*_MODULES, *plugins.offered("matrices")})


def is_name(text: str) -> bool:
    """Return whether a text is the specification of a matrix, rather than of a graph.

    Examples
    --------
    >>> is_name("stencil:points=7,side=256"), is_name("rmat:scale=4")
    (True, False)
    """
    return text.partition(":")[0] in _MODULES or bool(specification.split_plugin("matrices", text)[0])


def checked(spec: str) -> str:
    """Return a specification whose generator and keys are known and all given; nothing is made.

    Examples
    --------
    >>> checked("banded:rows=100")
    'banded:rows=100'
    """
    function, text = _function(spec)
    specification.arguments(function, spec, text)
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
    function, text = _function(spec)
    name = spec.partition(":")[0]
    with phase(f"generating {name}"):
        if name in _MODULES:
            matrix: scipy.sparse.csr_array = specification.call(function, spec, text)
            return matrix
        return _as_csr(function, specification.call_plugin(function, spec, text))


def _as_csr(function: Callable[..., Any], returned: Any) -> scipy.sparse.csr_array:
    """Return the matrix that a plug-in returned in CSR with float64 values."""
    import scipy.sparse

    is_matrix = scipy.sparse.issparse(returned) or (isinstance(returned, np.ndarray) and returned.ndim == 2)
    if not is_matrix or returned.dtype.kind not in "biuf":
        raise InputError(
            f"{plugins.described_plugin(function)} returned {described(returned)}; it must return a sparse matrix of "
            "SciPy, or an array of two dimensions, of real numbers"
        )
    return scipy.sparse.csr_array(returned, dtype=np.float64)


def _function(spec: str) -> tuple[Callable[..., Any], str]:
    """Return the function of a specification, and the text of its arguments."""
    name, _, text = spec.partition(":")
    if name in _MODULES:
        return getattr(import_module(f"cpms.sources.matrices.{_MODULES[name]}"), name), text
    return plugin(spec)


def plugin(spec: str) -> tuple[Callable[..., Any], str]:
    """Return the function of a plug-in's specification, and the text of its arguments."""
    return specification.plugin("matrices", "generator of matrices", spec, names())
