"""How kernels that stay for many sweeps fill a device: threads in a block, and blocks a multiprocessor."""

from __future__ import annotations

from typing import NamedTuple


class Shape(NamedTuple):
    """Blocks that stay.

    Parameters
    ----------
    threads : int
        In a block.
    each : int
        Blocks that a multiprocessor holds at once, so that a thread may have 65,536 / (threads x each) registers.

    Examples
    --------
    >>> Shape(384, 2).warps, Shape(384, 2).registers
    (12, 80)
    """

    threads: int
    each: int

    @property
    def warps(self) -> int:
        """Warps in a block."""
        return self.threads // 32

    @property
    def registers(self) -> int:
        """Registers that a thread may have, on devices of 65,536 a multiprocessor."""
        return 65536 // (self.threads * self.each) // 8 * 8


FULL = Shape(512, 2)
"""Where all that counts is how much is on its way."""
SHAPES = {16: Shape(512, 1), 24: Shape(384, 2)}
"""Of sweeps over edges, by their warps a multiprocessor: with 64 registers a thread, 32 warps would wait for
gathered values that were put aside."""

BINNED = SHAPES[16]
"""Of those that have values in shared memory; see ``persistent/strategies.cuh``."""
BIN_GROUPS = 2944
"""Groups of eight nodes whose values a bin holds at most in shared memory."""
BINNED_BYTES = 2
"""Of a value, at most, that bins hold."""
BIN_SHARED_BYTES = 2 * BIN_GROUPS * (8 * BINNED_BYTES + 4)
"""Shared memory in which values and lists of two bins come and go."""

HOT_SHARED_BYTES = 128 << 10
"""Shared memory in which the first nodes' values lie; see ``persistent/hub_cache.cuh``."""
DEALT_SHARED_BYTES = 178 << 10
"""Shared memory in which values of a range of nodes lie, or come and go for two bins at a time.
See ``persistent/propagation_blocking.cuh``. These kernels take up to 43 KiB besides, of 227 KiB that a block may
have."""


MOST_STRANDS = 2560
"""Of rows, for whose sums there is room in shared memory, two times; as in ``persistent/sell_slices.cuh``."""


class DealtSizes(NamedTuple):
    """Nodes in a range, and groups of eight values in a bin, at most; see ``persistent/propagation_blocking.cuh``."""

    nodes: int
    groups: int


def dealt_sizes(value_bytes: int) -> DealtSizes:
    """Return how much ranges and bins hold at most.

    Examples
    --------
    >>> dealt_sizes(2)
    DealtSizes(nodes=65536, groups=5696)
    >>> dealt_sizes(8)
    DealtSizes(nodes=22784, groups=1424)
    """
    nodes = min(1 << 16, DEALT_SHARED_BYTES // value_bytes // 256 * 256)
    return DealtSizes(nodes, min((1 << 16) // 8, DEALT_SHARED_BYTES // (2 * 8 * value_bytes) // 4 * 4))
