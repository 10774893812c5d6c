"""Out-degrees, counted on the device by ``preprocess/padded_csr.cu``."""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.template import Variant
from cpms.backends.cuda.runtime.current import current
from cpms.base.errors import InputError

_COUNT_SOURCES = Variant("count_sources")


def counted(sources: Any, nodes: int, name: str) -> Any:
    """Return how many edges leave each node, a device array of uint32, from the edges' sources on the device.

    Raises
    ------
    InputError
        If an edge begins at no node.
    """
    counts = current().arrays.zeros(nodes + 1, np.uint32)
    arguments = sources, np.uint64(len(sources)), np.uint32(nodes), counts
    current().run(_COUNT_SOURCES, current().grid_size(len(sources)), arguments)
    if current().to_host(counts[-1:])[0]:
        raise InputError(f"a source of {name} is not among 0 to {nodes - 1}; each must be one of these")
    return counts[:-1]
