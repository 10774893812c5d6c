"""Access to device memory: detection of device arrays, and the only use of device code below the backends.

Arrays are recognised by the CUDA array interface and by DLPack. Device code is loaded at the first device array, so a
machine without a GPU never loads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from cpms.base.device_modules import device_module
from cpms.base.errors import UnavailableError
from cpms.base.types import Floats


def host_float64(values: Any) -> Any:
    """Return a float64 copy in main memory of a device vector; all other values are returned as they are.

    Examples
    --------
    >>> host_float64([1, 2])
    [1, 2]
    """
    if not on_device(values):
        return values
    return copy_to_host(codec().as_float64(values))


def copy_to_host(values: Any) -> Floats:
    """Return a host copy of a device array, of its type and shape."""
    found: Floats = device_module("current").current().to_host(values)
    return found


def to_host(values: Any) -> Any:
    """Return values in main memory, without a copy if they lie there."""
    return copy_to_host(values) if on_device(values) else values


def to_device(values: Any) -> Any:
    """Return values on the current device, without a copy if they lie there."""
    return device_module("current").current().upload(values)


def uniform_on_device(length: int) -> Floats:
    """Return the uniform distribution over so many elements in device memory, float64."""
    backend = device_module("current").current()
    made: Floats = backend.arrays.full(length, 1.0 / length, np.float64)
    return made


def free_unused() -> None:
    """Give memory of the pool that no array uses back to the device."""
    device_module("current").current().free_unused()


def emulated() -> bool:
    """Return whether device code runs in emulation on the processor, as in tests, where device arrays are NumPy's."""
    return bool(device_module("current").chosen())


def codec() -> Any:
    """Return the module that encodes and decodes arrays in device memory."""
    return device_module("codec")


def rounding() -> Any:
    """Return the module that rounds arrays in device memory to a format."""
    return device_module("rounding")


def block_codec() -> Any:
    """Return the module that encodes and decodes block floating point in device memory."""
    return device_module("block_codec")


def device_graphs() -> Any:
    """Return the module of graphs in device memory."""
    return device_module("graphs")


def launch_topk() -> Any:
    """Return the module that finds the largest values of arrays in device memory."""
    return device_module("topk")


@contextmanager
def failures_explained(work: str) -> Iterator[None]:
    """Turn an error of CUDA's driver or runtime into an `UnavailableError`: what the device held is lost.

    Lack of device memory is a ``MemoryError``, which passes.

    Examples
    --------
    >>> with failures_explained("solving"):
    ...     pass
    """
    try:
        yield
    except RuntimeError as error:
        if type(error).__name__ not in _FAILURES:
            raise
        raise UnavailableError(
            f"the device failed while {work} ({error}), and what it held is lost; start again in a new process, or use "
            "engine='cpu'"
        ) from error


_FAILURES = ("CUDARuntimeError", "CUDADriverError")
"""Names of CuPy's errors, which is not imported for them."""
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
    try:
        return device is not None and int(device()[0]) == _DLPACK_CUDA
    except Exception:  # noqa: BLE001 - objects of others raise anything; they say why when they are read
        return False


def may_share_memory(first: Any, second: Any) -> bool:
    """Return whether two arrays of NumPy or CuPy may have memory in common.

    Examples
    --------
    >>> values = np.zeros(4)
    >>> may_share_memory(values[:3], values[2:]), may_share_memory(values, values.copy())
    (True, False)
    """
    if on_device(first) != on_device(second):
        return False
    arrays = device_module("current").current().arrays if on_device(first) else np
    return bool(arrays.may_share_memory(first, second))
