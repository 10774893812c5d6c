"""Compressed column indices: a base a tile of 256 entries, and offsets of 16 bits where these suffice.

Delta encoding against a base, as in compressed CSR formats (Kourtis et al., 2008), but with offsets of fixed width so
that each lane decodes its own entries. An index takes 2 bytes in place of 4, or 4 in a wide tile, whose sources span
2^15 nodes or more; decoding costs some instructions an entry. See ``persistent/compressed_indices.cuh``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.backends.cuda.kernels.structs import COMPRESSED_INDICES
from cpms.backends.cuda.kernels.template import INDEX_COMPRESSION, WHOLE_VALUES
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.backends.cuda.runtime.structs import pack
from cpms.backends.cuda.spmv import padded_csr

_COMPUTE_BASES, _COMPRESS = INDEX_COMPRESSION
_WIDE = np.uint32(1 << 31)
_NEXT_TILE_BYTES = 8 / WHOLE_VALUES
"""Bytes an entry for the next tile of the same warp and the base of that tile."""
_NODE_BYTES = 3
"""Bytes a node that inner sweeps stream: its degree and the value written."""
_MIN_SAVED = 0.05
"""Least saving, as a part of the bytes that a 16-bit sweep streams, from which compressed indices were faster on an
H100.
"""

_DENSE, _FAST_BANDWIDTH = 6, 4e12
"""Edges a node, and memory bytes a second, above which instructions an edge and not bytes limit a sweep, so that
decoding does not pay.
"""


@dataclass(frozen=True, eq=False)
class CompressedIndices:
    """The source of each entry, compressed.

    Parameters
    ----------
    low_offsets : device array of uint16, shape (tiles * 256,)
        Offsets, or the low halves of the offsets of wide tiles, in the order in which lanes load them.
    high_offsets : device array of uint16, shape (max(wide, 1) * 256,)
        High halves of the offsets of wide tiles.
    bases : device array of uint32, shape (tiles,)
        Node that a tile's offsets count from; for a wide tile 2^31 plus its index among the wide tiles.
    wide : int
        Number of wide tiles.
    padding_index : int
        Index of an element of x that is always 0.
    """

    low_offsets: Any
    high_offsets: Any
    bases: Any
    wide: int
    padding_index: int

    @classmethod
    def of(cls, sources: Any, padding_index: int, bases: Any) -> CompressedIndices:
        """Compress sources.

        Parameters
        ----------
        sources : device array of uint32, shape (tiles * 256,)
            At most ``padding_index``.
        bases : device array of uint32, shape (tiles,)
            The result of `compute_bases`.
        """
        backend = current()
        arrays, tiles = backend.arrays, len(bases)
        sizes = np.uint32(tiles), np.uint32(padding_index)
        is_wide = bases >= _WIDE
        wide_before = arrays.cumsum(is_wide)
        wide = int(backend.to_host(wide_before[-1:])[0])
        bases = arrays.where(is_wide, _WIDE + (wide_before - 1).astype(np.uint32), bases)
        low_offsets = arrays.empty(tiles * WHOLE_VALUES, np.uint16)
        high_offsets = arrays.empty(max(wide, 1) * WHOLE_VALUES, np.uint16)
        backend.run(_COMPRESS, _blocks(tiles), (sources, *sizes, bases, low_offsets, high_offsets))
        return cls(low_offsets, high_offsets, bases, wide, padding_index)

    @property
    def tiles(self) -> int:
        """Number of tiles of 256 entries."""
        return len(self.bases)

    @property
    def argument(self) -> Struct:
        """The kernel argument."""
        offsets = {"low": self.low_offsets, "high": self.high_offsets}
        return pack(COMPRESSED_INDICES, **offsets, bases=self.bases, padding_index=self.padding_index)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(int(part.nbytes) for part in (self.low_offsets, self.high_offsets, self.bases))

    @property
    def entry_bytes(self) -> float:
        """Mean bytes that a sweep reads for the source of an entry."""
        return _entry_bytes(self.wide / self.tiles)


def compute_bases(sources: Any, padding_index: int) -> Any:
    """Return the base of each tile; 2^31 if it is wide, with sources 2^15 nodes apart or more."""
    current().compile(INDEX_COMPRESSION)
    tiles = sources.size // WHOLE_VALUES
    bases = current().arrays.empty(tiles, np.uint32)
    current().run(_COMPUTE_BASES, _blocks(tiles), (sources, np.uint32(tiles), np.uint32(padding_index), bases))
    return bases


def is_worthwhile(bases: Any, nodes: int) -> bool:
    """Return whether sweeps over ``nodes`` nodes are faster with these bases, for graphs beyond the device's cache."""
    entries, wide = len(bases) * WHOLE_VALUES, float((bases >= _WIDE).mean())
    if entries > _DENSE * nodes and current().memory_bandwidth > _FAST_BANDWIDTH:
        return False
    saved = (padded_csr.ENTRY_BYTES - padded_csr.FLAG_BYTES - _entry_bytes(wide)) * entries
    return saved >= _MIN_SAVED * (padded_csr.ENTRY_BYTES * entries + _NODE_BYTES * nodes)


def next_tiles(begins: npt.NDArray[np.int64], warps: int) -> npt.NDArray[np.int64]:
    """Return the next tile of the same warp after each tile.

    After a range's last tile this is the first tile of the warp's next range, if any.

    Parameters
    ----------
    begins : array
        First tile of each warp range, and one past the last tile.
    warps : int
        Number of warps: warp w processes ranges w, w + warps, and so on.

    Examples
    --------
    >>> next_tiles(np.array([0, 2, 4, 5]), 2).tolist()
    [1, 4, 3, 3, 4]
    """
    next_tile = np.arange(1, begins[-1] + 1)
    last_tiles = begins[1:] - 1
    next_tile[last_tiles] = last_tiles
    next_tile[last_tiles[:-warps]] = begins[warps:-1]
    return next_tile


def _entry_bytes(wide: float) -> float:
    return 2 * (1 + wide) + _NEXT_TILE_BYTES


def _blocks(tiles: int) -> int:
    return current().grid_size(32 * tiles)
