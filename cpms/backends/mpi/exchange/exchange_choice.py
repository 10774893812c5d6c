"""The choice of an exchange: remote stores where ranks can, else the cheaper of halos and whole vectors."""

from __future__ import annotations

import numpy as np

from cpms.backends.cuda.arrays.vectors import padded
from cpms.backends.mpi.exchange.device_vectors import Exchange, HaloExchange, Which, WholeExchange
from cpms.backends.mpi.exchange.halo import Halo
from cpms.backends.mpi.exchange.peer_exchange import DirectExchange
from cpms.backends.mpi.exchange.transport import Transport
from cpms.backends.mpi.shares.rows import Bounds
from cpms.base.errors import UnavailableError

_WORTH = 0.75
"""A halo is chosen below this fraction of the bytes of a whole exchange, since it must be packed."""


def cheaper(halo: Halo, bounds: Bounds) -> Which:
    """Return the exchange with fewer bytes at the busiest rank; the result is the same on every rank.

    Examples
    --------
    >>> bounds = np.array([0, 2048, 4096])
    >>> [cheaper(Halo([], [], most), bounds) for most in (100, 2000)]
    ['halo', 'whole']
    """
    others = len(bounds) - 2
    return "halo" if halo.most <= _WORTH * _part_length(bounds) * others else "whole"


def chosen(transport: Transport, halo: Halo, bounds: Bounds) -> Which:
    """Return the direct exchange if ranks map each other's memory, else the `cheaper` one; every rank calls this."""
    return cheaper(halo, bounds) if transport.windows is None else "direct"


def exchange(which: Which, transport: Transport, halo: Halo, bounds: Bounds) -> Exchange:
    """Return the prepared exchange; every rank calls this."""
    if which == "whole":
        return WholeExchange(transport, _part_length(bounds))
    if which == "halo":
        return HaloExchange(transport, _part_length(bounds), halo)
    if transport.windows is None:
        raise UnavailableError("ranks cannot write into each other's memory; let them exchange another way")
    return DirectExchange(transport, _part_length(bounds), halo, transport.windows)


def _part_length(bounds: Bounds) -> int:
    return padded(int(np.diff(bounds).max()))
