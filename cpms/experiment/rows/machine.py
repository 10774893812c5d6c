"""The machine of a row: processor, operating system, clocks, and the processors of the process."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

_FREQUENCIES = Path("/sys/devices/system/cpu/cpu0/cpufreq")
_READABLE = {"least": "cpuinfo_min_freq", "most": "cpuinfo_max_freq"}


def machine() -> dict[str, Any]:
    """Return the columns of the machine; what cannot be read is missing or None."""
    processors = ranges(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {**_lasting(), "cpu_mhz": _megahertz(), "affinity": processors}


@lru_cache(maxsize=1)
def _lasting() -> dict[str, Any]:
    limits = {f"cpu_{name}_mhz": _kilohertz(_FREQUENCIES / file) for name, file in _READABLE.items()}
    return {
        "cpu": _cpu(),
        "os": _system(),
        "kernel": f"{platform.system()} {platform.release()}",
        **{name: value for name, value in limits.items() if value is not None},
        **_gpu(),
    }


def _cpu() -> str:
    return next(_cpuinfo("model name"), platform.processor() or platform.machine())


def _megahertz() -> float | None:
    """Return the highest clock of all processors at present."""
    values = [float(text) for text in _cpuinfo("cpu MHz") if text.replace(".", "", 1).isdigit()]
    return max(values, default=None)


def _cpuinfo(name: str) -> Iterator[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name)


def _kilohertz(path: Path) -> float | None:
    try:
        return int(path.read_text(encoding="ascii")) / 1e3
    except (OSError, ValueError):
        return None


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform(terse=True)


def load_average() -> float | None:
    """Return the processes that ran or waited to run in the last minute, in the mean; None where that is unknown."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return None


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as ranges, in the notation of ``taskset``.

    Examples
    --------
    >>> ranges({0, 1, 2, 5, 8, 7})
    '0-2,5,7-8'
    """
    runs = (list(run) for _, run in groupby(enumerate(sorted(numbers)), lambda each: each[1] - each[0]))
    return ",".join(str(run[0][1]) if len(run) == 1 else f"{run[0][1]}-{run[-1][1]}" for run in runs)


def _gpu() -> dict[str, Any]:
    """Return the GPU's name, driver and highest clocks where CuPy is installed and finds one."""
    try:
        import cupy
    except ImportError:
        return {}
    if not cupy.cuda.is_available():
        return {}
    runtime, attributes = cupy.cuda.runtime, cupy.cuda.Device(0).attributes
    clocks = {"gpu_most_mhz": "ClockRate", "gpu_memory_most_mhz": "MemoryClockRate"}
    return {
        "gpu": runtime.getDeviceProperties(0)["name"].decode(),
        "cuda_driver": runtime.driverGetVersion(),
        "cuda_runtime": runtime.runtimeGetVersion(),
        **{column: attributes[name] / 1e3 for column, name in clocks.items() if name in attributes},
    }
