"""What is no longer as it was when an artifact was made: files by their SHA-256, and numbers by the rows.

Digests are those of ``sha256sum``. They find mistakes, such as a number that was edited or a row that was lost. They do
not find intent: whoever changes the manifest, too, changes what it is compared with. The copy of the package, the paper
and the texts that its authors complete have no digest. The cost is that of reading the files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_FOLDERS = ("rows", "programs", "figures")
NUMBERS = "numbers.tex"
"""Name of the file of numbers."""


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the rows, programs, figures and numbers of an artifact by the path in it."""
    inside = [path for name in _FOLDERS for path in sorted((folder / name).rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in [*inside, folder / NUMBERS]}


def of_files(folder: Path, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each file that is missing or is not that of the manifest; figures may be missing."""
    packed = {each["file"]: each["sha256"] for each in manifest["inputs"]}
    for name, digest in {**manifest["sha256"], **packed}.items():
        path = folder / name
        if path.is_file():
            if file_digest(path) != digest:
                yield f"changed since the artifact was made: {name}"
        elif not name.startswith("figures/"):
            yield f"missing: {name}"


def of_numbers(given: str, by_rows: str) -> Iterator[str]:
    r"""Yield a line if the numbers of an artifact are not those of its rows.

    Examples
    --------
    >>> [*of_numbers(r"\cpmsdefine{a/seconds}{1\,s}", r"\cpmsdefine{a/seconds}{2\,s}")]
    ['numbers.tex is not that of the rows: a/seconds is 1\\,s, by the rows 2\\,s']
    """
    if sorted(given.splitlines()) == sorted(by_rows.splitlines()):  # Experiments may be in another order.
        return
    held, right = (
        dict(re.findall(r"^\\cpmsdefine\{(.+?)\}\{(.*)\}$", text, re.MULTILINE)) for text in (given, by_rows)
    )
    names = [name for name in held.keys() | right.keys() if held.get(name) != right.get(name)]
    first = min(names, default="", key=lambda name: (name.startswith("caption/"), name))
    which = f": {first} is {held.get(first, 'missing')}, by the rows {right.get(first, 'missing')}" if names else ""
    others = f"; {len(names) - 1} more" if len(names) > 1 else ""
    yield f"{NUMBERS} is not that of the rows{which}{others}"


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
