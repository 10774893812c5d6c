"""The MPI communicator of this program, and the end of all ranks when one fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import TracebackType
from typing import Any

from cpms.base.errors import CpmsError

_STARTED = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
"""Environment variables of MPICH's and Open MPI's launchers with the number of ranks."""


def missing() -> str | None:
    """Return the reason why MPI is not available, as a sentence; None if it is."""
    try:
        from mpi4py import MPI
    except ImportError:
        return "mpi4py is not installed; pip install 'cpms[mpi]', which brings an MPI library along"
    except RuntimeError as error:
        return f"mpi4py finds no MPI library ({' '.join(str(error).split())}); pip install mpich, or load one"
    said = [os.environ.get(name, "") for name in _STARTED]
    started = max([int(number) for number in said if number.isdecimal()], default=1)
    if started > MPI.COMM_WORLD.size:
        library = MPI.Get_library_version().partition("\n")[0].strip()
        return (
            f"mpiexec started {started} ranks, but mpi4py uses another MPI library ({library}), for which each is "
            "alone; start them with that library's mpiexec, or name the other in MPI4PY_MPIABI"
        )
    return None


@cache
def world() -> Any:
    """Return the communicator of all ranks: one, where the program was not started by ``mpiexec``.

    From now on an exception that nothing catches ends the program on every rank; the others would wait for the failed
    one for ever.
    """
    from mpi4py import MPI

    communicator = MPI.COMM_WORLD
    if communicator.size > 1:
        shown = sys.excepthook

        def end_all(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            shown(kind, error, trace)
            sys.stderr.flush()
            communicator.Abort(error.exit_code if isinstance(error, CpmsError) else 1)

        sys.excepthook = end_all
    return communicator


@cache
def ranks_here() -> int:
    """Return the number of ranks on this machine, which share its processors."""
    return count_here(world())


def count_here(communicator: Any) -> int:
    """Return the number of ranks of a communicator on this machine; collective."""
    with of_host(communicator) as here:
        return int(here.size)


@contextmanager
def of_host(communicator: Any) -> Iterator[Any]:
    """Yield the communicator of those ranks that share this machine's memory, and free it after; collective."""
    from mpi4py import MPI

    here = communicator.Split_type(MPI.COMM_TYPE_SHARED)
    try:
        yield here
    finally:
        here.Free()
