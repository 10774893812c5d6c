"""Estimates of the memory locality of gathers, from samples of the tiles in device memory.

The number of distinct sectors or cache lines in a thousand tiles estimates that of all: it costs one sort of a few
MB.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.template import WHOLE_VALUES
from cpms.backends.cuda.runtime.current import current

_SECTOR_BYTES = 32
_SAMPLED_TILES = 1024


def gathered_bytes(sources: Any, value_bytes: int) -> float:
    """Return about how many bytes of sectors the tiles gather; ``sources`` is a device array of the entries' indices.

    A sector counts once a tile: gathered again by the same warp it hits the first-level cache.
    """
    tiles = int(sources.size) // WHOLE_VALUES
    return _SECTOR_BYTES * tiles * mean_distinct(_sampled(sources) // np.uint32(_SECTOR_BYTES // value_bytes))


def fraction_below(sources: Any, node: int) -> float:
    """Return about what fraction of ``sources``, a device array of the entries' indices, is below a node."""
    return float((_sampled(sources) < np.uint32(node)).mean())


def mean_distinct(numbers: Any) -> float:
    """Return the mean number of distinct values in a row of a device array."""
    ordered = current().arrays.sort(numbers, axis=1)
    return 1.0 + int((ordered[:, 1:] != ordered[:, :-1]).sum()) / len(numbers)


def _sampled(sources: Any) -> Any:
    """Return the indices of evenly spaced tiles, shape (tiles, 256), on the device."""
    tiles = sources.reshape(-1, WHOLE_VALUES)
    picked = np.linspace(0, len(tiles), min(_SAMPLED_TILES, len(tiles)), endpoint=False)
    return tiles[current().arrays.asarray(picked.astype(np.int64))]
