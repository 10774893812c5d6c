"""Which commit holds the code of a row: found by its digest, long after the row was measured."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from cpms.base.package_data import digest_of_blobs, is_code

_LOG = (
    *("-c", "core.quotePath=false", "log", "--all", "--topo-order", "--reverse", "--format=commit %H %P"),
    *("--raw", "--no-abbrev", "--no-renames", "--diff-merges=first-parent"),
)
_GONE = "D"


@lru_cache(maxsize=4)
def by_digest(repository: Path) -> dict[str, str]:
    """Return the earliest commit of each digest of code that a repository knows; nothing where there is no Git."""
    if not (repository / ".git").exists():
        return {}
    try:
        done = subprocess.run(["git", "-C", str(repository), *_LOG], capture_output=True, check=True)  # noqa: S603, S607
    except (OSError, subprocess.CalledProcessError):
        return {}
    return _read(done.stdout.decode(errors="surrogateescape").splitlines())


def _read(log: Iterable[str]) -> dict[str, str]:
    """Follow files from commit to commit: each is its first parent's, but for what its own lines change."""
    found: dict[str, str] = {}
    trees: dict[str, dict[str, str]] = {}
    commit = ""
    for line in log:
        if line.startswith("commit "):
            _, following, *parents = line.split(" ")
            _keep(found, trees, commit)
            commit, trees[following] = following, dict(trees.get(parents[0], {})) if parents and parents[0] else {}
        elif line.startswith(":"):
            change, _, path = line.partition("\t")
            if is_code(path):
                content, kind = change.split(" ")[3:5]
                if kind == _GONE:
                    trees[commit].pop(path, None)
                else:
                    trees[commit][path] = content
    _keep(found, trees, commit)
    return found


def _keep(found: dict[str, str], trees: dict[str, dict[str, str]], commit: str) -> None:
    if commit:
        found.setdefault(digest_of_blobs(trees[commit].items()), commit)
