"""CUDA sources with their includes inlined: one text that NVRTC compiles and whose digest names the binary."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from cpms.base import package_data

_INCLUDE = re.compile(r'^#include "([^"]+)"$')


def folder() -> Path:
    """Return the folder of the CUDA sources.

    Examples
    --------
    >>> (folder() / "base/segmented_storage.cuh").exists()
    True
    """
    return package_data.folder("kernels") / "cuda"


def assemble(files: Iterable[str]) -> str:
    """Return the text of these files and of all they include, each once, in order of first use.

    Every part of a file begins with a ``#line`` directive, so that a compiler's messages name file and line.

    Examples
    --------
    >>> text = assemble(["convert/scale.cu"])
    >>> "#include" in text, text.count('#line 1 "base/words.cuh"')
    (False, 1)
    """
    root = folder()
    seen: set[str] = set()
    lines: list[str] = []
    for file in files:
        _append(root, file, seen, lines)
    return "\n".join(lines) + "\n"


def digest(text: str) -> str:
    """Return a short name for a text, equal for equal texts only.

    Examples
    --------
    >>> len(digest("a")), digest("a") == digest("b")
    (16, False)
    """
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _append(root: Path, file: str, seen: set[str], lines: list[str]) -> None:
    if file in seen:
        return
    seen.add(file)
    lines.append(f'#line 1 "{file}"')
    for number, line in enumerate((root / file).read_text().splitlines(), start=1):
        if match := _INCLUDE.match(line):
            _append(root, match[1], seen, lines)
            lines.append(f'#line {number + 1} "{file}"')
        else:
            lines.append("" if line == "#pragma once" else line)
