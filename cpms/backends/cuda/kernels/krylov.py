"""Kernel templates of Krylov methods: passes over vectors between two products."""

from __future__ import annotations

from typing import Literal

from cpms.backends.cuda.kernels.product import type_of
from cpms.backends.cuda.kernels.template import WHOLE_VALUES, Variant, storage_type
from cpms.formats.block_float import BFP16, BlockFloatFormat
from cpms.formats.codes import VectorFormat
from cpms.formats.formats import FP32, FP64, SegmentFormat

_TYPES: dict[VectorFormat | None, tuple[str, str]] = {
    None: ("fp64", "double"),
    FP32: ("fp32", "float"),
    BFP16: ("bfp16", "cpms::BlockFloat<16>"),
}


def fits(storage: VectorFormat | None) -> bool:
    """Return whether there are passes for vectors in a format; None is float64.

    Examples
    --------
    >>> fits(BFP16), fits(None)
    (True, True)
    """
    return storage in _TYPES


Preconditioning = Literal["none", "diagonal", "applied"]
"""Where passes have z = M r from: r itself, r and the diagonal of M, or a vector that was computed before."""
_PRECONDITIONERS: dict[Preconditioning, str] = {
    "none": "cpms::NoPreconditioner",
    "diagonal": "cpms::Diagonal",
    "applied": "cpms::Applied",
}
_OF_Z = ("update", "direction", "load")
"""Passes that read z."""


def cg_pass(name: str, storage: VectorFormat | None, preconditioning: Preconditioning = "none") -> Variant:
    """Return a pass of conjugate gradients: patterns, curvature, applied, update, direction, solution or load.

    Examples
    --------
    >>> cg_pass("update", FP32, "diagonal").symbol, cg_pass("solution", FP32, "diagonal").symbol
    ('cg_update__fp32__diagonal', 'cg_solution__fp32')
    """
    short, cpp = _TYPES[storage]
    if name == "update" and preconditioning == "applied":
        preconditioning = "none"  # z is not known yet.
    if name not in _OF_Z:
        return Variant(f"cg_{name}", (short,), (cpp,))
    return Variant(f"cg_{name}", (short, preconditioning), (cpp, _PRECONDITIONERS[preconditioning]))


def cg_passes(storage: VectorFormat | None, preconditioning: Preconditioning = "none") -> list[Variant]:
    """Return all passes for vectors in a format."""
    names = ["patterns", "curvature", "update", "direction", "solution", "load"]
    names += ["applied"] if preconditioning == "applied" else []
    return [cg_pass(name, storage, preconditioning) for name in names]


def sweep_pass(storage: VectorFormat | None) -> Variant:
    """Return the pass of a sweep whose steps are stored in a format.

    Examples
    --------
    >>> sweep_pass(BFP16).symbol
    'sweep_pass__bfp16'
    """
    short, cpp = _TYPES[storage]
    return Variant("sweep_pass", (short,), (cpp,))


def arnoldi_fits(formats: tuple[VectorFormat | None, ...]) -> bool:
    """Return whether there are kernels for a basis in these formats.

    Examples
    --------
    >>> from cpms.formats.formats import FP16
    >>> arnoldi_fits((None, BFP16)), arnoldi_fits((FP16,))
    (True, False)
    """
    return all(
        each in (None, FP32)
        or isinstance(each, BlockFloatFormat)
        or (isinstance(each, SegmentFormat) and WHOLE_VALUES % (each.block or WHOLE_VALUES) == 0)
        for each in formats
    )


def arnoldi_pass(name: str, storage: VectorFormat | None, segments: int) -> Variant:
    """Return a pass over vectors of one format: dots, combine or store.

    Examples
    --------
    >>> arnoldi_pass("dots", BFP16, 1).symbol
    'arnoldi_dots__bfp16__1'
    """
    known = FP64 if storage is None else storage
    short, cpp = storage_type(known, whole=True) if isinstance(known, SegmentFormat) else type_of(known)
    return Variant(f"arnoldi_{name}", (short, f"{segments}"), (cpp, f"{segments}"))


ARNOLDI_PARTS = Variant("arnoldi_parts")
