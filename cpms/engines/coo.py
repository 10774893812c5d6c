"""Engines whose matrix is a list of edges (COO), in float64 or float32: two reports' ways of summing rows.

``coo_streams`` composes a sweep of the four kernels of Belotti and Izzo's report on personalised PageRank: the
product in a grid-stride loop and, on a second stream beside it, the dangling mass; then the personalised update and
the distance. Unlike theirs, warps add up runs of equal targets before anything is written, so that no atomics are
needed and results are bitwise repeatable. ``coo_basic`` is the report's version before its optimisation: one stream,
an atomic addition for every edge. ``reduce_by_key`` composes a sweep as PageRank_Thrust does, by CUB in blocks: ranks
are gathered through the list of edges, divided by out-degrees, and reduced by key, the target. Unlike there, dangling
mass is kept. Keys are explicit, 4 of the 16 bytes of an edge in float64; sums are float64 in a fixed order.
"""

from __future__ import annotations

from typing import ClassVar

from cpms.backends.cuda.runtime import memory_limits
from cpms.backends.cuda.runtime.compile import missing
from cpms.backends.cuda.spmv.coo import AtomicProduct, KeyProduct, WarpProduct
from cpms.backends.cuda.spmv.coo_operator import CooOperator, SweepKernels, device_bytes, prepared
from cpms.contracts.engine import Engine
from cpms.formats.formats import Format
from cpms.problems.pagerank import Problem


class CooEngine(Engine):
    """A sweep over edges in COO, composed of a system's kernels.

    Parameters
    ----------
    name : str
    system : SweepKernels
        The kernels of product, dangling mass and distance, and on how many streams they run.
    """

    layouts: ClassVar[tuple[str, ...]] = ("coo",)
    stores: tuple[str, ...] = ("fp64", "fp32")
    takes_device_arrays: ClassVar[bool] = True

    def __init__(self, name: str, system: SweepKernels) -> None:
        self.name, self.system = name, system
        self.repeatable = system.product is not AtomicProduct

    def missing(self) -> str | None:
        """Return which requirement is missing: CuPy or a device."""
        return missing()

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return why not, also by 32-bit counts and device memory."""
        reason = super().unsupported(problem, storage, layout)
        if reason is not None:
            return reason
        graph = problem.graph
        what, advice = f"{graph.name} in layout 'coo'", "use engine cuda and the pattern layout, or engine cpu"
        return memory_limits.refusal(self.name, graph, device_bytes(problem, storage), what=what, advice=advice)

    def sum_roundoff(self, storage: Format) -> float:
        """Return that of float32 where atomics add in it."""
        return 0.0 if self.repeatable or storage.exact else 2.0**-24

    def prepare(self, problem: Problem, storage: Format, layout: str) -> CooOperator:
        """Compile the kernels at first use, and upload the edges."""
        self.require_supported(problem, storage, layout)
        return prepared(problem, storage, self.system)


ENGINES = (
    CooEngine("coo_streams", SweepKernels(WarpProduct, "coo_dangling", "coo_distance", two_streams=True)),
    CooEngine("coo_basic", SweepKernels(AtomicProduct, "coo_dangling", "coo_distance", two_streams=False)),
    CooEngine("reduce_by_key", SweepKernels(KeyProduct, "key_dangling", "key_distance", two_streams=False)),
)
