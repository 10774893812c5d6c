"""The software of an artifact: a copy of the package, a lock of its environment, and a container file.

The copy holds sources and kernels, so that an artifact needs no registry for this package; recorded rows are left out.
Versions are those of the packages that drew the figures: another version of Matplotlib may write other bytes.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import cpms
from cpms.base.package_data import folder
from cpms.experiment.artifact.paper import PACKAGES
from cpms.experiment.rows import commits, provenance, quoted
from cpms.experiment.rows.rows import Row

_PACKAGE = Path(cpms.__file__).parent
_BUILT = ("__pycache__", "*.nbi", "*.nbc", "*.so")
"""Names of files and folders, at any depth, that are built from sources."""


def copy_package(target: Path, rows: Iterable[Row]) -> None:
    """Copy the package with its kernels and experiments, without recorded rows, and note the commits of rows.

    Quoted rows are copied: programs read them beside the rows of an artifact. The copy has no history, so
    ``commits.json`` has what `cpms.experiment.rows.commits.by_digest` finds in it.
    """
    shipped = target / "cpms" / "_shipped"
    _copy(_PACKAGE, target / "cpms", "_shipped")
    _copy(folder("kernels"), shipped / "kernels")
    _copy(folder("experiments"), shipped / "experiments", "results", "paper_example")
    (shipped / "experiments" / "results").mkdir()
    shutil.copy2(quoted.FILE, shipped / "experiments" / "results")
    code = provenance.code()
    stamp = {"code_digest": code["code_digest"], "commit": None if code["git_dirty"] else code["git_commit"]}
    known = commits.by_digest(provenance.repository())
    found = {str(digest): known[digest] for row in rows if (digest := row.get("code_digest")) in known}
    (shipped / "build.json").write_text(json.dumps(stamp) + "\n", encoding="utf-8")
    (shipped / commits.NOTE).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _copy(source: Path, target: Path, *left_out: str) -> None:
    """Copy a folder without entries of its top level and without what is built from sources."""
    built = shutil.ignore_patterns(*_BUILT)

    def ignored(folder: str, names: list[str]) -> set[str]:
        return built(folder, names) | (set(left_out) if Path(folder) == source else set())

    shutil.copytree(source, target, ignore=ignored)


def environment() -> list[str]:
    """Return name and version of each package that this one needs, without addresses of registries."""
    waiting, found = ["cpms"], {"cpms": cpms.__version__}
    while waiting:
        try:
            needs = metadata.requires(waiting.pop()) or []
        except metadata.PackageNotFoundError:
            continue
        for need in needs:
            other = re.split(r"[^A-Za-z0-9._-]", need, maxsplit=1)[0]
            if "extra ==" in need or other.lower() in found:
                continue
            try:
                found[other.lower()] = metadata.version(other)
                waiting.append(other)
            except metadata.PackageNotFoundError:
                continue  # A package of other platforms.
    return [f"{name}=={version}" for name, version in sorted(found.items()) if name != "cpms"]


def container(*, with_latex: bool) -> str:
    """Return a container file whose image rebuilds figures and paper; its Python is the one of the lock."""
    latex = f"RUN apt-get update && apt-get install -y --no-install-recommends {' '.join(PACKAGES)}\n"
    python = ".".join(platform.python_version_tuple()[:2])
    return (
        f"FROM python:{python}-slim\n{latex if with_latex else ''}WORKDIR /artifact\nCOPY . .\n"
        "RUN pip install --no-cache-dir -r environment.txt\n"
        "ENV PYTHONPATH=/artifact/code\n"
        'CMD ["python", "rebuild.py"]\n'
    )
