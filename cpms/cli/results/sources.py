"""The rows that a command is asked for: a path, an experiment by its name, or its configuration."""

from __future__ import annotations

import tomllib
from pathlib import Path

from cpms.base.errors import InputError
from cpms.base.text.terminal import note
from cpms.cli import ROWS_FOLDER


def rows_named(source: str) -> str | Path:
    """Return the file of rows that ``run`` wrote for an experiment or a configuration; else the source as it is.

    Raises
    ------
    InputError
        If the source is a configuration without rows.
    """
    path = Path(source)
    if path.suffix == ".toml" and path.is_file():
        name = _name(path)
        found = ROWS_FOLDER / f"{name}.jsonl"
        if name is None or not found.is_file():
            raise InputError(
                f"{source}: is a configuration, not rows; 'cpms run {source}' writes them to {found.parent}, or give "
                "the path of their file or folder"
            )
    elif path.exists() or path.name != source or not (found := ROWS_FOLDER / f"{source}.jsonl").is_file():
        return source
    note(f"rows are those of {found}")
    return found


def _name(path: Path) -> str | None:
    try:
        name = tomllib.loads(path.read_text(encoding="utf-8")).get("name")
    except (OSError, ValueError, RecursionError):
        return None
    return name if isinstance(name, str) and Path(name).name == name else None
