"""The backend of a GPU: kernels compiled by NVRTC and launched through CuPy, which caches the binaries on disk.

Arguments are packed once a kernel and thread and launched by the driver directly, since CuPy's own launch path costs
more than a small sweep. Persistent kernels are launched cooperatively: all blocks are resident, or the launch fails.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, wraps
from importlib import import_module
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels import cubins
from cpms.backends.cuda.kernels import template as kernels
from cpms.backends.cuda.kernels.cubins import OPTIONS
from cpms.backends.cuda.kernels.launch_shape import SHAPES, Shape
from cpms.backends.cuda.kernels.template import Variant
from cpms.backends.cuda.kernels.units import Unit, units_of
from cpms.backends.cuda.runtime.availability import missing as missing
from cpms.backends.cuda.runtime.backend import (
    ASYNC_COPIES,
    MAX_ASYNC_NUMBERS,
    PERSISTENT_SHARED_BYTES,
    THREADS,
    Backend,
)
from cpms.backends.cuda.runtime.kernel_arguments import KernelArguments
from cpms.backends.cuda.runtime.pinned_transfer import MIN_BYTES, PinnedTransfer
from cpms.base import threads, work_clock
from cpms.base.caches import redirect
from cpms.base.errors import CpmsError, UnavailableError, UnsupportedError
from cpms.base.types import Floats

_SHARED_PERCENT = {"spmv_csr_balanced": 40, "reduce_by_key": 40, "batch_inner_sweep": 28}
"""Percentage of a multiprocessor's on-chip memory that a kernel needs as shared memory; the cache has the rest."""


