"""Arrays of compressed sparse rows (CSR) with unsigned indices.

Compiled loops read them as they are: an unsigned index spares the test for negative indices that Numba compiles for
signed ones, and row starts of 4 bytes halve their traffic. Sources are a view, so only row starts cost memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.graph.graph import Graph


def unsigned_indptr(graph: Graph) -> npt.NDArray[Any]:
    """Return row starts in 4 bytes if there are few enough edges, else in 8."""
    dtype = np.uint32 if graph.edges < 2**32 else np.uint64
    return graph.indptr.astype(dtype)


def unsigned_sources(graph: Graph) -> npt.NDArray[Any]:
    """Return the sources as unsigned integers, without a copy."""
    return graph.sources.view(f"uint{8 * graph.sources.itemsize}")
