"""The limit of a process's address space (``ulimit -v``), checked before large libraries are loaded.

Libraries crash or hang if the limit is too small for them, as OpenBLAS does whose threads each map memory of their own.
Reading the limit is one system call.
"""

from __future__ import annotations

import os

from cpms.base.errors import UnavailableError

_MIB = 2**20
_MOST_BLAS_THREADS = 64
"""Largest number of threads of OpenBLAS in NumPy's and SciPy's wheels."""


def limit_bytes() -> int | None:
    """Return the limit in bytes; None if there is none."""
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


def _blas_threads() -> int:
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("OPENBLAS_NUM_THREADS", "")
    return min(processors, _MOST_BLAS_THREADS, int(given) if given.isdecimal() and int(given) else processors)
