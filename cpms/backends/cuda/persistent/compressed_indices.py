"""Compressed column indices: a base for each tile of 256 entries, and offsets of 16 bits where these suffice.

See ``persistent/compressed_indices.cuh``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.kernels.template import INDEX_COMPRESSION, WHOLE_VALUES
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv import padded_csr

_FIND_HEADS, _ENCODE = INDEX_COMPRESSION
_FAR = np.uint32(1 << 31)
_FOLLOWING_BYTES = 8 / WHOLE_VALUES
"""Of a slot, for the step behind its own and the head of that."""
_NODE_BYTES = 3
"""What low sweeps stream of a node: its degree, and the value written."""
_LEAST_SAVED = 0.05
"""Share of what a 16-bit sweep streams from which less of it was faster on an H100: with 23 to 38 % less on webs,
meshes and roads, not with as much on copies of a web, a mesh of far sources, and R-MAT."""

_DENSE, _FAST_MEMORY = 6, 4e12
"""Edges a node, and bytes a second of memory, above which edges, not bytes, take the time of a sweep: by codes, which
need more instructions an edge, 16-bit ones of two webs took 5 and 7 % longer on an H200; one of them 8 % less on an
H100."""


@dataclass(frozen=True, eq=False)
class Codes:
    """The source of each slot.

    Parameters
    ----------
    low : device array of uint16, shape (steps * 256,)
        Codes, or low halves of those of far steps, as lanes load them.
    high : device array of uint16, shape (max(far, 1) * 256,)
        High halves of those of far steps.
    heads : device array of uint32, shape (steps,)
        From which node a step's codes count; of far steps 2^31, and their place among these.
    far : int
        How many steps are far.
    nowhere : int
        Where there is always a 0.
    """

    low: Any
    high: Any
    heads: Any
    far: int
    nowhere: int

    @classmethod
    def of(cls, sources: Any, nowhere: int, heads: Any) -> Codes:
        """Put sources into codes.

        Parameters
        ----------
        sources : device array of uint32, shape (steps * 256,)
            At most ``nowhere``.
        heads : device array of uint32, shape (steps,)
            What `find_heads` returns.
        """
        backend = current()
        arrays, steps = backend.arrays, len(heads)
        sizes = np.uint32(steps), np.uint32(nowhere)
        is_far = heads >= _FAR
        before = arrays.cumsum(is_far)
        far = int(backend.to_host(before[-1:])[0])
        heads = arrays.where(is_far, _FAR + (before - 1).astype(np.uint32), heads)
        low = arrays.empty(steps * WHOLE_VALUES, np.uint16)
        high = arrays.empty(max(far, 1) * WHOLE_VALUES, np.uint16)
        backend.run(_ENCODE, _blocks(steps), (sources, *sizes, heads, low, high))
        return cls(low, high, heads, far, nowhere)

    @property
    def steps(self) -> int:
        """Steps of 256 slots."""
        return len(self.heads)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What a kernel takes, in its order."""
        return self.low, self.high, self.heads, np.uint32(self.nowhere)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(int(part.nbytes) for part in self.arguments)

    @property
    def slot_bytes(self) -> float:
        """Bytes that a sweep reads of a slot for its source, on average."""
        return _slot_bytes(self.far / self.steps)


def find_heads(sources: Any, nowhere: int) -> Any:
    """Return from which node codes count in each step; 2^31 if it is far, with sources 2^15 nodes apart, or more."""
    current().compile(INDEX_COMPRESSION)
    steps = sources.size // WHOLE_VALUES
    heads = current().arrays.empty(steps, np.uint32)
    current().run(_FIND_HEADS, _blocks(steps), (sources, np.uint32(steps), np.uint32(nowhere), heads))
    return heads


def pay(heads: Any, nodes: int) -> bool:
    """Return whether sweeps over so many nodes are faster by codes with these heads, beyond the device's cache."""
    slots, far = len(heads) * WHOLE_VALUES, float((heads >= _FAR).mean())
    if slots > _DENSE * nodes and current().memory_bandwidth > _FAST_MEMORY:
        return False
    saved = (padded_csr.ENTRY_BYTES - padded_csr.FLAG_BYTES - _slot_bytes(far)) * slots
    return saved >= _LEAST_SAVED * (padded_csr.ENTRY_BYTES * slots + _NODE_BYTES * nodes)


def following(begins: npt.NDArray[np.int64], warps: int) -> npt.NDArray[np.int64]:
    """Return the step that a warp walks behind each: behind a stretch's last one its next stretch's first, if any.

    Parameters
    ----------
    begins : array
        First step of each stretch, and behind the last.
    warps : int
        After how many stretches a warp's next one comes.

    Examples
    --------
    >>> following(np.array([0, 2, 4, 5]), 2).tolist()
    [1, 4, 3, 3, 4]
    """
    behind = np.arange(1, begins[-1] + 1)
    lasts = begins[1:] - 1
    behind[lasts] = lasts
    behind[lasts[:-warps]] = begins[warps:-1]
    return behind


def _slot_bytes(far: float) -> float:
    return 2 * (1 + far) + _FOLLOWING_BYTES


def _blocks(steps: int) -> int:
    return current().spread(32 * steps)
