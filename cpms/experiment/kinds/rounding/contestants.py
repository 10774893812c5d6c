"""Other software that rounds arrays to a format: pychop, gfloat, and casts of NumPy and ml_dtypes.

Each function returns the work of a contestant by its name, or nothing where it lacks the format or is not installed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from cpms.base.types import Floats
from cpms.formats.fixed_point import FixedPointFormat
from cpms.formats.formats import FloatFormat, Format
from cpms.formats.microscaling import GROUP, MicroscalingFormat

Work = Callable[[], Floats]
_CASTS = {
    "fp16": "float16",
    "fp32": "float32",
    "bf16": "bfloat16",
    "e5m2": "float8_e5m2",
    "e4m3": "float8_e4m3",
    "e4m3fn": "float8_e4m3fn",
    "e2m1fn": "float4_e2m1fn",
}
"""Formats, and the data types of NumPy and ml_dtypes with the same bits."""
_OF_GFLOAT = {
    "fp16": "binary16",
    "fp32": "binary32",
    "bf16": "bfloat16",
    "e5m2": "ocp_e5m2",
    "e4m3fn": "ocp_e4m3",
    "e2m1fn": "ocp_e2m1",
}


def module(name: str) -> Any:
    """Return a package, or None where it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        return None


def by_pychop(storage: Format, values: Floats) -> dict[str, Work]:
    """Return the rounding of pychop: of floats, of fixed point, or of OCP's blocks."""
    pychop = module("pychop")
    if pychop is None:
        return {}
    pychop.backend("numpy")
    if isinstance(storage, FloatFormat) and storage.rounding == "nearest" and not storage.scaled:
        rounded = pychop.Chop(storage.exponent_bits, storage.mantissa_bits)
        return {"pychop": lambda: np.asarray(rounded(values))}
    if isinstance(storage, FixedPointFormat) and not storage.scaled:
        fixed = pychop.Chopf(storage.width - storage.fraction_bits, storage.fraction_bits)
        return {"pychop": lambda: np.asarray(fixed(values))}
    if isinstance(storage, MicroscalingFormat):
        name = storage.name.replace("-", "_")
        return {"pychop": lambda: np.asarray(pychop.mx_quantize(values, name))} if name in pychop.MX_FORMATS else {}
    return {}


def by_gfloat(storage: Format, values: Floats) -> dict[str, Work]:
    """Return the rounding of gfloat: of arrays, or of OCP's blocks one by one."""
    gfloat = module("gfloat")
    if gfloat is None:
        return {}
    known = import_module("gfloat.formats")
    if isinstance(storage, MicroscalingFormat):
        info = getattr(known, f"format_info_{_block_name(storage.name)}", None)
        blocks, scale = values.reshape(-1, GROUP), gfloat.compute_scale_amax
        if info is None:
            return {}
        return {"gfloat": lambda: np.concatenate([gfloat.quantize_block(info, block, scale) for block in blocks])}
    info = getattr(known, f"format_info_{_OF_GFLOAT.get(storage.name)}", None)
    return {} if info is None else {"gfloat": lambda: np.asarray(gfloat.round_ndarray(info, values))}


def _block_name(name: str) -> str:
    """Return what gfloat calls a format of OCP.

    Examples
    --------
    >>> _block_name("mxfp8-e4m3"), _block_name("mxfp4")
    ('mxfp8_e4m3', 'mxfp4_e2m1')
    """
    return "mxfp4_e2m1" if name == "mxfp4" else name.replace("-", "_")


def by_cast(storage: Format, values: Floats) -> dict[str, Work]:
    """Return the cast to a data type with the same bits, and back."""
    name = _CASTS.get(storage.name)
    if name is None:
        return {}
    dtype = getattr(np, name, None) or getattr(module("ml_dtypes"), name, None)
    return {} if dtype is None else {"cast": lambda: values.astype(dtype).astype(np.float64)}
