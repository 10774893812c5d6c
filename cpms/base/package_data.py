"""Folders that come with the package, and the digest of its code.

The digest is a hash over paths and over the names that Git gives the files' contents, so that the digest of any commit
follows from Git's log alone. Rows of results record it, and ranks of one run compare it. It reads every file of code
once. This module needs nothing but Python, since the build of a wheel loads it, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

__version__ = "1.0.0"

CODE_FOLDERS = ("cpms", "kernels")
_CODE_SUFFIXES = (".py", ".cu", ".cuh", ".cl", ".hpp")


def shipped_folder() -> Path:
    """Return the folder of what wheels carry besides code; a checkout need not have it."""
    return Path(__file__).parents[1] / "_shipped"


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
    for candidate in (shipped_folder() / name, Path(__file__).parents[2] / name):
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
    """Return the programs that draw tables and figures, by name.

    Examples
    --------
    >>> "table2" in show_programs()
    True
    """
    return {path.stem: path for path in sorted((folder("experiments") / "figures").rglob("[!_]*.py"))}


def is_code(path: str) -> bool:
    """Return whether a file of the repository, given by its path, is code of the package or of the kernels.

    Copies that a wheel ships are not.

    Examples
    --------
    >>> [is_code(path) for path in ("cpms/api/pagerank.py", "kernels/cuda/spmv.cuh", "tests/test_solve.py")]
    [True, True, False]
    >>> is_code("cpms/_shipped/experiments/figures/table1.py"), is_code("cpms/__pycache__/solve.py")
    (False, False)
    """
    parts = PurePosixPath(path).parts
    inside = len(parts) > 1 and parts[0] in CODE_FOLDERS and not {"_shipped", "__pycache__"} & set(parts)
    return inside and PurePosixPath(path).suffix in _CODE_SUFFIXES


def code_digest(package: Path, kernels: Path | None) -> str:
    """Return the digest of the package and of the kernels, wherever the two folders lie.

    Parameters
    ----------
    package, kernels : Path
        Without ``kernels``, of the package alone.

    Examples
    --------
    >>> len(code_digest(Path(__file__).parents[1], None))
    32
    """
    files = [
        (f"{name}/{path.relative_to(root).as_posix()}", path)
        for name, root in zip(CODE_FOLDERS, (package, kernels), strict=True)
        if root is not None
        for path in root.rglob("*")
    ]
    return digest_of_blobs((path, blob(file.read_bytes())) for path, file in files if is_code(path) and file.is_file())


def digest_of_blobs(blobs: Iterable[tuple[str, str]]) -> str:
    """Return the digest of pairs of a path and the `blob` of its content, in any order.

    Examples
    --------
    >>> files = [("cpms/a.py", blob(b"a")), ("cpms/b.py", blob(b"b"))]
    >>> digest_of_blobs(files) == digest_of_blobs(reversed(files)) != digest_of_blobs(files[:1])
    True
    """
    return digest_of_lines({path: blob_line(path, content) for path, content in blobs})


def blob_line(path: str, content: str) -> str:
    """Return the part of a digest that one file has, given by its path and the `blob` of its content."""
    return f"{content} {path}\n"


def digest_of_lines(lines: Mapping[str, str]) -> str:
    """Return the digest of files, given by the `blob_line` of each path."""
    text = "".join([lines[path] for path in sorted(lines)])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def blob(content: bytes) -> str:
    """Return the name that Git gives a file's content, so that the digest of a commit needs no contents.

    Examples
    --------
    >>> blob(b"")
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    head = f"blob {len(content)}\0".encode()
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()