def _blocks_per_processor(attributes: dict[str, int], shape: Shape) -> int:
    """Return how many blocks of a shape a multiprocessor holds, by registers, threads and shared memory.

    Examples
    --------
    >>> _blocks_per_processor({"MaxSharedMemoryPerMultiprocessor": 65536}, Shape(384, 2))
    1
    """
    limits = {
        "MaxRegistersPerMultiprocessor": shape.registers * shape.threads,
        "MaxSharedMemoryPerMultiprocessor": PERSISTENT_SHARED_BYTES,
        "MaxThreadsPerMultiProcessor": shape.threads,
    }
    fitting = [attributes[name] // used for name, used in limits.items() if name in attributes]
    return max(1, min([shape.blocks_per_processor, *fitting]))


def _percent_shared(attributes: dict[str, int], shape: Shape, used: int) -> int:
    """Return the percentage of on-chip memory for blocks of a shape that use so many bytes of shared memory each.

    Examples
    --------
    >>> hopper = {"MaxSharedMemoryPerMultiprocessor": 233472, "ReservedSharedMemoryPerBlock": 1024}
    >>> _percent_shared(hopper, Shape(384, 2), 29120)
    26
    """
    total, reserved = attributes["MaxSharedMemoryPerMultiprocessor"], attributes.get("ReservedSharedMemoryPerBlock", 0)
    return min(100, -(-100 * shape.blocks_per_processor * (used + reserved) // total))


_STAGED_BYTES = 1 << 16
"""Bytes of pageable memory that the driver copies aside before an asynchronous copy returns."""


def exclude_cupy_compilation(compiler: Any) -> None:
    """Stop the clock of work while CuPy compiles its own array functions.

    One function of its module ``cupy.cuda.compiler`` compiles them all, and has no public hook; where a later CuPy has
    no such function, the clock stops for our own kernels alone.
    """
    given = getattr(compiler, "_compile_module_with_cache", None)
    if given is None or hasattr(given, "__wrapped__"):
        return

    @wraps(given)
    def timed(*arguments: Any, **options: Any) -> Any:
        with work_clock.compiling():
            return given(*arguments, **options)

    compiler._compile_module_with_cache = timed


class _ThreadState(threading.local):
    """Streams, events and pinned memory of a thread; no other thread captures them or waits for them."""

    def __init__(self) -> None:
        cuda, pinned = import_module("cupy").cuda, import_module("cupyx").empty_pinned
        # Libraries hold the last stream that they were given, so it must stay alive.
        self.capturing, self.second = (cuda.Stream(non_blocking=True) for _ in range(2))
        self.forked, self.joined = (cuda.Event(disable_timing=True) for _ in range(2))
        # The driver copies into pinned memory asynchronously.
        buffers = [
            (pinned(MAX_ASYNC_NUMBERS, np.float64), cuda.Event(disable_timing=True)) for _ in range(ASYNC_COPIES)
        ]
        self.buffers = itertools.cycle(buffers)
        self._arguments: dict[str, KernelArguments] = {}

    def arguments(self, symbol: str, given: tuple[Any, ...]) -> int:
        """Return the address of the packed arguments of a launch; the driver copies them before the launch returns."""
        packed = self._arguments.get(symbol)
        if packed is None:
            packed = self._arguments[symbol] = KernelArguments(given)
        packed.put(given)
        return packed.address

    @cached_property
    def pinned_transfer(self) -> PinnedTransfer:
        """Transfers of large arrays."""
        return PinnedTransfer(import_module("cupy"), import_module("cupyx").empty_pinned)


class CudaBackend(Backend):
    """The backend of CuPy's current device, on the current stream of each thread.

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

        exclude_cupy_compilation(cupy.cuda.compiler)
        self.arrays = cupy
        self.current_device: Callable[[], int] = cupy.cuda.runtime.getDevice
        self.out_of_memory = cupy.cuda.memory.OutOfMemoryError
        self._attributes = cupy.cuda.Device().attributes
        self.processors = self._attributes["MultiProcessorCount"]
        self.cache_bytes = self._attributes["L2CacheSize"]
        # Kilohertz, two transfers a cycle, and bits.
        rate, width = (self._attributes.get(name, 0) for name in ("MemoryClockRate", "GlobalMemoryBusWidth"))
        self.memory_bandwidth = 2e3 * rate * width / 8
        self.max_shared_bytes = self._attributes.get("MaxSharedMemoryPerBlockOptin", 0) - PERSISTENT_SHARED_BYTES
        self._functions: dict[tuple[int, str], Any] = {}
        self._persistent_functions: dict[tuple[int, str], tuple[Any, int]] = {}
        self._own = _ThreadState()

    def compile(self, variants: Iterable[Variant]) -> None:
        """Compile the variants that are not compiled yet, each unit by a thread of its own."""
        device = self.current_device()
        missing_variants = [v for v in dict.fromkeys(variants) if (device, v.symbol) not in self._functions]
        if not missing_variants:
            return
        with work_clock.compiling(f"CUDA kernel {missing_variants[0].symbol}"):
            self._compile(missing_variants, device)

    def _compile(self, variants: list[Variant], device: int) -> None:
        units = units_of(variants)
        modules = threads.each(lambda unit: self._module(unit, device), units)
        for unit, module in zip(units, modules, strict=True):
            for variant in unit:
                if (device, variant.symbol) not in self._functions:
                    self._functions[device, variant.symbol] = self._configured(module, variant)

    def _module(self, unit: Unit, device: int) -> Any:
        """Load a unit's cubin that came with the package, else compile it; CuPy keeps what it compiles on disk."""
        text, cuda = kernels.program(unit), self.arrays.cuda
        with cuda.Device(device) as here:
            cubin = cubins.shipped(text, f"sm_{here.compute_capability}", cuda.nvrtc.getVersion()[0])
            if cubin is not None:
                module = self.arrays.RawModule(path=str(cubin))
                with suppress(cuda.driver.CUDADriverError):  # A driver older than the cubin.
                    module.get_function(unit[0].symbol)
                    return module
            module = self.arrays.RawModule(code=text, options=OPTIONS)
            try:
                module.compile()
            except cuda.compiler.CompileException as error:
                names = ", ".join(variant.symbol for variant in unit[:3])
                raise CpmsError(f"CUDA kernels {names} … do not compile:\n{error}") from None
            return module

    def _configured(self, module: Any, variant: Variant) -> Any:
        function = module.get_function(variant.symbol)
        if variant.shared:
            function.max_dynamic_shared_size_bytes = variant.shared
        if variant.kernel in _SHARED_PERCENT:
            function.preferred_shared_memory_carveout = _SHARED_PERCENT[variant.kernel]
        elif variant.shape in SHAPES.values():
            used = function.shared_size_bytes + variant.shared
            function.preferred_shared_memory_carveout = _percent_shared(self._attributes, variant.shape, used)
        return function

    def run(self, variant: Variant, blocks: int, arguments: tuple[Any, ...]) -> None:
        """Launch on the current stream."""
        key = (self.current_device(), variant.symbol)
        if key not in self._functions:
            self.compile([variant])
        grid = max(1, blocks), 1, 1, THREADS, 1, 1, 0, self.arrays.cuda.get_current_stream().ptr
        packed = self._own.arguments(variant.symbol, arguments)
        self.arrays.cuda.driver.launchKernel(self._functions[key].kernel.ptr, *grid, packed, 0)

    def launcher(self, variant: Variant, blocks: int, packed: np.ndarray[Any, Any]) -> Callable[[], None]:
        """Return a launch that costs little more than the driver's part of it, which copies the struct."""
        self.compile([variant])
        function = self._functions[self.current_device(), variant.symbol].kernel.ptr
        start, stream, grid = self.arrays.cuda.driver.launchKernel, self.arrays.cuda.get_current_stream, max(1, blocks)
        addresses = np.array([packed.ctypes.data], np.uint64)

        def launch() -> None:
            start(function, grid, 1, 1, THREADS, 1, 1, 0, stream().ptr, addresses.ctypes.data, 0)

        launch.packed = packed  # type: ignore[attr-defined]  # It outlives the launch.
        return launch

    def capture(self, work: Callable[[], None]) -> Any | None:
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
    def second_stream(self) -> Iterator[None]:
        """Fork by an event; within a capture, the second stream is captured too."""
        own = self._own
        own.forked.record(self.arrays.cuda.get_current_stream())
        own.second.wait_event(own.forked)
        with own.second:
            yield
        own.joined.record(own.second)

    def join_streams(self) -> None:
        """Join by an event."""
        self.arrays.cuda.get_current_stream().wait_event(self._own.joined)

    def synchronize(self) -> None:
        """Wait for the current stream."""
        self.arrays.cuda.get_current_stream().synchronize()

    def persistent_blocks(self, shape: Shape) -> int:
        """Return the resident blocks of all multiprocessors."""
        return self.processors * _blocks_per_processor(self._attributes, shape)

    def max_blocks(self, variant: Variant) -> int:
        """Return the driver's count, by registers and shared memory of the compiled kernel."""
        return self._persistent(variant)[1]

    def run_persistent(self, variant: Variant, blocks: int, arguments: tuple[Any, ...]) -> None:
        """Launch cooperatively."""
        function, held = self._persistent(variant)
        if blocks > held:
            raise UnsupportedError(
                f"kernel {variant.kernel} is to run in {blocks} blocks at once, but this GPU holds {held} of them; "
                "use engine cpu"
            )
        threads, stream = variant.shape.threads, self.arrays.cuda.get_current_stream().ptr
        grid = blocks, 1, 1, threads, 1, 1, variant.shared, stream
        packed = self._own.arguments(variant.symbol, arguments)
        self.arrays.cuda.driver.launchCooperativeKernel(function.ptr, *grid, packed)

    def _persistent(self, variant: Variant) -> tuple[Any, int]:
        """Return a persistent kernel, and how many blocks of it the device holds."""
        key = (self.current_device(), variant.symbol)
        if key not in self._persistent_functions:
            self.compile([variant])
            function = self._functions[key].kernel
            occupancy = self.arrays.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor
            each = occupancy(function.ptr, variant.shape.threads, variant.shared)
            self._persistent_functions[key] = function, each * self.processors
        return self._persistent_functions[key]

    def upload(self, values: Any) -> Any:
        """Copy large arrays in parts by several threads, and a few numbers by one call of the driver."""
        if isinstance(values, np.ndarray):
            if values.nbytes >= MIN_BYTES:
                return self._own.pinned_transfer.to_device(values)
            if 0 < values.nbytes <= _STAGED_BYTES and values.dtype.isnative and values.flags.c_contiguous:
                return self._staged(values)
        return self.arrays.asarray(values)

    def _staged(self, values: np.ndarray[Any, Any]) -> Any:
        """Copy values that the driver has put aside when its call returns, so that they may change then."""
        made, runtime = self.arrays.empty(values.shape, values.dtype), self.arrays.cuda.runtime
        stream = self.arrays.cuda.get_current_stream().ptr
        runtime.memcpyAsync(made.data.ptr, values.ctypes.data, values.nbytes, runtime.memcpyHostToDevice, stream)
        return made

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """Copy and wait."""
        if array.nbytes >= MIN_BYTES:
            return self._own.pinned_transfer.to_host(array)
        host: np.ndarray[Any, Any] = self.arrays.asnumpy(array)
        return host

    def _copy_async(self, numbers: Any) -> Callable[[], Floats]:
        """Copy on the current stream into one of several pinned buffers, in turn."""
        buffer, copied = next(self._own.buffers)
        runtime, stream = self.arrays.cuda.runtime, self.arrays.cuda.get_current_stream()
        to_host = runtime.memcpyDeviceToHost
        runtime.memcpyAsync(buffer.ctypes.data, numbers.data.ptr, numbers.nbytes, to_host, stream.ptr)
        copied.record(stream)

        def wait() -> Floats:
            copied.synchronize()
            found: Floats = buffer.view(numbers.dtype)[: numbers.size].copy()
            return found

        return wait

    def clear(self, array: Any) -> None:
        """Fill on the current stream."""
        array.data.memset_async(0, array.nbytes)

    def address(self, array: Any) -> int:
        """Return the device pointer."""
        return int(array.data.ptr)

    def free_bytes(self) -> int:
        """Return the free bytes of the driver and of CuPy's pool."""
        free, _ = self.arrays.cuda.runtime.memGetInfo()
        return int(free) + int(self.arrays.get_default_memory_pool().free_bytes())

    def free_unused(self) -> None:
        """Free the blocks of CuPy's pool that no array uses."""
        self.arrays.get_default_memory_pool().free_all_blocks()


def _abandon(stream: Any) -> None:
    """End a capture in which something failed."""
    with suppress(RuntimeError):
        stream.end_capture()


_backends: dict[int, CudaBackend] = {}


def of_device() -> CudaBackend:
    """Return the backend of CuPy's current device.

    Raises
    ------
    UnavailableError
        If CuPy or a device is missing.
    """
    if _backends:  # Every launch calls this: importing CuPy again would cost more than the rest of it.
        device = next(iter(_backends.values())).current_device()
        if device in _backends:
            return _backends[device]
    made = CudaBackend()
    _backends[made.current_device()] = made
    return made
