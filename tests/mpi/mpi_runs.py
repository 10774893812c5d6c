"""Runs of several ranks, for tests: each is a process of its own under ``mpiexec``."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from cpms import Graph, UnavailableError
from cpms.backends.cuda.runtime.compile import missing
from cpms.backends.cuda.runtime.host_emulation import HostBackend
from cpms.backends.mpi.exchange import world
from cpms.mpi import launch

TIMEOUT_S = 120
MORE_RANKS_THAN_CORES = {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
"""Open MPI 4 and 5 refuse more ranks than cores otherwise."""
_CATALOGUE = Path(__file__).parents[1] / "cuda"
"""Folder of ``kernel_catalogue.py``, which ranks import."""


def start(ranks, *arguments):
    """Start so many ranks of Python with these arguments; the test is skipped where MPI is missing."""
    return _start(["-n", str(ranks), sys.executable, *map(str, arguments)])


def _start(arguments):
    try:
        launcher = launch.mpiexec()
    except UnavailableError as error:
        pytest.skip(str(error))
    command = [launcher, *arguments]
    paths = [str(_CATALOGUE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**launch.environment(), **MORE_RANKS_THAN_CORES, "PYTHONPATH": os.pathsep.join(paths)},
    )


def run(ranks, *arguments, timeout=TIMEOUT_S):
    """Return exit code, output and errors of so many ranks; time that runs out fails the test."""
    return _ended(start(ranks, *arguments), ranks, timeout)


def run_apart(*each, timeout=TIMEOUT_S):
    """Return what `run` does, of one rank of Python for each list of arguments."""
    parts = [[":", "-n", "1", sys.executable, *map(str, arguments)] for arguments in each]
    return _ended(_start([word for part in parts for word in part][1:]), len(each), timeout)


def _ended(process, ranks, timeout):
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        pytest.fail(f"{ranks} ranks hung for {timeout} s: {errors}")
    return process.returncode, output, errors


def kernels_on_host(request, wanted):
    """Return the folder of these kernels for this machine, built before ranks ask; the test needs MPI."""
    if world.missing():
        pytest.skip(world.missing())
    built = request.getfixturevalue("host_backend")
    HostBackend.compile(built, wanted)  # The program that ranks ask for, whatever is compiled already.
    return built._folder


def devices():
    """Return the number of GPUs."""
    return 0 if missing() else import_module("cupy").cuda.runtime.getDeviceCount()


def weighted(graph):
    return Graph(graph.indptr, graph.sources, np.random.default_rng(1).random(graph.edges) + 0.1, "w", 1)
