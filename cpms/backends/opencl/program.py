"""OpenCL contexts, queues and programs, built once for each device, type of values and type of indices."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from cpms.base import package_data, work_clock
from cpms.base.errors import UnavailableError

FILES = ("types.cl", "atomic_add.cl", "begin.cl", "edges.cl", "rows.cl", "norms.cl", "scale.cl")
WIDTH = 64
"""The number of work-items of a reduction."""
PART_ROWS = 4096
"""The number of nodes of a reduction."""


@dataclass(frozen=True)
class Types:
    """The types of a program, and its other build options.

    Parameters
    ----------
    real : str
        Type of vectors and values: ``double`` or ``float``.
    sums : str
        Type of sums over nodes and of distributions: ``double`` or ``float``.
    index : str
        Type of numbers of edges: ``uint`` or ``ulong``.
    add : str
        Function that adds an edge's contribution; others than ``add_atomically`` are for experiments alone.
    """

    real: str
    sums: str
    index: str
    add: str = "add_atomically"

    @property
    def real_dtype(self) -> Any:
        """The NumPy type of vectors."""
        return np.dtype("f8" if self.real == "double" else "f4")

    @property
    def sums_dtype(self) -> Any:
        """The NumPy type of sums."""
        return np.dtype("f8" if self.sums == "double" else "f4")

    @property
    def index_dtype(self) -> Any:
        """The NumPy type of edge indices."""
        return np.dtype("u4" if self.index == "uint" else "u8")

    def options(self, extensions: str) -> list[str]:
        """Return the build options for a device with these extensions.

        Examples
        --------
        >>> Types("float", "float", "uint").options("cl_ext_float_atomics")[-1]
        '-cl-std=CL3.0'
        """
        defined = [f"REAL={self.real}", f"SUM={self.sums}", f"INDEX={self.index}", f"ADD={self.add}"]
        defined += [f"WIDTH={WIDTH}", f"PART={PART_ROWS}"]
        defined += ["DOUBLES"] if "double" in (self.real, self.sums) else []
        defined += ["REAL_IS_DOUBLE"] if self.real == "double" else []
        # Before OpenCL C 3.0 compilers do not say which atomic sums of floats they have.
        newest = ["-cl-std=CL3.0"] if "cl_ext_float_atomics" in extensions.split() else []
        return [f"-D{each}" for each in defined] + newest


@dataclass(frozen=True, eq=False)
class Program:
    """A built program with its context and queue; kernels are not thread-safe."""

    device: Any
    context: Any
    queue: Any
    types: Types
    built: Any
    _kernels: dict[str, Any] = field(default_factory=dict)

    def run(self, name: str, items: int, work_group: int | None, *arguments: Any) -> None:
        """Queue a kernel over at least ``items`` work-items, none if that is 0."""
        import pyopencl

        if items == 0:
            return
        size = items if work_group is None else -(-items // work_group) * work_group
        local = None if work_group is None else (work_group,)
        if name not in self._kernels:
            self._kernels[name] = pyopencl.Kernel(self.built, name)
        self._kernels[name](self.queue, (size,), local, *arguments)

    def upload(self, values: Any) -> Any:
        """Return a buffer with the values of an array; of 1 byte for an empty array."""
        import pyopencl

        flags = pyopencl.mem_flags
        if values.nbytes == 0:
            return pyopencl.Buffer(self.context, flags.READ_WRITE, 1)
        return pyopencl.Buffer(
            self.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=np.ascontiguousarray(values)
        )

    def allocate(self, count: int, dtype: Any) -> Any:
        """Return an uninitialised buffer."""
        import pyopencl

        return pyopencl.Buffer(self.context, pyopencl.mem_flags.READ_WRITE, max(count, 1) * dtype.itemsize)

    def download(self, buffer: Any, count: int, dtype: Any) -> Any:
        """Wait for the queue, and return the first values of a buffer."""
        import pyopencl

        values = np.empty(count, dtype)
        pyopencl.enqueue_copy(self.queue, values, buffer)
        return values

    def copy(self, source: Any, target: Any) -> None:
        """Queue a copy of a buffer into another."""
        import pyopencl

        pyopencl.enqueue_copy(self.queue, target, source)


def source() -> str:
    """Return the text of all kernels; a compiler's messages name file and line.

    Examples
    --------
    >>> source().startswith('#line 1 "types.cl"')
    True
    """
    folder = package_data.folder("kernels") / "opencl"
    return "".join(f'#line 1 "{name}"\n{(folder / name).read_text(encoding="utf-8")}\n' for name in FILES)


def program(device: Any, types: Types) -> Program:
    """Return the program for a device, compiled at the first call.

    Raises
    ------
    UnavailableError
        If the device's compiler refuses it; the text holds its log.
    """
    context, queue = _context(device)
    return Program(device, context, queue, types, _built(device, types, source()))


@lru_cache(maxsize=32)
def _context(device: Any) -> tuple[Any, Any]:
    import pyopencl

    context = pyopencl.Context([device])
    return context, pyopencl.CommandQueue(context, device)


@lru_cache(maxsize=32)
def _built(device: Any, types: Types, text: str) -> Any:
    return build(_context(device)[0], text, types.options(device.extensions))


def build(context: Any, text: str, options: list[str]) -> Any:
    """Return a program built in a context.

    Raises
    ------
    UnavailableError
        If the compiler refuses it; the text holds the compiler's log.
    """
    import pyopencl

    try:
        with work_clock.compiling("OpenCL program"), warnings.catch_warnings():
            # Compilers remark on programs that they accept.
            warnings.simplefilter("ignore", pyopencl.CompilerWarning)
            return pyopencl.Program(context, text).build(options)
    except pyopencl.RuntimeError as error:
        raise UnavailableError(f"the OpenCL compiler refuses the kernels: {error}") from None
