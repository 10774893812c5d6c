"""``cpms doctor``: lists the libraries and devices of this machine, and the command that installs what is missing."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from cpms.base.text.terminal import say
from cpms.base.text.terminal_table import text_table

_LIBRARIES = {
    **dict.fromkeys(("numpy", "scipy", "numba", "pandas", "matplotlib", "pyarrow"), ""),
    "cupy-cuda13x": "cuda13",
    "cupy-cuda12x": "cuda12",
    "mpi4py": "mpi",
    "pyopencl": "opencl",
    "networkx": "networkx",
    "backports.zstd": "zst",
}
"""Libraries, and the extra of this package that installs each; none: the package itself does."""
_EITHER = ("cupy-cuda13x", "cupy-cuda12x")
"""Libraries of which one is enough: that of the driver's version of CUDA."""
_ABSENT = "not installed"


def add(parsers: Any) -> None:
    """Describe the command."""
    parsers.add_parser(
        "doctor",
        help="say what works on this machine, and how to mend what does not",
        description="List the libraries and the memory of this machine, the folder of graphs and the engines that can "
        "run, and for all that is missing the command that installs it.",
        epilog="example: cpms doctor",
    )


def call(arguments: argparse.Namespace) -> int:  # noqa: ARG001
    """Run the command."""
    import psutil

    import cpms
    from cpms import engines
    from cpms.backends.cuda.kernels import cubins
    from cpms.base import threads
    from cpms.base.host_memory import free_bytes
    from cpms.cli.engines import table
    from cpms.experiment.artifact.paper import PACKAGES
    from cpms.sources import datasets

    memory = psutil.virtual_memory()
    facts: list[list[object]] = [
        ["cpms", cpms.__version__],
        ["python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"],
        ["threads", threads.available()],
        ["memory", f"{free_bytes() / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free"],
        ["cache folder", datasets.cache_folder()],
        ["CUDA kernels in this wheel", cubins.described()],
    ]
    versions = {name: _version(name) for name in _LIBRARIES if name != "backports.zstd" or sys.version_info < (3, 14)}
    data_folder = os.environ.get("CPMS_DATA")
    rows = [[*fact, ""] for fact in facts]
    rows.insert(4, ["data folder", data_folder or "none", "" if data_folder else "export CPMS_DATA=FOLDER"])
    rows += [[name, version, mending(name, versions)] for name, version in versions.items()]
    latex = shutil.which("pdflatex")
    rows.append(["pdflatex", latex or _ABSENT, "" if latex else f"apt-get install {' '.join(PACKAGES)}"])
    say(*text_table(["what", "found", "what mends it"], rows), "", *table(engines.names()))
    return 0


def mending(name: str, versions: Mapping[str, str]) -> str:
    """Return the command that installs a library, empty if it is there or another takes its place.

    Examples
    --------
    >>> absent = "not installed"
    >>> mending("mpi4py", {"mpi4py": absent}), mending("scipy", {"scipy": "1.17"}), mending("scipy", {"scipy": absent})
    ("pip install 'cpms[mpi]'", '', 'pip install scipy')
    """
    alike = _EITHER if name in _EITHER else (name,)
    if any(versions.get(each, _ABSENT) != _ABSENT for each in alike):
        return ""
    extra = _LIBRARIES[name]
    return f"pip install 'cpms[{extra}]'" if extra else f"pip install {name}"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return _ABSENT
