"""Note in wheels and source archives which commit they are built from, so that rows measured with them say so."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_STAMP = "cpms/_shipped/build.json"


class StampHook(BuildHookInterface):  # type: ignore[type-arg, unused-ignore]
    """Adds the digest of the code, and the commit if the code is that of a commit."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the stamp into what is built; a source archive's own goes on to its wheel."""
        if version == "editable":
            return
        root = Path(self.root)
        stamp = root / _STAMP
        if (root / ".git").exists() or not stamp.is_file():
            self._folder = tempfile.TemporaryDirectory()
            stamp = Path(self._folder.name) / "build.json"
            stamp.write_text(json.dumps(_built_from(root)) + "\n", encoding="utf-8")
        build_data["force_include"][str(stamp)] = _STAMP

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the stamp that was made for the build."""
        del version, build_data, artifact_path
        if self._folder is not None:
            self._folder.cleanup()


def _built_from(root: Path) -> dict[str, str | None]:
    spec = importlib.util.spec_from_file_location("package_data", root / "cpms" / "base" / "package_data.py")
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018
    package_data = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package_data)
    commit = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--", *package_data.CODE_FOLDERS)
    return {
        "code_digest": package_data.code_digest(root / "cpms", root / "kernels"),
        "commit": None if changed else commit,
    }


def _git(root: Path, *arguments: str) -> str | None:
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)  # noqa: S603, S607
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
