"""PageRank from a parallel library's parts, as PageRank_Thrust composes it from Thrust: here by CUB, in blocks.

Ranks are gathered through the list of edges, transformed by their shares, and reduced by key, the target;
the residual is a reduction. Unlike there, dangling mass is kept. Keys are explicit, 4 of the 16 bytes of an
edge in float64. Sums are float64 and their order is fixed.
"""

from __future__ import annotations

from typing import ClassVar

from cpms.backends.cuda.spmv.coo import KeyProduct
from cpms.backends.cuda.spmv.coo_operator import System
from cpms.contracts.engine import Engine
from cpms.engines.coo import CooStreamsEngine


class ReduceByKeyEngine(CooStreamsEngine):
    """Gather, transform, reduce by key, in float64 or float32."""

    name: ClassVar[str] = "reduce_by_key"
    system: ClassVar[System] = System(KeyProduct, "key_dangling", "key_distance", two_streams=False)


ENGINE: Engine = ReduceByKeyEngine()
