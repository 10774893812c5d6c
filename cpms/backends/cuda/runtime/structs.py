"""Packing of the structs that kernels take by value.

Launches of short solves repeat every few hundred microseconds, so a struct of `cpms.backends.cuda.kernels.structs` is
packed by one precompiled format and not field by field through NumPy. A struct of which few fields change from launch
to launch is filled once, and changed in place.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.structs import Layout
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct

_CODES = {"u8": "Q", "u4": "I", "i4": "i", "f8": "d"}


def pack(layout: Layout, **fields: Any) -> Struct:
    """Return a struct of device arrays by their addresses, numbers, other structs, and lists of these.

    Fields that are left out, or None, are 0.

    Parameters
    ----------
    layout : Layout
    **fields : device array, number, Struct, list or None

    Examples
    --------
    >>> from cpms.backends.cuda.kernels.structs import POWER_REQUEST
    >>> packed = pack(POWER_REQUEST, tolerance=1e-10, max_sweeps=100).packed
    >>> np.frombuffer(packed, POWER_REQUEST.dtype).tolist()
    [(1e-10, 0, 100)]
    """
    form, zeros = _form(layout)
    if not fields.keys() <= zeros.keys():
        unknown = ", ".join(sorted(fields.keys() - zeros.keys()))
        raise TypeError(f"struct {layout.name} has no field {unknown}; it has {', '.join(zeros)}")
    values: list[Any] = []
    held: list[Any] = []
    for name, zero in zeros.items():
        value = fields.get(name)
        if value is None:
            values += zero
        elif isinstance(value, list):
            values += [_packed(each, held) for each in value]
        else:
            values.append(_packed(value, held))
    return Struct(form.pack(*values), tuple(held))


def filled(layout: Layout, **fields: Any) -> Any:
    """Return a struct as an array of shape (), of device arrays by their addresses and of numbers.

    Fields that are left out, or None, are 0. The arrays must outlive the launches.

    Examples
    --------
    >>> from cpms.backends.cuda.kernels.structs import POWER_REQUEST
    >>> filled(POWER_REQUEST, max_sweeps=100, norm=None).tolist()
    (0.0, 0, 100)
    """
    made = np.zeros((), layout.dtype)
    for name, value in fields.items():
        if value is not None:
            made[name] = value if np.isscalar(value) else current().address(value)
    return made


def _packed(value: Any, held: list[Any]) -> Any:
    """Return a value as the format takes it; append what must outlive the launch to ``held``."""
    if isinstance(value, (int, float, np.generic)):
        return value
    if isinstance(value, Struct):
        held.extend(value.held)
        return value.packed
    held.append(value)
    return current().address(value)


@cache
def _form(layout: Layout) -> tuple[struct.Struct, dict[str, list[Any]]]:
    """Return the format of a struct, and the zeros of each field."""
    codes, zeros, end = "=", {}, 0
    for name, (dtype, offset, *_) in (layout.dtype.fields or {}).items():
        element, shape = dtype.subdtype or (dtype, ())
        count = int(np.prod(shape, dtype=int))
        code = f"{element.itemsize}s" if element.fields else _CODES[element.str[1:]]
        codes += f"{offset - end}x" + count * code
        zeros[name] = count * [bytes(element.itemsize) if element.fields else 0]
        end = offset + dtype.itemsize
    return struct.Struct(f"{codes}{layout.dtype.itemsize - end}x"), zeros
