"""Runs of several ranks, for tests: each is a process of its own under ``mpiexec``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cpms.mpi import world

TIMEOUT_S = 120


def mpiexec():
    """Return the path of ``mpiexec``; the test is skipped where it or MPI is missing."""
    if world.missing():
        pytest.skip(world.missing())
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if not found:
        pytest.skip("there is no mpiexec; pip install mpich")
    return found


def start(ranks, *arguments):
    """Start so many ranks of Python with these arguments."""
    command = [mpiexec(), "-n", str(ranks), sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(ranks, *arguments, timeout=TIMEOUT_S):
    """Return exit code, output and errors of so many ranks; time that runs out fails the test."""
    process = start(ranks, *arguments)
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        pytest.fail(f"{ranks} ranks hung for {timeout} s: {errors}")
    return process.returncode, output, errors
