"""Engine ``cuda`` with rows in equal shares of edges, whatever the graph."""

from __future__ import annotations

from typing import ClassVar

from cpms.contracts.engine import Engine
from cpms.engines.cuda import CudaEngine


class BalancedRowsEngine(CudaEngine):
    """Composed CUDA kernels, as many edges for each warp."""

    name: ClassVar[str] = "cuda_balanced_rows"
    methods: ClassVar[tuple[str, ...]] = ("power",)
    thread_rows: ClassVar[bool] = False


ENGINE: Engine = BalancedRowsEngine()
