"""cuSPARSE's product with the update of Agrawal, Shendre and Goka, which needs no list of dangling nodes.

Whatever y = damping P x has less mass than x goes where teleport does: x' = y + omega v. Printed is
omega = ||x_k+1|| - ||x_k||, of the wrong sign; with omega = ||x||_1 - ||y||_1 no mass is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

import numpy as np

from cpms.backends.cuda.kernels import template
from cpms.backends.cuda.runtime.current import current
from cpms.contracts.engine import Engine
from cpms.contracts.operator import Sweep
from cpms.engines.cusparse import CusparseEngine, CusparseOperator, Vector, prepared
from cpms.formats.formats import Format
from cpms.problems.pagerank import Problem


@dataclass(frozen=True, eq=False)
class OmegaOperator(CusparseOperator):
    """P for cuSPARSE and the teleport; cuBLAS sums the mass of a product."""

    lists_dangling: ClassVar[bool] = False

    def make_ready(self, pair: tuple[Vector, Vector]) -> None:
        """Call every library function of a sweep once, and capture CUDA graphs."""
        for vector in pair:
            vector.mass = 1.0
        self.launch(*pair)
        self.cuda_graphs.prepare(pair, attrgetter("dense"), (1.0,), self.launch)

    def launch(self, x: Vector, out: Vector) -> None:
        """Queue one sweep's calls and wait for none."""
        blas, x_values, out_values = self.blas, x.dense.values, out.dense.values
        self.product.multiply(x.dense, out.dense)
        blas.abs_sum(out_values, out.dangling)
        arguments = (out.dangling, np.float64(-1.0), np.float64(x.mass), out.factor)
        current().run(template.AFFINE[str(self.rest.dtype)], 1, arguments)
        blas.add(out.factor, self.teleport, out_values)
        blas.subtract(out_values, x_values, self.change)
        blas.abs_sum(self.change, self.found)

    def _queued(self, x: Vector, out: Vector) -> Callable[[], Sweep]:
        # Graphs hold the mass of x, which sweeps keep.
        self.cuda_graphs.run((x.dense, out.dense), (x.mass,), lambda: self.launch(x, out))
        noted = current().fetch_async(self.found)
        out.mass = x.mass
        return lambda: self._lazy(float(noted()[0]), out.mass)


class CusparseOmegaEngine(CusparseEngine):
    """cuSPARSE and cuBLAS, in float64, without a list of dangling nodes."""

    name = "cusparse_omega"
    stores: tuple[str, ...] = ("fp64",)
    mass_roundoff: ClassVar[float] = 2.0**-51

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return why not: lost mass goes to one distribution, and float32 sums are too inaccurate to measure it."""
        if not problem.dangling_follows_teleport:
            return (
                f"engine {self.name} gives all that a product loses to the teleport; "
                "let dangling mass go there, too, or use engine cusparse"
            )
        return super().unsupported(problem, storage, layout)

    def prepare(self, problem: Problem, storage: Format, layout: str) -> CusparseOperator:
        """Upload the matrix and find the fastest way to multiply with it."""
        self.require_supported(problem, storage, layout)
        return prepared(problem, storage, layout, OmegaOperator)


ENGINE: Engine = CusparseOmegaEngine()
