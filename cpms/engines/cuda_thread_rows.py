"""Engine ``cuda`` with one thread a row, as in the CPMS paper: the contestant that is true to it."""

from __future__ import annotations

from typing import ClassVar

from cpms.contracts.engine import Engine
from cpms.engines.cuda import CudaEngine


class ThreadRowsEngine(CudaEngine):
    """Composed CUDA kernels, a thread a row."""

    name: ClassVar[str] = "cuda_thread_rows"
    methods: ClassVar[tuple[str, ...]] = ("power",)
    thread_rows: ClassVar[bool] = True


ENGINE: Engine = ThreadRowsEngine()
