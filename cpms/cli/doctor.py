"""``cpms doctor``: lists the libraries and devices of this machine, and those that are missing."""

from __future__ import annotations

import argparse
import os
import platform
from importlib import metadata
from typing import Any

from cpms.base.text.terminal import say
from cpms.base.text.text_table import text_table

_LIBRARIES = (
    "numpy",
    "scipy",
    "numba",
    "pandas",
    "matplotlib",
    "pyarrow",
    "cupy-cuda13x",
    "cupy-cuda12x",
    "mpi4py",
    "pyopencl",
)


def add(parsers: Any) -> None:
    """Describe the command."""
    parsers.add_parser(
        "doctor",
        help="say what works on this machine",
        description="Say what this machine has, which engines can run and where graphs are looked for.",
        epilog="example: cpms doctor",
    )


def call(arguments: argparse.Namespace) -> int:  # noqa: ARG001
    """Run the command."""
    import psutil

    import cpms
    from cpms import engines
    from cpms.base import threads
    from cpms.base.host_memory import free_bytes
    from cpms.cli.engines import table
    from cpms.sources import datasets

    memory = psutil.virtual_memory()
    facts: list[list[object]] = [
        ["cpms", cpms.__version__],
        ["python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"],
        ["threads", threads.available()],
        ["memory", f"{free_bytes() / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free"],
        ["data folder", os.environ.get("CPMS_DATA") or "none; set CPMS_DATA to a folder of graphs"],
        ["cache folder", datasets.cache_folder()],
    ]
    facts += [[name, _version(name)] for name in _LIBRARIES]
    say(*text_table(["what", "found"], facts), "", *table(engines.names()))
    return 0


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
