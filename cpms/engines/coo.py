"""Edges in COO and two CUDA streams, as Belotti and Izzo's report on personalised PageRank composes them.

A sweep is their four kernels: product in a grid-stride loop and, on a second stream beside it, dangling
mass; then the personalised update, and the distance. Unlike theirs, warps add up runs of equal targets before
anything is written, so that no atomics are needed and the same bits come every time. Values of edges and vectors
are float64 or float32, sums float64.
"""

from __future__ import annotations

from typing import ClassVar

from cpms.backends.cuda.runtime import memory_limits
from cpms.backends.cuda.runtime.compile import missing
from cpms.backends.cuda.spmv.coo import WarpProduct
from cpms.backends.cuda.spmv.coo_operator import CooOperator, System, most_bytes, prepared
from cpms.base.errors import UnsupportedError
from cpms.contracts.engine import Engine
from cpms.formats.formats import Format
from cpms.formats.native_dtypes import element_type
from cpms.problems.pagerank import Problem


class CooStreamsEngine(Engine):
    """COO on two streams, in float64 or float32."""

    name: ClassVar[str] = "coo_streams"
    layouts: ClassVar[tuple[str, ...]] = ("coo",)
    repeatable: ClassVar[bool] = True
    takes_device_arrays: ClassVar[bool] = True
    system: ClassVar[System] = System(WarpProduct, "coo_dangling", "coo_distance", two_streams=True)

    def missing(self) -> str | None:
        """Return what is missing: CuPy or a device."""
        return missing()

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return why not: formats other than fp64 and fp32, 32-bit counts, device memory."""
        reason = super().unsupported(problem, storage, layout)
        if reason is not None:
            return reason
        if element_type(storage) is None:
            return f"engine {self.name} stores fp64 and fp32, not {storage.name}; use engine cuda"
        graph = problem.graph
        what, advice = f"{graph.name} in layout 'coo'", "use engine cuda and the pattern layout, or engine cpu"
        return memory_limits.refusal(self.name, graph, most_bytes(problem, storage), what=what, advice=advice)

    def prepare(self, problem: Problem, storage: Format, layout: str) -> CooOperator:
        """Compile the kernels, unless they are, and upload the edges."""
        reason = self.unsupported(problem, storage, layout)
        if reason:
            raise UnsupportedError(reason)
        return prepared(problem, storage, self.system)


ENGINE: Engine = CooStreamsEngine()
