"""Kernels compiled and run on a GPU through CuPy, which keeps the binaries on disk."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, wraps
from importlib import import_module
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels import template as kernels
from cpms.backends.cuda.kernels.launch_shape import SHAPES, Shape
from cpms.backends.cuda.kernels.template import Variant
from cpms.backends.cuda.runtime.backend import NOTED, NOTES, RESIDENT_SHARED_BYTES, THREADS, Backend, Floats
from cpms.backends.cuda.runtime.kernel_arguments import Parameters
from cpms.backends.cuda.runtime.pinned_transfer import LEAST_BYTES, Staging
from cpms.base import work_clock
from cpms.base.caches import redirect
from cpms.base.errors import CpmsError, UnavailableError, UnsupportedError

OPTIONS = ("-std=c++17",)
_SHARED_PERCENT = {"spmv_csr_balanced": 40, "reduce_by_key": 40, "batch_inner_sweep": 28}
"""Share of the memory beside each multiprocessor that a kernel needs as shared memory; caches get the rest."""


def missing() -> str | None:
    """Return what this machine lacks to run CUDA kernels, as a sentence; None if nothing.

    Examples
    --------
    >>> missing() is None or missing().endswith(".")
    True
    """
    try:
        import cupy
    except ImportError:
        return "CuPy is not installed; install cpms[cuda13] or cpms[cuda12]."
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy finds no CUDA device ({error})."
    return None if count else "there is no CUDA device."


def _resident_each(attributes: dict[str, int], shape: Shape) -> int:
    """Return how many blocks of a shape a multiprocessor holds, by what each of them takes.

    Examples
    --------
    >>> _resident_each({"MaxSharedMemoryPerMultiprocessor": 65536}, Shape(384, 2))
    1
    """
    limits = {
        "MaxRegistersPerMultiprocessor": shape.registers * shape.threads,
        "MaxSharedMemoryPerMultiprocessor": RESIDENT_SHARED_BYTES,
        "MaxThreadsPerMultiProcessor": shape.threads,
    }
    held = [attributes[name] // taken for name, taken in limits.items() if name in attributes]
    return max(1, min([shape.each, *held]))


def _percent_shared(attributes: dict[str, int], shape: Shape, taken: int) -> int:
    """Return the share of such memory that blocks of a shape need which take so many bytes each: caches get the rest.

    Examples
    --------
    >>> hopper = {"MaxSharedMemoryPerMultiprocessor": 233472, "ReservedSharedMemoryPerBlock": 1024}
    >>> _percent_shared(hopper, Shape(384, 2), 29120)
    26
    """
    most, reserved = attributes["MaxSharedMemoryPerMultiprocessor"], attributes.get("ReservedSharedMemoryPerBlock", 0)
    return min(100, -(-100 * shape.each * (taken + reserved) // most))


def count_what_cupy_compiles(compiler: Any) -> None:
    """Stop the clock of work while CuPy compiles its own array functions.

    They all go by one function of its module ``cupy.cuda.compiler``, which has no public hook; where a later CuPy has
    no such function, only our own kernels are counted.
    """
    given = getattr(compiler, "_compile_module_with_cache", None)
    if given is None or hasattr(given, "__wrapped__"):
        return

    @wraps(given)
    def counted(*arguments: Any, **options: Any) -> Any:
        with work_clock.compiling():
            return given(*arguments, **options)

    compiler._compile_module_with_cache = counted


class _OfThread(threading.local):
    """Streams, events and pinned memory of a thread, which another one neither captures nor waits for."""

    def __init__(self) -> None:
        cuda, pinned = import_module("cupy").cuda, import_module("cupyx").empty_pinned
        # Libraries keep the last stream they were given, so it must not go away.
        self.capturing, self.second = (cuda.Stream(non_blocking=True) for _ in range(2))
        self.forked, self.joined = (cuda.Event(disable_timing=True) for _ in range(2))
        # Copies into pinned memory need no staging of their own.
        rooms = [(pinned(NOTED, np.float64), cuda.Event(disable_timing=True)) for _ in range(NOTES)]
        self.rooms = itertools.cycle(rooms)
        self._parameters: dict[str, Parameters] = {}

    def parameters(self, symbol: str, given: tuple[Any, ...]) -> int:
        """Return where a launch finds what a kernel takes; the driver has copied that once it returns."""
        taken = self._parameters.get(symbol)
        if taken is None:
            taken = self._parameters[symbol] = Parameters(given)
        taken.put(given)
        return taken.address

    @cached_property
    def staging(self) -> Staging:
        """For large arrays."""
        return Staging(import_module("cupy"), import_module("cupyx").empty_pinned)


class CudaBackend(Backend):
    """CuPy's current device, and the current stream of each thread.

    Raises
    ------
    UnavailableError
        If CuPy or a device is missing.
    """

    def __init__(self) -> None:
        reason = missing()
        if reason:
            raise UnavailableError(f"CUDA kernels cannot run here: {reason}")
        redirect("cupy")
        import cupy

        count_what_cupy_compiles(cupy.cuda.compiler)
        self.arrays = cupy
        self.current_device: Callable[[], int] = cupy.cuda.runtime.getDevice
        self.out_of_memory = cupy.cuda.memory.OutOfMemoryError
        self._attributes = cupy.cuda.Device().attributes
        self.processors = self._attributes["MultiProcessorCount"]
        self.cache_bytes = self._attributes["L2CacheSize"]
        # Kilohertz, twice a beat, and bits.
        rate, width = (self._attributes.get(name, 0) for name in ("MemoryClockRate", "GlobalMemoryBusWidth"))
        self.memory_bandwidth = 2e3 * rate * width / 8
        self.most_shared = self._attributes.get("MaxSharedMemoryPerBlockOptin", 0) - RESIDENT_SHARED_BYTES
        self._functions: dict[tuple[int, str], Any] = {}
        self._residents: dict[tuple[int, str], tuple[Any, int]] = {}
        self._own = _OfThread()

    def compile(self, variants: Iterable[Variant]) -> None:
        """Compile what is not ready yet, as one module."""
        device = self.current_device()
        wanted = [v for v in dict.fromkeys(variants) if (device, v.symbol) not in self._functions]
        if not wanted:
            return
        with work_clock.compiling():
            self._compile(wanted, device)

    def _compile(self, wanted: list[Variant], device: int) -> None:
        module = self.arrays.RawModule(code=kernels.program(wanted), options=OPTIONS)
        try:
            module.compile()
        except self.arrays.cuda.compiler.CompileException as error:
            names = ", ".join(variant.symbol for variant in wanted[:3])
            raise CpmsError(f"CUDA kernels {names} … do not compile:\n{error}") from None
        for variant in wanted:
            function = module.get_function(variant.symbol)
            if variant.shared:
                function.max_dynamic_shared_size_bytes = variant.shared
            if variant.kernel in _SHARED_PERCENT:
                function.preferred_shared_memory_carveout = _SHARED_PERCENT[variant.kernel]
            elif variant.shape in SHAPES.values():
                taken = function.shared_size_bytes + variant.shared
                function.preferred_shared_memory_carveout = _percent_shared(self._attributes, variant.shape, taken)
            self._functions[device, variant.symbol] = function

    def run(self, variant: Variant, blocks: int, arguments: tuple[Any, ...]) -> None:
        """Launch on the current stream."""
        key = (self.current_device(), variant.symbol)
        if key not in self._functions:
            self.compile([variant])
        where = max(1, blocks), 1, 1, THREADS, 1, 1, 0, self.arrays.cuda.get_current_stream().ptr
        taken = self._own.parameters(variant.symbol, arguments)
        self.arrays.cuda.driver.launchKernel(self._functions[key].kernel.ptr, *where, taken, 0)

    def captured(self, work: Callable[[], None]) -> Any | None:
        """Return the launches of ``work`` as a CUDA graph; None if a library refuses."""
        graph, stream = None, self._own.capturing
        with stream:
            stream.begin_capture()
            try:
                work()
                graph = stream.end_capture()
            except RuntimeError:
                _abandon(stream)
            except BaseException:
                _abandon(stream)
                raise
            else:
                graph.upload(stream)
        return graph

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Fork by an event; within a capture, the second stream is captured too."""
        own = self._own
        own.forked.record(self.arrays.cuda.get_current_stream())
        own.second.wait_event(own.forked)
        with own.second:
            yield
        own.joined.record(own.second)

    def rejoin(self) -> None:
        """Join by an event."""
        self.arrays.cuda.get_current_stream().wait_event(self._own.joined)

    def synchronize(self) -> None:
        """Wait for the current stream."""
        self.arrays.cuda.get_current_stream().synchronize()

    def resident_blocks(self, shape: Shape) -> int:
        """Return what all multiprocessors hold."""
        return self.processors * _resident_each(self._attributes, shape)

    def most_blocks(self, variant: Variant) -> int:
        """Return what the driver says, by registers and shared memory of the kernel as it was compiled."""
        return self._resident(variant)[1]

    def run_resident(self, variant: Variant, blocks: int, arguments: tuple[Any, ...]) -> None:
        """Launch cooperatively."""
        function, most = self._resident(variant)
        if blocks > most:
            raise UnsupportedError(
                f"kernel {variant.kernel} is to run in {blocks} blocks at once, but this GPU holds {most} of them; "
                "use engine cpu"
            )
        threads, stream = variant.shape.threads, self.arrays.cuda.get_current_stream().ptr
        where = blocks, 1, 1, threads, 1, 1, variant.shared, stream
        taken = self._own.parameters(variant.symbol, arguments)
        self.arrays.cuda.driver.launchCooperativeKernel(function.ptr, *where, taken)

    def _resident(self, variant: Variant) -> tuple[Any, int]:
        """Return a kernel that stays, and how many blocks of it the device holds."""
        key = (self.current_device(), variant.symbol)
        if key not in self._residents:
            self.compile([variant])
            function = self._functions[key].kernel
            held = self.arrays.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor
            each = held(function.ptr, variant.shape.threads, variant.shared)
            self._residents[key] = function, each * self.processors
        return self._residents[key]

    def upload(self, values: Any) -> Any:
        """Copy in parts if that pays."""
        if isinstance(values, np.ndarray) and values.nbytes >= LEAST_BYTES:
            return self._own.staging.to_device(values)
        return self.arrays.asarray(values)

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """Copy and wait."""
        if array.nbytes >= LEAST_BYTES:
            return self._own.staging.to_host(array)
        host: np.ndarray[Any, Any] = self.arrays.asnumpy(array)
        return host

    def note(self, numbers: Any) -> Callable[[], Floats]:
        """Copy into pinned memory, in turn into each of some rooms, on the current stream."""
        room, copied = next(self._own.rooms)
        runtime, stream = self.arrays.cuda.runtime, self.arrays.cuda.get_current_stream()
        to_host = runtime.memcpyDeviceToHost
        runtime.memcpyAsync(room.ctypes.data, numbers.data.ptr, numbers.nbytes, to_host, stream.ptr)
        copied.record(stream)

        def noted() -> Floats:
            copied.synchronize()
            found: Floats = room.view(numbers.dtype)[: numbers.size].copy()
            return found

        return noted

    def clear(self, array: Any) -> None:
        """Fill on the current stream."""
        array.data.memset_async(0, array.nbytes)

    def address(self, array: Any) -> int:
        """Return the device pointer."""
        return int(array.data.ptr)

    def free_bytes(self) -> int:
        """Return what the driver and CuPy's pool have free."""
        free, _ = self.arrays.cuda.runtime.memGetInfo()
        return int(free) + int(self.arrays.get_default_memory_pool().free_bytes())


def _abandon(stream: Any) -> None:
    """End a capture in which something failed."""
    with suppress(RuntimeError):
        stream.end_capture()


_of_devices: dict[int, CudaBackend] = {}


def of_device() -> CudaBackend:
    """Return the backend of CuPy's current device.

    Raises
    ------
    UnavailableError
        If CuPy or a device is missing.
    """
    if _of_devices:  # Each launch comes by here: to look up CuPy again would take longer than all else.
        device = next(iter(_of_devices.values())).current_device()
        if device in _of_devices:
            return _of_devices[device]
    made = CudaBackend()
    _of_devices[made.current_device()] = made
    return made
