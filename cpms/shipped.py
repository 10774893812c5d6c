"""Folders that come with the package: beside its sources, or inside an installed wheel."""

from __future__ import annotations

from pathlib import Path


def folder(name: str) -> Path:
    """Return the folder ``kernels`` or ``experiments``.

    Raises
    ------
    FileNotFoundError
        If the installation lacks it.

    Examples
    --------
    >>> (folder("experiments") / "quickstart.toml").is_file()
    True
    """
    package = Path(__file__).parent
    for candidate in (package / "_shipped" / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"this installation of cpms has no folder {name!r}; install it anew")
