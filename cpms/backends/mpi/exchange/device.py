"""One GPU a rank."""

from __future__ import annotations

from typing import Any

from cpms.backends.cuda.runtime import current
from cpms.backends.cuda.runtime.compile import CudaBackend, missing
from cpms.backends.mpi.exchange import world
from cpms.base.errors import UnavailableError


def take(communicator: Any) -> None:
    """Make a device of this host current that no other rank uses; collective.

    Ranks take devices in turn, so that a launcher may as well show each rank one of its own. Nothing happens where
    kernels run on the processor.

    Raises
    ------
    UnavailableError
        If there is none, or two ranks would share one.
    """
    if current.chosen() and not isinstance(current.current(), CudaBackend):
        return
    with world.of_host(communicator) as here:
        reasons = [reason for reason in here.allgather(missing()) if reason]
        if reasons:
            raise UnavailableError(f"ranks cannot multiply by engine 'cuda' here: {reasons[0]}")
        import cupy

        _in_turn(here.rank)
        ranks, devices = here.size, len(set(here.allgather(cupy.cuda.Device().pci_bus_id)))
    if devices < ranks:
        raise UnavailableError(
            f"{ranks} ranks on this host need a GPU each, but it has {devices}; start as many ranks as GPUs"
        )


def share(communicator: Any) -> None:
    """Make devices of this host current in turn, shared by ranks if need be; do nothing without devices."""
    if missing():
        return
    with world.of_host(communicator) as here:
        _in_turn(here.rank)


def _in_turn(rank: int) -> None:
    import cupy

    cupy.cuda.Device(rank % cupy.cuda.runtime.getDeviceCount()).use()
