"""Launch shapes of persistent kernels: threads a block, and blocks that a multiprocessor holds at once.

A persistent kernel runs many sweeps in one cooperative launch, so that all of its blocks must be resident. Its shape
bounds the registers of a thread (``__launch_bounds__``), and the shared memory of its strategy bounds the rest.
"""

from __future__ import annotations

from typing import NamedTuple


class Shape(NamedTuple):
    """Threads a block and resident blocks a multiprocessor.

    Parameters
    ----------
    threads : int
        In a block.
    blocks_per_processor : int
        Blocks that a multiprocessor holds at once, so that a thread may have 65,536 / (threads x blocks) registers.

    Examples
    --------
    >>> Shape(384, 2).warps, Shape(384, 2).registers
    (12, 80)
    """

    threads: int
    blocks_per_processor: int

    @property
    def warps(self) -> int:
        """Warps in a block."""
        return self.threads // 32

    @property
    def registers(self) -> int:
        """Registers that a thread may have, on devices of 65,536 a multiprocessor."""
        return 65536 // (self.threads * self.blocks_per_processor) // 8 * 8


DEFAULT_SHAPE = Shape(512, 2)
"""Shape of kernels whose speed depends on the number of memory requests in flight alone."""
SHAPES = {16: Shape(512, 1), 24: Shape(384, 2)}
"""Shapes of sweeps over edges, by warps a multiprocessor. With 32 warps a thread would have 64 registers, and gathered
values would spill."""

SHARED_MEMORY_SHAPE = SHAPES[16]
"""Shape of strategies that stage values in shared memory; see ``persistent/strategies.cuh``."""
PANEL_OCTETS = 2944
"""Octets of nodes whose values a panel of the tiled gather holds at most in shared memory."""
MAX_STAGED_BYTES = 2
"""Bytes of a value, at most, that inner sweeps stage in shared memory."""
PANEL_SHARED_BYTES = 2 * PANEL_OCTETS * (8 * MAX_STAGED_BYTES + 4)
"""Shared memory of the tiled gather: values and octet lists of two panels, one in use and one being loaded."""

HUB_SHARED_BYTES = 128 << 10
"""Shared memory of the hub cache, which holds the values of the first nodes; see ``persistent/hub_cache.cuh``."""
BLOCKING_SHARED_BYTES = 178 << 10
"""Shared memory of propagation blocking: the values of a range of nodes, or two bins, one in use and one being loaded.
See ``persistent/propagation_blocking.cuh``. These kernels need up to 43 KiB besides, of the 227 KiB of a block."""

MAX_WINDOW_SUMS = 2560
"""Rows whose sums shared memory holds, twice; as ``max_window_sums`` in ``persistent/sell_slices.cuh``."""


class BlockingSizes(NamedTuple):
    """Nodes in a range, and octets of values in a bin, at most; see ``persistent/propagation_blocking.cuh``."""

    nodes: int
    octets: int


def blocking_sizes(value_bytes: int) -> BlockingSizes:
    """Return the largest range of nodes and the largest bin of propagation blocking, for values of so many bytes.

    Examples
    --------
    >>> blocking_sizes(2)
    BlockingSizes(nodes=65536, octets=5696)
    >>> blocking_sizes(8)
    BlockingSizes(nodes=22784, octets=1424)
    """
    nodes = min(1 << 16, BLOCKING_SHARED_BYTES // value_bytes // 256 * 256)
    return BlockingSizes(nodes, min((1 << 16) // 8, BLOCKING_SHARED_BYTES // (2 * 8 * value_bytes) // 4 * 4))
