"""Where kernels run: a GPU through CuPy, or for tests this machine's processor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.kernels.launch_shape import FULL, Shape
from cpms.backends.cuda.kernels.template import Variant
from cpms.base.errors import UnsupportedError

THREADS = 256
"""Threads in a block, of every kernel but the resident ones."""
RESIDENT_SHARED_BYTES = 47 << 10
"""What a block of kernels that stay for many sweeps takes at most, but for those that are dealt values."""

NOTED, NOTES = 4096, 8
"""Numbers in a copy to main memory, and such copies that may be under way; see `Backend.note`."""
Floats = npt.NDArray[np.float64]


class Backend(ABC):
    """Memory and kernels of one device."""

    arrays: Any
    """Module that makes arrays: ``empty``, ``zeros``, ``asarray`` (a copy from host arrays)."""
    out_of_memory: type[Exception]
    processors: int
    """Multiprocessors."""
    cache_bytes: int
    """Size of the cache that they share."""
    memory_bandwidth: float
    """Bytes a second of device memory by its clock, 0 where that is not known."""
    most_shared: int
    """Bytes of shared memory that a block of kernels that stay may have besides its own."""

    @abstractmethod
    def compile(self, variants: Iterable[Variant]) -> None:
        """Make these variants ready, in one compilation; those that are ready cost nothing."""

    @abstractmethod
    def run(self, variant: Variant, blocks: int, arguments: tuple[Any, ...]) -> None:
        """Run a variant in ``blocks`` blocks of `THREADS`, on arrays and NumPy scalars as they are."""

    def captured(self, work: Callable[[], None]) -> Any | None:  # noqa: ARG002
        """Return the launches of ``work`` as an object whose ``launch`` does them again; None if it cannot be.

        None of them runs. What they touch must outlive the object.
        """
        return None

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Send launches to a second stream, which begins behind all launches before; `rejoin` must follow.

        Where there is one stream, launches run in order.
        """
        yield

    def rejoin(self) -> None:  # noqa: B027
        """Let all launches after this wait for those of `beside`."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all launches."""

    @abstractmethod
    def resident_blocks(self, shape: Shape) -> int:
        """Return how many blocks of a shape kernels that wait for each other are made for, on this device."""

    @abstractmethod
    def most_blocks(self, variant: Variant) -> int:
        """Return how many blocks of a variant the device holds at once."""

    @abstractmethod
    def run_resident(self, variant: Variant, blocks: int, arguments: tuple[Any, ...]) -> None:
        """Run a variant in blocks of its shape, all of them at once.

        Raises
        ------
        UnsupportedError
            If these are more than `most_blocks`.
        """

    def upload(self, values: Any) -> Any:
        """Return values of main memory on the device, or as they are if they are there."""
        return self.arrays.asarray(values)

    @abstractmethod
    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """Return a copy in main memory, once all kernels before have run."""

    @abstractmethod
    def note(self, numbers: Any) -> Callable[[], Floats]:
        """Queue a copy of at most `NOTED` floating-point numbers to main memory; return how to wait for it.

        Launches behind it may overwrite them. Of copies that have not been waited for, the last `NOTES` are kept.
        """

    def fetch(self, numbers: Any) -> list[float]:
        """Return a few floating-point numbers: what a sweep found."""
        found: list[float] = self.note(numbers)().tolist()
        return found

    @abstractmethod
    def clear(self, array: Any) -> None:
        """Queue the filling of a small array with zeros."""

    @abstractmethod
    def address(self, array: Any) -> int:
        """Return where an array begins in device memory."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Return the bytes of device memory at hand."""

    def spread(self, items: int, *, each: int = 1, per_processor: int = 8) -> int:
        """Return how many blocks share ``items``, ``each`` a thread, when they loop over them."""
        needed = -(-items // (THREADS * each))
        return max(1, min(needed, self.processors * per_processor))

    def resident_spread(self, items: int) -> int:
        """Return how many blocks of shape `FULL` that stay share ``items``, one a thread, when they loop over them."""
        return max(1, min(self.resident_blocks(FULL), -(-items // FULL.threads)))

    @contextmanager
    def memory_for(self, what: str, needed_bytes: int) -> Iterator[None]:
        """Turn running out of device memory into a sentence with the bytes needed and free."""
        try:
            yield
        except self.out_of_memory:
            free = self.free_bytes()
            raise UnsupportedError(
                f"{what} needs about {needed_bytes:,} bytes of device memory, but {free:,} are free; "
                "use a smaller graph, fewer bits, or engine cpu"
            ) from None
