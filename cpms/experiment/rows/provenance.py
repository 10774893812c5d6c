"""The provenance of a row: code, libraries, machine and time."""

from __future__ import annotations

import datetime
import json
import platform
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import cpms
from cpms.base import package_data, threads
from cpms.experiment.rows.commits import git
from cpms.experiment.rows.machine import machine

_LIBRARIES = ("numpy", "scipy", "numba", "cupy-cuda13x", "cupy-cuda12x")
_PACKAGE = Path(cpms.__file__).parent


def provenance(config_sha256: str, thread_count: int | None) -> dict[str, Any]:
    """Return the columns of provenance, which every row has."""
    return {
        **_lasting(),
        **machine(),
        "threads": thread_count or threads.available(),
        "config_sha256": config_sha256,
        "time_utc": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def repository() -> Path:
    """Return the folder that holds the package: in a checkout, that of the repository."""
    return _PACKAGE.parent


@lru_cache(maxsize=1)
def _lasting() -> dict[str, Any]:
    versions = {f"version_{name.replace('-', '_')}": _version(name) for name in _LIBRARIES}
    return {
        "cpms_version": cpms.__version__,
        **code(),
        "version_python": platform.python_version(),
        **{key: version for key, version in versions.items() if version},
    }


def code() -> dict[str, Any]:
    """Return the digest of the code; the commit that it is, or is nearest to; and whether it differs from that."""
    digest = package_data.code_digest(_PACKAGE, package_data.folder("kernels"))
    commit, dirty = _git("rev-parse", "HEAD"), _dirty()
    if commit is None:
        commit, dirty = _stamped(digest)
    return {"code_digest": digest, "git_commit": commit, "git_dirty": dirty}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    printed = git(repository(), *arguments)
    return None if printed is None else printed.decode().strip()


def _dirty() -> bool | None:
    """Return whether the code differs from the commit; rows and figures do not count."""
    changed = _git("status", "--porcelain", "--", *package_data.CODE_FOLDERS)
    return None if changed is None else bool(changed)


def _stamped(digest: str) -> tuple[str | None, bool | None]:
    """Return the commit that the build of a wheel recorded, or the note beside sources without their history."""
    stamp, note = (_PACKAGE / "_shipped" / name for name in ("build.json", "commit"))
    if stamp.is_file():
        built = json.loads(stamp.read_text(encoding="utf-8"))
        return built["commit"], built["commit"] is None or built["code_digest"] != digest
    return (note.read_text(encoding="utf-8").strip() if note.is_file() else None), None
