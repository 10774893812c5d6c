"""What samples of edges in device memory promise of all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.template import WHOLE_VALUES
from cpms.backends.cuda.runtime.current import current

_SECTOR_BYTES = 32
_SAMPLED = 4096
"""Steps looked at."""


def gathered_bytes(sources: Any, value_bytes: int) -> float:
    """Return about how many bytes of sectors steps gather whose values are at ``sources``, a device array by slot.

    A sector counts once a step: what a warp gathers again is in the first-level cache.
    """
    steps = int(sources.size) // WHOLE_VALUES
    return _SECTOR_BYTES * steps * distinct(_sampled(sources) // np.uint32(_SECTOR_BYTES // value_bytes))


def share_below(sources: Any, node: int) -> float:
    """Return about what share of ``sources``, a device array by slot, is below a node."""
    return float((_sampled(sources) < np.uint32(node)).mean())


def distinct(numbers: Any) -> float:
    """Return how many different numbers there are in a row of a device array, on average."""
    ordered = current().arrays.sort(numbers, axis=1)
    return 1.0 + int((ordered[:, 1:] != ordered[:, :-1]).sum()) / len(numbers)


def _sampled(sources: Any) -> Any:
    """Return sources of some steps, shape (steps, 256), on the device."""
    steps = sources.reshape(-1, WHOLE_VALUES)
    picked = np.linspace(0, len(steps), min(_SAMPLED, len(steps)), endpoint=False)
    return steps[current().arrays.asarray(picked.astype(np.int64))]
