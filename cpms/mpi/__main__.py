"""``mpiexec -n RANKS python -m cpms.mpi GRAPH``: rank a graph of which each rank holds a part.

Exit codes are those of ``cpms``: 0 converged, 1 not converged, 2 bad usage or input, 3 no MPI, 130 interrupted. On an
error every rank ends, with that code where ``mpiexec`` passes it on.
"""

from __future__ import annotations

import sys

from cpms.base.program import run_program
from cpms.mpi.abort import abort


def main() -> int:
    """Run this rank and return its exit code; its libraries are loaded here, so that errors of that are reported."""
    return run_program(_call, abort)


def _call() -> int:
    from cpms.mpi.command import call

    return call()


if __name__ == "__main__":
    sys.exit(main())
