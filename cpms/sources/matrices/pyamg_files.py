"""Real matrices that the package pyamg ships: small ones of finite elements, some of them unstructured."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cpms.base.errors import InputError, UnavailableError
from cpms.base.text.suggestions import unknown

if TYPE_CHECKING:
    import scipy.sparse

FILES = ("airfoil", "bar", "knot", "local_disc_galerkin_diffusion", "recirc_flow", "unit_cube", "unit_square")
"""Those of real values."""


def pyamg(name: str) -> scipy.sparse.csr_array:
    """Return a matrix of pyamg's gallery, as ``pyamg:airfoil``.

    Raises
    ------
    UnavailableError
        If pyamg is not installed.
    """
    import scipy.sparse

    if name not in FILES:
        raise InputError(unknown("matrix of pyamg", name, list(FILES)))
    try:
        gallery: Any = import_module("pyamg.gallery")
    except ImportError:
        raise UnavailableError("the matrices of pyamg come with it: pip install pyamg") from None
    return scipy.sparse.csr_array(gallery.load_example(name)["A"])
