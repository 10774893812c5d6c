"""Inputs of an artifact: the plug-ins and data files that its rows were measured with.

A configuration names files relative to the current folder. A copy has the same path in the artifact, where
``cpms run rows/NAME.config.toml`` finds it, so that no configuration is rewritten. A file is copied if it still has the
digest that the rows record. Rows have no digest of modules that a plug-in imports, and the artifact says so. Named data
sets, paths out of the folder, and files beyond `LIMIT_BYTES` in all are listed instead, each with the reason.
"""

from __future__ import annotations

import ast
import hashlib
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cpms.base.text.counted import counted
from cpms.experiment.config import loads_graphs
from cpms.experiment.rows import digests
from cpms.experiment.rows.changed import plugin_file, texts
from cpms.experiment.rows.outcome import measured
from cpms.experiment.rows.rows import Row
from cpms.sources import datasets
from cpms.sources.loading import files_of, is_missing

LIMIT_BYTES = 32 << 20
"""Most bytes of all plug-ins and data files of an artifact."""
_OWN = {
    *("rows", "programs", "figures", "rebuilt", "new", "code", "manifest.json", "numbers.tex", "appendix.md"),
    *("environment.txt", "Containerfile", "rebuild.py", "ro-crate-metadata.json"),
}
"""Names in an artifact that no copy may take."""
_PYTHON = re.compile(r"[\w./\\~-]+\.py(?![\w.])", re.ASCII)


class Packed(NamedTuple):
    """A file that was copied into an artifact.

    Parameters
    ----------
    file : str
        Its path in the artifact and, when the rows were measured, in the current folder.
    sha256 : str
    size : int
        In bytes.
    what : str
        ``plug-in``, ``data``, or a phrase for files of which the rows have no digest.
    """

    file: str
    sha256: str
    size: int
    what: str


class _Wanted(NamedTuple):
    """A file that rows or configurations name; ``fault`` is the reason why it cannot be copied, if there is one."""

    file: str
    what: str
    fault: str | None = None


def pack(rows: Sequence[Row], configurations: Iterable[bytes], target: Path) -> tuple[list[Packed], list[str]]:
    """Copy plug-ins and data files of rows into an artifact.

    Parameters
    ----------
    rows : sequence of dict
    configurations : iterable of bytes
        The contents of their configurations.
    target : Path
        The folder of the artifact.

    Returns
    -------
    list of Packed
        The files that were copied.
    list of str
        For each file that was not copied, a phrase with its name and the reason.
    """
    packed, left_out = dict[str, Packed](), dict[str, str]()
    waiting = [*_plugins(rows), *_data(rows), *_named(configurations)]
    while waiting:
        wanted = waiting.pop(0)
        name = Path(wanted.file).as_posix()
        if name in packed or name in left_out:
            continue
        room = LIMIT_BYTES - sum(each.size for each in packed.values())
        fault = wanted.fault or _fault(Path(wanted.file), room)
        if fault is not None:
            left_out[name] = f"{Path(name).name if Path(name).is_absolute() else name}: {fault}"
            continue
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wanted.file, copy)
        content = copy.read_bytes()
        packed[name] = Packed(name, hashlib.sha256(content).hexdigest(), len(content), wanted.what)
        if name.endswith(".py"):
            waiting += _imports(content, name)
    return list(packed.values()), list(left_out.values())


def _fault(path: Path, room: int) -> str | None:
    """Return the reason why a file cannot be copied to its own path in an artifact; None if it can."""
    if path.is_absolute() or path.parts[:1] == ("~",):
        return "the configuration names it by an absolute path"
    if ".." in path.parts:
        return "its path leads out of the current folder"
    if path.parts[0] in _OWN:
        return f"an artifact has something else at {path.parts[0]}"
    if not path.is_file():
        return "there is no such file in the current folder"
    if path.stat().st_size > room:
        return f"it has {path.stat().st_size / 2**20:.1f} MiB, and an artifact packs {LIMIT_BYTES >> 20} MiB in all"
    return None


def _plugins(rows: Sequence[Row]) -> Iterator[_Wanted]:
    """Yield the files of the plug-ins of rows; those of installed packages with the reason why they are not copied."""
    recorded = dict[str, set[str | None]]()
    for row in rows:
        for each in row.get("plugins") or []:
            file = plugin_file(str(each["name"]))
            if each.get("version") or file is None:
                version = f" {each['version']}" if each.get("version") else ""
                yield _Wanted(str(each["name"]), "", f"it is a plug-in of an installed package{version}")
                continue
            recorded.setdefault(file, set()).add(each.get("sha256"))
    for file, held in recorded.items():
        path = Path(file)
        present = {hashlib.sha256(path.read_bytes()).hexdigest()} if path.is_file() else held
        yield _Wanted(file, "plug-in", None if held == present else _changed(len(held)))


def _data(rows: Sequence[Row]) -> Iterator[_Wanted]:
    """Yield the data files of measured rows."""
    recorded = dict[str, set[str | None]]()
    for row in filter(measured, rows):
        if isinstance(row.get("graph"), str) and loads_graphs(row.get("kind")):
            recorded.setdefault(row["graph"], set()).add(row.get("graph_files_digest"))
    for name, held in recorded.items():
        files = files_of(name)
        fault = None if held == {digests.of_files(files)} else _changed(len(held))
        if held == {None}:
            fault = "the rows hold no digest of it"
        if is_missing(name):
            yield _Wanted(name, "data", "there is no such file in the current folder")
        elif name in datasets.DATASETS:
            yield _Wanted(name, "data", "it is a data set that has a name; 'cpms datasets' says where it comes from")
        for path in files:
            if name not in datasets.DATASETS and str(path) in name:
                yield _Wanted(str(path), "data", fault)


def _changed(contents: int) -> str:
    return "it has changed since" if contents == 1 else f"the rows were measured with {counted(contents, 'content')}"


def _named(configurations: Iterable[bytes]) -> Iterator[_Wanted]:
    """Yield the Python files that configurations name."""
    for content in configurations:
        for text in texts(tomllib.loads(content.decode())):
            yield from (_Wanted(file, "named by a configuration, of no row") for file in _PYTHON.findall(text))


def _imports(content: bytes, name: str) -> Iterator[_Wanted]:
    """Yield the modules that a plug-in imports, beside it or in the current folder."""
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError):
        return
    named = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    named += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    for module in dict.fromkeys(named):
        own = f"{module.replace('.', '/')}.py"
        file = next((str(each) for each in (Path(name).parent / own, Path(own)) if each.is_file()), None)
        if file is not None:
            yield _Wanted(file, f"imported by {name}; the rows hold no digest of it")
