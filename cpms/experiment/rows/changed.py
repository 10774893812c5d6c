"""Whether a recorded cell is still up to date: its graph, its parameters and its plug-ins are unchanged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from cpms.base.errors import InputError
from cpms.base.plugins.modules import digest
from cpms.experiment.config import Cell, Experiment
from cpms.experiment.graph_files import read_options
from cpms.experiment.rows import digests
from cpms.sources.loading import files_of, load
from cpms.sources.readers.options import ReadOptions

_OPTIONS = {option.name for option in fields(ReadOptions)}


def parameters(experiment: Experiment, cell: Cell) -> Any:
    """Return a cell's resolved parameters as they are after JSON has written and read them."""
    return json.loads(json.dumps(experiment.resolved(cell)))


def differs(recorded: Any, present: Any) -> bool:
    """Return whether parameters differ; keys of one side alone are ignored, since later code has more keys.

    Examples
    --------
    >>> differs({"tol": 1e-9}, {"tol": 1e-9, "since": "later"}), differs({"tols": [1, 2]}, {"tols": [1, 3]})
    (False, True)
    """
    if isinstance(recorded, dict) and isinstance(present, dict):
        return any(differs(recorded[key], present[key]) for key in recorded.keys() & present.keys())
    if isinstance(recorded, list) and isinstance(present, list):
        return len(recorded) != len(present) or any(map(differs, recorded, present))
    return bool(recorded != present)


def why(row: dict[str, Any], experiment: Experiment, cell: Cell) -> str | None:
    """Return what has changed since a row was measured; None if nothing has, or it is unknown.

    It is "parameters", "graph", or the file of a plug-in. Changed code of the package does not count. Rows of earlier
    versions, without digests, are accepted.
    """
    if "parameters" in row and differs(row["parameters"], parameters(experiment, cell)):
        return "parameters"
    for file in changed_plugins(row):
        return file
    recorded = row.get("graph_files_digest")
    if recorded is None:
        return None
    present = files_digest(cell)
    return None if present in (None, recorded) or _same_content(row, cell) else "graph"


def changed_plugins(row: dict[str, Any]) -> list[str]:
    """Return the files of a row's plug-ins that have another content in the current folder than the row records.

    A row records all plug-ins of its run; those that its own cell does not name are left out here, and so are those of
    installed packages and files that the current folder lacks.

    Examples
    --------
    >>> changed_plugins({"parameters": {"method": "gone.py:f"}, "plugins": [{"name": "gone.py:f", "sha256": "0"}]})
    []
    """
    named = [str(row.get("kind")), *texts(row.get("parameters"))]
    found = dict[str, None]()
    for each in row.get("plugins") or []:
        name, file = str(each["name"]), plugin_file(str(each["name"]))
        if each.get("version") or file is None or not any(name in text for text in named):
            continue
        if digest(str(Path(file).expanduser())) not in (None, each.get("sha256")):
            found[file] = None
    return list(found)


def plugin_file(name: str) -> str | None:
    """Return the file that a plug-in's name stands for; None for an entry point, whose name has no module.

    Examples
    --------
    >>> plugin_file("mine.py:f"), plugin_file("my.formats:f"), plugin_file("kind.py"), plugin_file("an_entry_point")
    ('mine.py', 'my/formats.py', 'kind.py', None)
    """
    home, colon, _ = name.partition(":")
    if home.endswith(".py"):
        return home
    return f"{home.replace('.', '/')}.py" if colon else None


def texts(value: Any) -> Iterator[str]:
    """Yield the texts in nested lists and dictionaries.

    Examples
    --------
    >>> list(texts({"a": ["b", {"c": "d"}], "e": 1}))
    ['b', 'd']
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts(each)


def files_digest(cell: Cell) -> str | None:
    """Return the digest of the files of a cell's graph; None if there are none. Each file is read once a run."""
    name = cell.get("graph")
    if not isinstance(name, str):
        return None
    try:
        files = files_of(name)
        stamps = tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    except (OSError, InputError):
        return None
    return _of_files(stamps)


@lru_cache(maxsize=256)
def _of_files(stamps: tuple[tuple[Path, int, int], ...]) -> str | None:
    return digests.of_files(path for path, *_ in stamps)


def _same_content(row: dict[str, Any], cell: Cell) -> bool:
    """Return whether changed files still hold the same graph, as after a change of a comment."""
    recorded = row.get("graph_digest")
    if recorded is None:
        return False
    try:
        options = {option: cell[option] for option in _OPTIONS if option in cell}
        graph = load(cell["graph"], **{**options, **read_options(cell)})
    except InputError:  # The cell reports the error when it runs.
        return False
    return bool(digests.of_graph(graph) == recorded)
