"""Arrays of compressed sparse rows as compiled loops read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.graph.graph import Graph


def unsigned_indptr(graph: Graph) -> npt.NDArray[Any]:
    """Return row starts in 4 bytes where the edges allow it, else 8; unsigned, which compiled loops index faster."""
    dtype = np.uint32 if graph.edges < 2**32 else np.uint64
    return graph.indptr.astype(dtype)


def unsigned_sources(graph: Graph) -> npt.NDArray[Any]:
    """Return the sources as unsigned integers, without a copy."""
    return graph.sources.view(f"uint{8 * graph.sources.itemsize}")
