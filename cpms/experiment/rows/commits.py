"""The commit of a row's code and the configuration of a row, found in Git's history by their digests.

One pass over ``git log --raw`` follows the file list of every commit, without reading any file. A copy of the package
without its history has a note of the commits that its rows need.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

from cpms.base.package_data import blob_line, digest_of_lines, is_code

_LOG = (
    *("-c", "core.quotePath=false", "log", "--all", "--topo-order", "--reverse", "--format=commit %H %P"),
    *("--raw", "--no-abbrev", "--no-renames", "--diff-merges=first-parent"),
)
_CONFIGURATIONS = ("log", "--all", "--format=", "--raw", "--no-abbrev", "--no-renames", "--", "experiments/*.toml")
_GONE = "D"
NOTE = "commits.json"
"""The file in ``cpms/_shipped`` that has digests with their commits, in copies of the package without history."""


def git(repository: Path, *arguments: str, given: bytes | None = None) -> bytes | None:
    """Return what a command of Git prints in a repository; None without Git or its history, and where it fails."""
    if not (repository / ".git").exists():
        return None
    command = ["git", "-C", str(repository), *arguments]
    try:
        return subprocess.run(command, input=given, capture_output=True, check=True).stdout  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None


@lru_cache(maxsize=4)
def by_digest(repository: Path) -> dict[str, str]:
    """Return the earliest commit of each digest of code in a repository; without Git, those of the note, if any."""
    if not (repository / ".git").exists():
        note = repository / "cpms" / "_shipped" / NOTE
        return dict(json.loads(note.read_text(encoding="utf-8"))) if note.is_file() else {}
    log = git(repository, *_LOG)
    return {} if log is None else _read(log.decode(errors="surrogateescape").splitlines())


def configurations(repository: Path) -> list[bytes]:
    """Return all versions of configurations in a repository; none without Git."""
    log = git(repository, *_CONFIGURATIONS) or b""
    names = {line.split(" ")[3]: None for line in log.decode().splitlines() if line.startswith(":")}
    given = "\n".join(name for name in names if set(name) != {"0"}).encode()
    found = git(repository, "cat-file", "--batch", given=given) or b""
    contents, place = [], 0
    while place < len(found):
        begin = found.index(b"\n", place) + 1
        end = begin + int(found[place:begin].split()[2])
        contents.append(found[begin:end])
        place = end + 1
    return contents


def _read(log: Iterable[str]) -> dict[str, str]:
    """Return digests from a log: the files of a commit are those of its first parent with its own changes.

    A commit without changes of code has the digest of its first parent.
    """
    found: dict[str, str] = {}
    trees: dict[str, dict[str, str]] = {}
    is_known_code = cache(is_code)
    commit, has_changes = "", True
    for line in log:
        if line.startswith("commit "):
            if has_changes:
                _record(found, trees, commit)
            _, following, *parents = line.split(" ")
            first = trees.get(parents[0]) if parents and parents[0] else None
            commit, trees[following], has_changes = following, {} if first is None else first, first is None
        elif line.startswith(":"):
            change, _, path = line.partition("\t")
            if is_known_code(path):
                if not has_changes:
                    trees[commit], has_changes = dict(trees[commit]), True
                content, kind = change.split(" ")[3:5]
                if kind == _GONE:
                    trees[commit].pop(path, None)
                else:
                    trees[commit][path] = blob_line(path, content)
    if has_changes:
        _record(found, trees, commit)
    return found


def _record(found: dict[str, str], trees: dict[str, dict[str, str]], commit: str) -> None:
    if commit:
        found.setdefault(digest_of_lines(trees[commit]), commit)
