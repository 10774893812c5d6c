"""Kernel templates of Krylov methods: passes over vectors between two products."""

from __future__ import annotations

from cpms.backends.cuda.kernels.template import Variant
from cpms.formats.block_float import BFP16
from cpms.formats.codes import VectorFormat
from cpms.formats.formats import FP32

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


def cg_pass(name: str, storage: VectorFormat | None) -> Variant:
    """Return a pass of conjugate gradients: patterns, curvature, update, direction, solution or load.

    Examples
    --------
    >>> cg_pass("update", FP32).symbol
    'cg_update__fp32'
    """
    short, cpp = _TYPES[storage]
    return Variant(f"cg_{name}", (short,), (cpp,))


def cg_passes(storage: VectorFormat | None) -> list[Variant]:
    """Return all passes for vectors in a format."""
    return [cg_pass(name, storage) for name in ("patterns", "curvature", "update", "direction", "solution", "load")]
