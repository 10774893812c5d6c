"""Replacement of an artifact by a new one: only files that the old manifest lists are removed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from cpms.base.errors import InputError


def others(target: Path, *, force: bool) -> list[str]:
    """Return the files in the folder of an artifact that its manifest does not list; none of a new or empty folder.

    Raises
    ------
    InputError
        If the path is not a folder, or the folder holds something, unless that is an artifact and ``force`` is given.
    """
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return []
    if not target.is_dir():
        raise InputError(f"{target}: is no folder; give another --output")
    listed = _listed(target)
    if listed is None:
        raise InputError(f"{target}: is no empty folder, and no artifact that lists its files; give another --output")
    if not force:
        raise InputError(
            f"{target}: holds an artifact; --force replaces it and keeps files that its manifest does not list; or "
            "give another --output"
        )
    inside = (path for path in target.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(name for path in inside if (name := path.relative_to(target).as_posix()) not in listed)


def _listed(target: Path) -> set[str] | None:
    """Return the files that the manifest of a folder lists; None if it has no such manifest."""
    try:
        files = json.loads((target / "manifest.json").read_text(encoding="utf-8"))["files"]
        return {str(each) for each in files}
    except (OSError, ValueError, LookupError, TypeError):
        return None


def replace(target: Path, made: Path, kept: list[str]) -> None:
    """Move a folder to the place of a target, with the files of the target that are kept; ``made.parent`` is temporary.

    Raises
    ------
    InputError
        If the new folder has a file of its own in the place of one that is kept.
    """
    for name in kept:
        if (made / name).exists():
            raise InputError(f"{target / name}: is not of the artifact, and a new one has such a file; move it away")
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(target / name, made / name, follow_symlinks=False)
    before = made.parent / "before"
    if target.exists():
        target.rename(before)
    try:
        made.rename(target)
    except OSError:
        if before.exists():
            before.rename(target)
        raise
