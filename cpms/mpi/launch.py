"""Start ranks from a program outside MPI, and read their report: runs ``mpiexec`` as a child process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from cpms.backends.mpi.exchange import world
from cpms.base.errors import CpmsError, InputError, UnavailableError

_UNBOUND = dict.fromkeys(("OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy"), "none")
_AS_ROOT = dict.fromkeys(("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1")


def mpiexec() -> str:
    """Return the path of ``mpiexec``: Open MPI's by its own name, the one beside this Python, or the first on the path.

    Raises
    ------
    UnavailableError
        If MPI or its launcher is missing.
    """
    reason = world.missing()
    if reason:
        raise UnavailableError(f"ranks cannot run here: {reason}")
    beside = Path(sys.executable).with_name("mpiexec")
    named = shutil.which("mpiexec.openmpi") if _library().startswith("Open MPI") else None
    found = named or (str(beside) if beside.is_file() else shutil.which("mpiexec"))
    if not found:
        raise UnavailableError("there is no mpiexec to start ranks with; pip install mpich, or load an MPI module")
    return found


def environment() -> dict[str, str]:
    """Return the environment of ranks: by default, Open MPI binds each to one core, and refuses root."""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return {**_UNBOUND, **(_AS_ROOT if is_root else {}), **os.environ}


def report(ranks: int, source: str, options: list[str], *, timeout_s: float) -> dict[str, Any]:
    """Run ``python -m cpms.mpi`` on a number of ranks and return the JSON object that it prints.

    Raises
    ------
    InputError
        If the ranks refuse their input.
    UnavailableError
        If MPI is missing, or the ranks failed otherwise or took longer than ``timeout_s``.
    """
    found: dict[str, Any] = _printed(ranks, ["cpms.mpi", source, "--json", *options], source, timeout_s)
    return found


def answer(ranks: int, module: str, task: dict[str, Any], *, timeout_s: float) -> Any:
    """Run ``python -m module TASK`` on a number of ranks and return the output of rank 0; both are JSON.

    Raises
    ------
    InputError, UnavailableError
        As `report` does.
    """
    return _printed(ranks, [module, json.dumps(task)], module, timeout_s)


def _printed(ranks: int, arguments: list[str], what: str, timeout_s: float) -> Any:
    command = [mpiexec(), "-n", str(ranks), sys.executable, "-m", *arguments]
    piped: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment()}
    with subprocess.Popen(command, **piped) as process:  # noqa: S603
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.terminate()
            raise UnavailableError(f"{ranks} ranks took longer than {timeout_s:g} s on {what}") from None
    # Launchers may add lines of their own to the output, as Open MPI does once a rank has failed.
    objects = [line for line in output.splitlines() if line.startswith(("{", "["))]
    if process.returncode not in (0, 1) or not objects:
        kind: type[CpmsError] = InputError if process.returncode == InputError.exit_code else UnavailableError
        lines = [line for line in errors.splitlines() if line.strip()]
        reason = next((line for line in lines if line.startswith("cpms: error")), lines[-1] if lines else None)
        raise kind(f"{ranks} ranks on {what}: {reason or f'exit code {process.returncode}'}")
    return json.loads(objects[-1])


def versions() -> dict[str, str]:
    """Return the versions of mpi4py and of the MPI library, as rows record them."""
    return {"version_mpi4py": metadata.version("mpi4py"), "mpi_library": _library()}


def _library() -> str:
    """Return the name and version of the MPI library."""
    from mpi4py import MPI

    return " ".join(MPI.Get_library_version().split("\n")[0].split()).strip("\x00")
