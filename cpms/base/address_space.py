"""The limit of a process's address space (``ulimit -v``): libraries crash or hang where it is too small for them."""

from __future__ import annotations

import os

from cpms.base.errors import UnavailableError

_MIB = 2**20
_MOST_BLAS_THREADS = 64
"""What OpenBLAS is built for in NumPy's and SciPy's wheels; each of its threads takes memory of its own."""


def limit_bytes() -> int | None:
    """Return the limit; None where there is none."""
    try:
        import resource
    except ImportError:  # Windows has no such limits.
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def require_address_space(mebibytes: int, thread_mebibytes: int, what: str) -> None:
    """Refuse to load libraries into less than they need.

    Parameters
    ----------
    mebibytes, thread_mebibytes : int
        What they need with one thread of OpenBLAS, and for each further one.
    what : str
        Their names.

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
            f"this process may address {limit // _MIB} MiB, but {what} takes {needed} MiB to load; "
            "raise the limit (ulimit -v, or that of the batch job) or set OPENBLAS_NUM_THREADS=1"
        )


def _blas_threads() -> int:
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("OPENBLAS_NUM_THREADS", "")
    return min(processors, _MOST_BLAS_THREADS, int(given) if given.isdecimal() and int(given) else processors)
