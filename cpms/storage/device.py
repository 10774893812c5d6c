"""Arrays brought to main memory from wherever they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.base.real_arrays import Floats
from cpms.base.types import Floats


def in_main_memory(values: Any) -> Any:
    """Return what is there already as it is, and a device array's copy.

    Examples
    --------
    >>> in_main_memory([1, 2])
    [1, 2]
    """
    if not on_device(values):
        return values
    from cpms.backends.cuda.arrays import codec

    return to_host(codec.doubles(values))


def to_host(values: Any) -> Floats:
    """Return a copy of a device array."""
    from cpms.backends.cuda.runtime.current import current

    return current().to_host(values)


_DLPACK_CUDA = 2


def on_device(values: object) -> bool:
    """Return whether an object's memory lies on a CUDA device.

    Examples
    --------
    >>> on_device(np.zeros(3))
    False
    """
    if isinstance(values, np.ndarray):
        return False
    if hasattr(values, "__cuda_array_interface__"):
        return True
    # 2 is DLPack's kDLCUDA; NumPy arrays answer 1, the processor.
    device = getattr(values, "__dlpack_device__", None)
    return device is not None and int(device()[0]) == _DLPACK_CUDA
