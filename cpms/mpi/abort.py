"""The end of all ranks after an error of one: it is reported once, and no rank waits for one that has ended."""

from __future__ import annotations

import sys
import time

from cpms.backends.mpi.exchange import world
from cpms.base.program import report

_WAIT_S = 1.0
"""How long a rank with an error waits for rank 0 to report the same one."""
_FORWARDING_S = 0.3
"""How long ``mpiexec`` has to pass on what was printed; on an abort it drops the rest."""


def abort(code: int, text: str | None) -> int:
    """Report an error, end all ranks with its exit code, and return that where this rank is alone.

    An error without text, such as an interrupt, does not wait for an MPI library to be loaded.
    """
    alone = text is None and "mpi4py.MPI" not in sys.modules
    if alone or world.missing():
        return report(code, text)
    communicator = world.world()
    if text is not None and communicator.rank > 0:
        time.sleep(_WAIT_S)
    report(code, text)
    if communicator.size > 1:
        time.sleep(_FORWARDING_S)
        communicator.Abort(code)
    return code
