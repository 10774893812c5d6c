"""Exchange with other array libraries: their arrays as ones of NumPy or CuPy, and results as arrays of theirs.

DLPack and the CUDA array interface share memory, so values are copied only to change their type or their memory.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError
from cpms.base.real_arrays import plain_array, require_exact
from cpms.base.validation import require_real, shortened
from cpms.storage.block_float import STORED
from cpms.storage.device import codec, copy_to_host, emulated, on_device, to_device

Memory = Literal["main", "device"]


def received(name: str, values: Any, memory: Memory) -> tuple[Any, Callable[[Any], Any]]:
    """Return an array in the memory asked for, and a function that converts results to the caller's library.

    Arrays of float32 keep their type, all others become float64. Sequences count as NumPy arrays, and results of
    products with stored vectors are plain arrays of the memory where these lie.

    Parameters
    ----------
    name : str
        The name of the values in error messages.
    values : array_like, array in device memory, any object with ``__dlpack__``, or stored array
    memory : {"main", "device"}

    Raises
    ------
    InputError
        If the values are complex, masked, no numbers, or integers that float64 rounds.

    Examples
    --------
    >>> array, back = received("x", [1, 2], "main")
    >>> array, back(array) is array
    (array([1., 2.]), True)
    """
    if isinstance(values, STORED):
        shape = getattr(values, "shape", ())
        if len(shape) > 1:
            raise InputError(f"{name} is stored in shape {shape}; products take stored vectors of one dimension")
        lies = "device" if on_device(values.memory) else "main"
        if lies != memory and not (memory == "device" and emulated()):
            raise InputError(f"{name} is stored in {lies} memory, and the matrix in {memory} memory; encode it there")
        return values, _same
    require_real(name, values)
    if on_device(values):
        array = codec().as_device_array(values)
        back = _same if type(values) is type(array) else _importer(values)
        real = _real(name, array)
        return (real, back) if memory == "device" else (copy_to_host(real), lambda found: back(to_device(found)))
    back = _same
    if _is_foreign(values):
        back = _importer(values)
        values = _imported(name, values)
    real = _real(name, plain_array(name, values))
    return (real, back) if memory == "main" else (to_device(real), lambda found: back(copy_to_host(found)))


def in_main_memory(name: str, values: Any) -> npt.NDArray[Any]:
    """Return an array of any library, or a sequence, as a NumPy array of any type; one in main memory is not copied.

    Raises
    ------
    InputError
        If the values are no rectangular array, or their library does not give them away.

    Examples
    --------
    >>> in_main_memory("the matrix", [[1, 2]]).shape
    (1, 2)
    """
    if on_device(values):
        found: npt.NDArray[Any] = copy_to_host(codec().as_device_array(values))
        return found
    return plain_array(name, _imported(name, values) if _is_foreign(values) else values)


def _is_foreign(values: Any) -> bool:
    return hasattr(values, "__dlpack__") and not isinstance(values, np.ndarray | np.generic)


def _imported(name: str, values: Any) -> Any:
    try:
        return np.from_dlpack(values)
    except Exception as error:  # noqa: BLE001 - objects of others raise anything
        reason = shortened(str(error)) or type(error).__name__
        raise InputError(f"{name} cannot be read by DLPack ({reason}); give an array of NumPy or CuPy") from None


def _same(found: Any) -> Any:
    return found


def _importer(values: Any) -> Callable[[Any], Any]:
    """Return the ``from_dlpack`` of the library of ``values``, which makes arrays that share memory."""
    if hasattr(values, "__array_namespace__"):
        return getattr(values.__array_namespace__(), "from_dlpack", _same)
    return getattr(import_module(type(values).__module__.split(".")[0]), "from_dlpack", _same)


def _real(name: str, array: Any) -> Any:
    if array.dtype.kind == "c":
        raise InputError(f"{name} holds complex numbers; give real ones")
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise InputError(f"{name} holds values of type {array.dtype}; give float64 or float32")
    require_exact(name, array)
    return array if array.dtype in (np.float64, np.float32) else array.astype(np.float64)
