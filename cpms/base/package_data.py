"""Folders that come with the package: beside its sources, or inside an installed wheel."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"


def folder(name: str) -> Path:
    """Return the folder ``kernels`` or ``experiments``.

    Raises
    ------
    FileNotFoundError
        If the installation lacks it.

    Examples
    --------
    >>> (folder("kernels") / "cuda").is_dir()
    True
    """
    package = Path(__file__).parents[1]
    for candidate in (package / "_shipped" / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"this installation of cpms has no folder {name!r}; install it anew")


def experiments() -> dict[str, Path]:
    """Return the configurations that come with the package, by name.

    Examples
    --------
    >>> "quickstart" in experiments()
    True
    """
    return {path.stem: path for path in sorted((folder("experiments") / "configs").rglob("*.toml"))}


def show_programs() -> dict[str, Path]:
    """Return what draws tables and figures, by name.

    Examples
    --------
    >>> "table2" in show_programs()
    True
    """
    return {path.stem: path for path in sorted((folder("experiments") / "figures").rglob("[!_]*.py"))}
