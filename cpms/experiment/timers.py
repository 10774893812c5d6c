"""Times of work in main memory by the host's clock, and of work on a device by CUDA events.

Events exclude the time of the host, whose launches would dominate work below a millisecond. Short work is launched
several times between two events. ``ceilings`` measures the two limits of sweeps: copy bandwidth, and random gathers.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from cpms import engines
from cpms.backends.cuda.runtime.current import current
from cpms.base import threads
from cpms.base.errors import CpmsError
from cpms.storage.device import on_device

Work = Callable[[], object]
_SHORT_MS = 1.0
_SHORT_REPEATS = 10


class WallTimer:
    """Times one piece of work in main memory again and again.

    Parameters
    ----------
    work : callable
        Runs once before the first sample.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        work()
        self.samples_ms: list[float] = []

    def turn(self) -> None:
        """Take one sample."""
        began = time.perf_counter()
        self._work()
        self.samples_ms.append(1e3 * (time.perf_counter() - began))

    def columns(self) -> dict[str, Any]:
        """Return median, minimum and maximum in milliseconds."""
        return _summary(self.samples_ms)


class Timer:
    """Times one piece of work on the current device again and again.

    Parameters
    ----------
    work : callable
        Launches the work on the current device.
    same : bool
        Whether all calls make the same launches on the same memory, and allocate none. The launches of short work are
        then captured in one CUDA graph, which removes the host's time.
    """

    def __init__(self, work: Work, *, same: bool = False) -> None:
        import cupy

        self._cupy = cupy
        self._work = work
        self._repeats = 1
        self._graph: Any = None
        work()
        work()
        if self._measure() < _SHORT_MS:
            self._repeats = _SHORT_REPEATS
            self._graph = current().capture(self._launch) if same else None
        self._measure()
        self.samples_ms: list[float] = []

    def turn(self) -> None:
        """Take one sample."""
        self.samples_ms.append(self._measure() / self._repeats)

    def columns(self) -> dict[str, Any]:
        """Return median, minimum and maximum in milliseconds, and the number of launches in a sample."""
        return {
            **_summary(self.samples_ms),
            "launches_a_sample": self._repeats,
            "as_one_graph": self._graph is not None,
        }

    def _measure(self) -> float:
        begin, end = self._cupy.cuda.Event(), self._cupy.cuda.Event()
        begin.record()
        if self._graph is None:
            self._launch()
        else:
            self._graph.launch()
        end.record()
        end.synchronize()
        return float(self._cupy.cuda.get_elapsed_time(begin, end))

    def _launch(self) -> None:
        for _ in range(self._repeats):
            self._work()


def _summary(samples_ms: list[float]) -> dict[str, Any]:
    return {"median_ms": statistics.median(samples_ms), "least_ms": min(samples_ms), "most_ms": max(samples_ms)}


def in_turn(timers: Sequence[WallTimer | Timer], samples: int) -> None:
    """Take ``samples`` samples of each timer, in turn, so that drifts of the clock affect all alike."""
    for _ in range(samples):
        for timer in timers:
            timer.turn()


def with_rate(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a contestant; of a stage also the rate at which it moves its bytes, in GB/s.

    Examples
    --------
    >>> with_rate({"stage": "product", "least_bytes": 3_000_000, "median_ms": 1.5})["bandwidth_gbps"]
    2.0
    """
    if "stage" not in columns:
        return columns
    return {**columns, "bandwidth_gbps": columns["least_bytes"] / columns["median_ms"] / 1e6}


def copying(values: Any) -> Work:
    """Return a copy of an array within its memory: on a device, or by all threads."""
    if on_device(values):
        import cupy

        there = cupy.empty_like(values)
        return lambda: cupy.copyto(there, values)
    target = np.zeros_like(values)
    ranges = threads.ranges(len(values), at_least=1 << 16, parts=threads.available())
    return lambda: threads.each(lambda part: np.copyto(target[slice(*part)], values[slice(*part)]), ranges)


def copy_bandwidth() -> float:
    """Return the bytes that a copy of a gibibyte reads and writes a second, in GB/s."""
    copy = _copy()
    in_turn([copy], 9)
    return _copy_gbps(copy)


_COPIED = 1 << 27
"""Float64 values of the copy that bandwidths are compared with."""


def _copy() -> Timer:
    import cupy

    return Timer(copying(cupy.full(_COPIED, 1.0)))


def _copy_gbps(copy: Timer) -> float:
    return 16 * _COPIED / statistics.median(copy.samples_ms) / 1e6


_ON_A_DEVICE = ("cupy", "cusparse+cublas")
"""Libraries that work on a GPU."""
_COPIED_IN_MAIN_MEMORY = 1 << 24
"""Float64 values of the copy in main memory: 128 MiB, beyond the caches of most processors."""


def host_copy_bandwidth() -> float:
    """Return the bytes that a copy in main memory reads and writes a second, in GB/s, on all available threads.

    It is measured once for each number of threads in a process.
    """
    return _copy_on(threads.available())


@lru_cache(maxsize=8)
def _copy_on(count: int) -> float:
    with threads.limited(count):
        copy = WallTimer(copying(np.ones(_COPIED_IN_MAIN_MEMORY)))
        in_turn([copy], 5)
    return 16 * _COPIED_IN_MAIN_MEMORY / statistics.median(copy.samples_ms) / 1e6


@cache
def _device_copy_bandwidth() -> float:
    return copy_bandwidth()


def copy_rates(names: Iterable[str]) -> dict[str, float]:
    """Return the rates of copies in the memories that engines work in, as columns of a row, measured once a process.

    Parameters
    ----------
    names : iterable of str
        Of engines, of libraries on a GPU, or ``auto``. Engines that this machine lacks are passed over.

    Examples
    --------
    >>> list(copy_rates(["cpu"]))
    ['host_copy_gbps']
    """
    on_devices = {_works_on_a_device(name) for name in names}
    device = {"copy_gbps": _device_copy_bandwidth()} if True in on_devices else {}
    return {**device, **({"host_copy_gbps": host_copy_bandwidth()} if False in on_devices else {})}


def _works_on_a_device(name: str) -> bool | None:
    """Return whether an engine works in the memory of a GPU; None for one that cannot run here."""
    if name == "auto":
        return engines.finds_device()
    try:
        engine = engines.get_any("cuda" if name in _ON_A_DEVICE else name)
    except CpmsError:
        return None
    return None if engine.missing() else engine.takes_device_arrays


def ceilings() -> dict[str, float]:
    """Return the measured rates of this device: of a copy, and of random gathers of 2, 4 and 8 bytes."""
    import cupy

    words = 1 << 22
    copy = _copy()
    indices = cupy.random.default_rng(1).integers(0, words, 1 << 26, dtype=cupy.int32)
    gathers = {}
    buffers = []
    for name in ("uint16", "uint32", "float64"):
        values, out = cupy.ones(words, name), cupy.empty(indices.size, name)
        buffers.append((values, out))
        gathers[values.itemsize] = Timer(lambda values=values, out=out: cupy.take(values, indices, out=out))  # type: ignore[misc]
    in_turn([copy, *gathers.values()], 9)
    return {
        "copy_gbps": _copy_gbps(copy),
        **{
            f"gather_{size}_byte_giga_per_s": indices.size / statistics.median(timer.samples_ms) / 1e6
            for size, timer in gathers.items()
        },
    }
