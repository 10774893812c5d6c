"""The contract between algorithms and engines: problems, sweeps, operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from cpms.base.errors import UnsupportedError
from cpms.base.text.suggestions import nearest
from cpms.base.validation import described
from cpms.contracts.batch import Batch, RefinementBatch
from cpms.contracts.operator import Operator
from cpms.contracts.refinement import Refinement
from cpms.formats.formats import FP16, FloatFormat, Format
from cpms.problems.pagerank import Problem


class Engine(ABC):
    """What executes sweeps; `cpms.engines` lists the engines and the modules that define them."""

    name: str
    layouts: ClassVar[tuple[str, ...]]
    methods: tuple[str, ...] = ("power",)
    default_residual_format: ClassVar[FloatFormat] = FP16
    """Format of the residual of method ``refine``, unless it is told another."""
    takes_device_arrays: ClassVar[bool] = False
    """Whether operators load arrays in device memory as they are."""
    mass_roundoff: ClassVar[float] = 0.0
    """Error of the dangling mass as a share of all, where it is the difference of two sums and no sum of its own."""
    repeatable: bool
    """Whether the same call gives the same bits, on this machine, every time."""

    @abstractmethod
    def missing(self) -> str | None:
        """Return what this machine lacks to run the engine, as a sentence; None if nothing."""

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:  # noqa: ARG002
        """Return why the engine cannot do this, as a sentence; None if it can."""
        if not isinstance(layout, str) or layout not in self.layouts:
            near = nearest(layout, self.layouts)
            it = f"did you mean {near}? It" if near else "it"
            return (
                f"engine {self.name} has no layout {described(layout)}; {it} has "
                f"{', '.join(self.layouts)}; 'cpms engines' lists those of others"
            )
        if layout == "pattern" and problem.graph.weights is not None:
            return f"layout 'pattern' stores no values, but {problem.graph.name} has weights; use csr, or ignore them"
        return None

    def sum_roundoff(self, storage: Format) -> float:  # noqa: ARG002
        """Return the unit roundoff in which rows are summed, where that is rougher than float64's; else 0."""
        return 0.0

    @abstractmethod
    def prepare(self, problem: Problem, storage: Format, layout: str) -> Operator[Any]:
        """Do the work that depends on the matrix alone, once for many sweeps."""

    def does(self, work: str) -> bool:
        """Say whether the engine has a method, or for ``batch`` whether it takes many queries at once."""
        return type(self).batch is not Engine.batch if work == "batch" else work in self.methods

    def batch(self, problem: Problem) -> Batch:  # noqa: ARG002
        """Prepare for many teleport distributions at once, in the pattern layout; the problem's own is not used."""
        raise UnsupportedError(f"engine {self.name} takes no batches of queries; use cpu or cuda")

    def refinement_batch(self, problem: Problem) -> RefinementBatch:  # noqa: ARG002
        """Prepare for many teleport distributions at once by method ``refine``."""
        raise UnsupportedError(f"engine {self.name} takes no batches of queries by method 'refine'; use cpu or cuda")

    def refinement(self, problem: Problem) -> Refinement:  # noqa: ARG002
        """Prepare for method ``refine``, in the pattern layout; engines that list the method have it."""
        raise UnsupportedError(f"engine {self.name} has no method 'refine'; use cpu or cuda")
