"""Contract of a device: memory, streams and kernel launches.

`cpms.backends.cuda.runtime.compile` implements it on a GPU through CuPy, and
`cpms.backends.cuda.runtime.host_emulation` on a processor, so that kernels are tested without a GPU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.launch_shape import DEFAULT_SHAPE, Shape
from cpms.backends.cuda.kernels.template import Variant
from cpms.base.errors import UnsupportedError
from cpms.base.types import Floats

THREADS = 256
"""Threads in a block, of every kernel but the persistent ones."""
PERSISTENT_SHARED_BYTES = 47 << 10
"""Bytes of static shared memory of a block of persistent kernels, at most, besides dynamic memory."""

MAX_ASYNC_NUMBERS, ASYNC_COPIES = 4096, 8
"""Numbers of an asynchronous copy to main memory, and copies in flight, at most; see `Backend.fetch_async`."""


class Backend(ABC):
    """Memory and kernels of one device."""

    arrays: Any
    """Module of array functions: ``empty``, ``zeros``, ``asarray`` (a copy from host arrays)."""
    out_of_memory: type[Exception]
    processors: int
    """Multiprocessors."""
    cache_bytes: int
    """Bytes of the cache that multiprocessors share."""
    memory_bandwidth: float
    """Bytes a second of device memory by its clock, 0 where the clock is unknown."""
    max_shared_bytes: int
    """Bytes of dynamic shared memory that a block of a persistent kernel may have."""

    @abstractmethod
    def compile(self, variants: Iterable[Variant]) -> None:
        """Compile these variants in one program; variants that are compiled already cost nothing."""

    @abstractmethod
    def run(self, variant: Variant, blocks: int, arguments: tuple[Any, ...]) -> None:
        """Run a variant in ``blocks`` blocks of `THREADS`, on device arrays and NumPy scalars."""

    def launcher(self, variant: Variant, blocks: int, packed: np.ndarray[Any, Any]) -> Callable[[], None]:
        """Return what launches a kernel of one struct, with the fields that ``packed`` has at the launch.

        Arrays whose addresses it holds must outlive the launch.
        """
        return lambda: self.run(variant, blocks, (packed[()],))

    def capture(self, work: Callable[[], None]) -> Any | None:  # noqa: ARG002
        """Return the launches of ``work`` as an object whose ``launch`` repeats them; None if capture is impossible.

        The launches are captured and do not run. Arrays that they access must outlive the object.
        """
        return None

    @contextmanager
    def second_stream(self) -> Iterator[None]:
        """Launch on a second stream, which waits for all launches before; `join_streams` must follow.

        Where there is one stream, launches run in order.
        """
        yield

    def join_streams(self) -> None:  # noqa: B027
        """Make all later launches wait for those of `second_stream`."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all launches."""

    @abstractmethod
    def persistent_blocks(self, shape: Shape) -> int:
        """Return how many blocks of a shape are resident at once on this device, by the shape's limits of registers."""

    @abstractmethod
    def max_blocks(self, variant: Variant) -> int:
        """Return how many blocks of a compiled variant the device holds at once."""

    @abstractmethod
    def run_persistent(self, variant: Variant, blocks: int, arguments: tuple[Any, ...]) -> None:
        """Run a persistent variant in blocks of its shape, all of them resident at once.

        Raises
        ------
        UnsupportedError
            If there are more blocks than `max_blocks`.
        """

    def upload(self, values: Any) -> Any:
        """Return values on the device; no copy if they are there already."""
        return self.arrays.asarray(values)

    @abstractmethod
    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """Return a copy in main memory, after all earlier kernels."""

    def fetch_async(self, numbers: Any) -> Callable[[], Floats]:
        """Queue a copy of at most `MAX_ASYNC_NUMBERS` numbers to main memory; return a function that waits for it.

        Later launches may overwrite the numbers. Of copies nobody has waited for, the last `ASYNC_COPIES` are valid.

        Raises
        ------
        ValueError
            If there are more numbers: the copy would write beyond its buffer.
        """
        if numbers.size > MAX_ASYNC_NUMBERS:
            raise ValueError(f"{numbers.size:,} numbers exceed the {MAX_ASYNC_NUMBERS:,} of a buffer; use to_host")
        return self._copy_async(numbers)

    @abstractmethod
    def _copy_async(self, numbers: Any) -> Callable[[], Floats]:
        """Queue the copy of `fetch_async`, which has checked the count."""

    def fetch(self, numbers: Any) -> list[float]:
        """Return a few floating-point numbers, such as the sums of a sweep."""
        found: list[float] = self.fetch_async(numbers)().tolist()
        return found

    @abstractmethod
    def clear(self, array: Any) -> None:
        """Queue the filling of a small array with zeros."""

    @abstractmethod
    def address(self, array: Any) -> int:
        """Return where an array begins in device memory."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Return the free bytes of device memory."""

    def free_unused(self) -> None:  # noqa: B027
        """Return memory that no array uses from the backend's pool to the device."""

    def grid_size(self, items: int, *, each: int = 1, per_processor: int = 8) -> int:
        """Return how many blocks share ``items``, ``each`` a thread, in a grid-stride loop."""
        needed = -(-items // (THREADS * each))
        return max(1, min(needed, self.processors * per_processor))

    def persistent_spread(self, items: int) -> int:
        """Return how many blocks of a persistent kernel in `DEFAULT_SHAPE` share ``items``, in a grid-stride loop."""
        return max(1, min(self.persistent_blocks(DEFAULT_SHAPE), -(-items // DEFAULT_SHAPE.threads)))

    @contextmanager
    def memory_for(self, what: str, needed_bytes: int) -> Iterator[None]:
        """Turn an out-of-memory error into one with the bytes needed and free."""
        try:
            yield
        except self.out_of_memory:
            free = self.free_bytes()
            raise UnsupportedError(
                f"{what} needs about {needed_bytes:,} bytes of device memory, but {free:,} are free; "
                "use a smaller graph, fewer bits, or engine cpu"
            ) from None
