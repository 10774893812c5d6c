"""Memory limits of this process: free main memory, checked before large allocations, and address space (``ulimit -v``).

Free memory is the minimum of the machine's, of that of each control group above the process (containers, batch jobs;
versions 1 and 2 of Linux's cgroups), and of the rest of the address space. Reading it takes a few small files.
The address space is checked before large libraries are loaded, since some crash or hang if it is too small, as OpenBLAS
does whose threads each map memory of their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cpms.base.errors import InputError, UnavailableError

_NODE_BYTES = 32  # Two arrays of row starts and two of cursors, all int64, while `from_edges` runs.
_MIB = 2**20
_MOST_BLAS_THREADS = 64
"""Largest number of threads of OpenBLAS in NumPy's and SciPy's wheels."""
_GROUPS, _MEMORY = Path("/sys/fs/cgroup"), Path("/proc/meminfo")


def free_bytes() -> int:
    """Return the bytes that can be allocated without swapping and within the limits of a container or a batch job.

    Examples
    --------
    >>> free_bytes() > 0
    True
    """
    free = [_available_bytes(), *group_bytes()]
    if (limit := limit_bytes()) is not None:
        import psutil

        free.append(limit - psutil.Process().memory_info().vms)
    return max(0, min(free))


def _available_bytes(memory: Path = _MEMORY) -> int:
    """Return the free bytes of the machine: as Linux states them, else as psutil does, whose import takes longer."""
    for line in _text(memory).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    import psutil

    return int(psutil.virtual_memory().available)


def group_bytes(groups: Path = _GROUPS, process: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """Yield the free bytes of each control group above this process: its limit less the memory that is not reclaimable.

    Parameters
    ----------
    groups : Path
        Mount point of control groups.
    process : Path
        Lines ``number:controllers:group``.
    """
    for line in _text(process).splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "memory":
            top, limit, used, reclaimed = groups / "memory", *_VERSION_1
        elif controllers == "":
            top, limit, used, reclaimed = groups, *_VERSION_2
        else:
            continue
        here = Path(os.path.normpath(top / group.lstrip("/")))
        # Within a container, the group of the container is mounted at the top.
        for folder in {here, *here.parents, top} if here.is_relative_to(top) else {top}:
            most = _text(folder / limit).strip()
            if folder.is_relative_to(top) and most.isdecimal():
                yield int(most) - int(_text(folder / used) or 0) + _reclaimed(folder, reclaimed)


_VERSION_1 = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
_VERSION_2 = "memory.max", "memory.current", "inactive_file"


def _reclaimed(folder: Path, field: str) -> int:
    """Return the bytes of cached files that the kernel reclaims before an allocation fails."""
    fields = dict(line.split() for line in _text(folder / "memory.stat").splitlines())
    return int(fields.get(field, 0))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def graph_bytes(nodes: int, edges: int, *, weighted: bool) -> int:
    """Return the peak bytes of building a graph from an edge list.

    Four index arrays of edges exist at the same time, and with weights three float64 arrays.

    Examples
    --------
    >>> graph_bytes(10, 100, weighted=False)
    1920
    """
    index_bytes = 4 if nodes < 2**31 else 8
    return nodes * _NODE_BYTES + edges * (4 * index_bytes + (24 if weighted else 0))


def require_memory(needed_bytes: int, purpose: str, advice: str = "use a machine with more memory") -> None:
    """Raise `InputError` if ``needed_bytes`` exceed the free memory."""
    free = free_bytes()
    if needed_bytes > free:
        raise InputError(f"{purpose} needs {needed_bytes:,} bytes, but {free:,} are free; {advice}")


def limit_bytes() -> int | None:
    """Return the limit of the address space in bytes; None if there is none."""
    try:
        import resource
    except ImportError:  # Windows has no such limits.
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def require_address_space(mebibytes: int, thread_mebibytes: int, libraries: str) -> None:
    """Refuse to load libraries if the address space is too small for them.

    Parameters
    ----------
    mebibytes, thread_mebibytes : int
        Address space of the libraries with one thread of OpenBLAS, and for each further thread.
    libraries : str
        Names of the libraries.

    Raises
    ------
    UnavailableError
        If the limit is smaller.

    Examples
    --------
    >>> require_address_space(1, 0, "a small library")
    """
    limit = limit_bytes()
    needed = mebibytes + thread_mebibytes * (_blas_threads() - 1)
    if limit is not None and limit < needed * _MIB:
        raise UnavailableError(
            f"this process may address {limit // _MIB} MiB, but {libraries} takes {needed} MiB to load; "
            "raise the limit (ulimit -v, or that of the batch job) or set OPENBLAS_NUM_THREADS=1"
        )


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _blas_threads() -> int:
    given = os.environ.get("OPENBLAS_NUM_THREADS", "")
    return min(processors(), _MOST_BLAS_THREADS, int(given) if given.isdecimal() and int(given) else processors())
