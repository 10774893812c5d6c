"""Whether this machine can run CUDA kernels, found out without loading what would run them."""

from __future__ import annotations


def missing() -> str | None:
    """Return why this machine cannot run CUDA kernels, as a sentence; None if it can.

    Examples
    --------
    >>> missing() is None or missing().endswith(".")
    True
    """
    try:
        import cupy
    except ImportError:
        return "CuPy is not installed; pip install 'cpms[cuda13]', or 'cpms[cuda12]' for CUDA 12."
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy finds no CUDA device ({error})."
    return None if count else "there is no CUDA device."
