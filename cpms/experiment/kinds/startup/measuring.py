"""Cold starts: the time of ``cpms rank`` from the start of its process to its end.

The time includes Python's start, imports, compilation or its cache, the reading or the generation of the graph, the
solve and the certificate. Python's byte code and the file cache of the operating system are kept. The graph of a cell
is loaded once before, so that no download is timed.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

import cpms
from cpms.api.pagerank import Method
from cpms.base.errors import CpmsError, InputError, UnavailableError, UnsupportedError
from cpms.experiment.config import Cell, Repeated, Strict
from cpms.experiment.config_types import EngineName, GraphName
from cpms.experiment.graph_cache import OnGraphs, graph_columns
from cpms.experiment.rows.outcome import FAILURES, OK, failure
from cpms.sources import datasets

CACHES = {
    "NUMBA_CACHE_DIR": "numba",
    "CUPY_CACHE_DIR": "cupy",
    "CUDA_CACHE_PATH": "cuda",
    "POCL_CACHE_DIR": "pocl",
    "XDG_CACHE_HOME": "others",
}
"""Environment variables of the folders for compiled code, each with the folder's name among those of a run."""
_FLOORS = ("import cpms", "import numba")
"""Programs whose times are floors: all commands import cpms, and those on processors import Numba."""


class Command(Strict):
    """A call of ``cpms rank``, with ``empty`` folders for compiled code or with those of its own earlier runs."""

    method: Method
    engine: EngineName
    caches: Literal["empty", "warm"] = "empty"


class Config(Repeated):
    """The fields of such an experiment.

    In each of ``rounds`` all commands run once, in turn, and so do processes that import cpms or Numba and end. A
    command with ``warm`` caches also runs once before the first round. ``affinity`` limits the processors of commands;
    ``threads`` is refused.
    """

    graphs: list[GraphName] = Field(min_length=1)
    commands: list[Command] = Field(min_length=1)
    rounds: int = Field(default=5, ge=1)
    timeout_s: float = Field(default=600, gt=0)

    @model_validator(mode="after")
    def _without_threads(self) -> Config:
        if self.threads is not None:
            raise ValueError("threads: a command of its own process has no such limit; set affinity instead")
        return self

    def cells(self) -> list[Cell]:
        """Return one cell a graph and repetition; its commands take turns."""
        commands = [command.model_dump() for command in self.commands]
        fixed = {"commands": commands, "rounds": self.rounds, "timeout_s": self.timeout_s}
        return self.repeated(({"graph": graph} for graph in self.graphs), **fixed)


class Context(OnGraphs):
    """The graph of consecutive cells, for its size."""

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Time all commands of a cell, and the imports alone."""
        graph = self.graph_of(cell)
        source = str(datasets.locate(cell["graph"]) or cell["graph"])
        with tempfile.TemporaryDirectory(prefix="cpms-startup-") as folder:
            timers = [
                _Timer(given, _arguments(given, source), cell["timeout_s"], Path(folder) / str(place))
                for place, given in enumerate(cell["commands"])
            ]
            timers += [_Timer({"name": text}, ["-c", text], cell["timeout_s"]) for text in _FLOORS]
            for _ in range(cell["rounds"]):
                for timer in timers:
                    timer.run()
        return {**graph_columns(graph), "results": [timer.columns() for timer in timers]}


def _arguments(given: dict[str, Any], source: str) -> list[str]:
    return ["-m", "cpms", "rank", "--method", given["method"], "--engine", given["engine"], "--top", "0", "--", source]


class _Timer:
    """The samples of a process in seconds; after a failure it runs no more. Without a folder it has the user's."""

    def __init__(
        self, given: dict[str, Any], arguments: list[str], timeout_s: float, folder: Path | None = None
    ) -> None:
        self._given, self._arguments, self._timeout_s, self._folder = given, arguments, timeout_s, folder
        self._samples: list[float] = []
        self._failed: dict[str, str] | None = None
        if given.get("caches") == "warm":
            self.run()
            self._samples.clear()

    def run(self) -> None:
        """Add the time of a run, in new folders where caches are empty."""
        if self._failed:
            return
        if self._given.get("caches") == "empty" and self._folder and self._folder.exists():
            shutil.rmtree(self._folder)
        variables = cache_folders(self._folder) if self._folder else {}
        try:
            self._samples.append(timed(self._arguments, variables, self._timeout_s))
        except FAILURES as error:
            self._failed = failure(error)

    def columns(self) -> dict[str, Any]:
        """Return the columns of a result."""
        if self._failed:
            return {**self._given, **self._failed}
        times = {"run_s": statistics.median(self._samples), "run_samples_s": self._samples}
        return {**self._given, "status": OK, **times}


def cache_folders(folder: Path) -> dict[str, str]:
    """Return environment variables by which libraries keep compiled code below a folder.

    Examples
    --------
    >>> Path(cache_folders(Path("/tmp/new"))["NUMBA_CACHE_DIR"]).parts[-2:]
    ('new', 'numba')
    """
    return {variable: str(folder / name) for variable, name in CACHES.items()}


def timed(arguments: list[str], variables: dict[str, str], timeout_s: float) -> float:
    """Return the seconds of a process of this Python, which imports this package and no other of its name.

    Raises
    ------
    UnsupportedError
        If the process refuses its arguments.
    UnavailableError
        If it fails otherwise, or takes longer than ``timeout_s``.

    Examples
    --------
    >>> timed(["-c", "pass"], {}, 60.0) > 0
    True
    """
    path = os.pathsep.join(filter(None, [str(Path(cpms.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    command, environment = [sys.executable, "-P", *arguments], {**os.environ, "PYTHONPATH": path, **variables}
    called = " ".join(arguments)
    began = time.perf_counter()
    try:
        done = subprocess.run(  # noqa: S603
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"python {called} took longer than {timeout_s:g} s") from None
    seconds = time.perf_counter() - began
    if done.returncode:
        lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
        reason = next((line for line in lines if line.startswith("cpms: error")), lines[-1] if lines else None)
        kind: type[CpmsError] = UnsupportedError if done.returncode == InputError.exit_code else UnavailableError
        raise kind(f"python {called}: {reason or f'exit code {done.returncode}'}")
    return seconds
