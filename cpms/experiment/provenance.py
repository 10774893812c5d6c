"""Where a row comes from: code, libraries, machine, time."""

from __future__ import annotations

import datetime
import platform
import subprocess
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import cpms
from cpms import threads

_LIBRARIES = ("numpy", "scipy", "numba", "cupy-cuda13x", "cupy-cuda12x")


def provenance(config_sha256: str, thread_count: int | None) -> dict[str, Any]:
    """Return what every row records besides its measurements."""
    return {
        **_lasting(),
        "threads": thread_count or threads.available(),
        "config_sha256": config_sha256,
        "time_utc": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


@lru_cache(maxsize=1)
def _lasting() -> dict[str, Any]:
    versions = {f"version_{name.replace('-', '_')}": _version(name) for name in _LIBRARIES}
    return {
        "cpms_version": cpms.__version__,
        "git_commit": _git("rev-parse", "HEAD") or _noted_commit(),
        "git_dirty": _dirty(),
        "version_python": platform.python_version(),
        **{key: version for key, version in versions.items() if version},
        "cpu": _cpu(),
        **_gpu(),
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    root = Path(cpms.__file__).parent.parent
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)  # noqa: S603, S607
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _noted_commit() -> str | None:
    """Return the commit that whoever copied the sources without their history noted beside them."""
    note = Path(cpms.__file__).parent / "_shipped" / "commit"
    return note.read_text(encoding="utf-8").strip() if note.is_file() else None


def _dirty() -> bool | None:
    """Say whether the code differs from the commit; rows and figures do not count."""
    changed = _git("status", "--porcelain", "--", "cpms", "kernels")
    return None if changed is None else bool(changed)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _gpu() -> dict[str, Any]:
    """Return the GPU's name and driver where CuPy is installed and finds one."""
    try:
        import cupy
    except ImportError:
        return {}
    if not cupy.cuda.is_available():
        return {}
    runtime = cupy.cuda.runtime
    return {
        "gpu": runtime.getDeviceProperties(0)["name"].decode(),
        "cuda_driver": runtime.driverGetVersion(),
        "cuda_runtime": runtime.runtimeGetVersion(),
    }
