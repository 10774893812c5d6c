"""The contract of an engine: it prepares a PageRank problem for power iteration, refinement or batches.

Preparation is the work that depends on the matrix alone and is done once: it brings the matrix into a layout and its
values into a storage format, and compiles kernels. `cpms.engines` lists the engines. A "format of the protocol" is one
with a codec of its own, by `cpms.formats.protocol.Format`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from cpms.base.errors import UnsupportedError
from cpms.base.text.suggestions import nearest
from cpms.base.validation import described
from cpms.contracts.batch import Batch, RefinementBatch
from cpms.contracts.operator import Operator
from cpms.contracts.own_codecs import TakesCodecs, codec_refusal, has_own_codec
from cpms.contracts.recomputation import Recomputation
from cpms.contracts.refinement import Refinement
from cpms.formats.formats import FP16, FloatFormat, Format, element_type, format_named
from cpms.formats.quantization import residual_format
from cpms.problems.pagerank import Problem

MANY_SOLVES = 1000
"""Number of solves with one preparation above which its cost does not matter."""


class Engine(ABC):
    """A named way to execute sweeps; `cpms.engines` lists the engines and the modules that define them."""

    name: str
    layouts: ClassVar[tuple[str, ...]]
    methods: tuple[str, ...] = ("power",)
    works_with_weights: tuple[str, ...] = ("power",)
    """Methods that the engine has for graphs with weights, and ``batch`` if it has batches of queries for them."""
    default_residual_format: FloatFormat = FP16
    """Default format of the residual of method ``refine``."""
    takes_device_arrays: ClassVar[bool] = False
    """Whether operators load arrays in device memory without a copy to the host."""
    takes_codecs: ClassVar[TakesCodecs] = "none"
    """The codec that a format of the protocol needs for power iteration to store values in it."""
    residual_codecs: ClassVar[TakesCodecs] = "none"
    """The codec that a format of the protocol needs for method ``refine`` to store the residual in it."""
    stores: tuple[str, ...] = ()
    """Names of the only formats that power iteration stores; empty if ``takes_codecs`` alone decides."""
    mass_roundoff: ClassVar[float] = 0.0
    """Relative error of the dangling mass, for engines that compute it as a difference of two sums; else 0."""
    repeatable: bool
    """Whether the same call gives the same bits, on this machine, every time."""

    def missing(self) -> str | None:
        """Return a sentence that says why this machine cannot run the engine; None if it can."""
        return None

    def unsupported(self, problem: Problem, storage: Format, layout: str) -> str | None:
        """Return a sentence that says why the engine cannot solve this combination; None if it can."""
        if reason := self.refuses_storage(storage):
            return reason
        if not isinstance(layout, str) or layout not in self.layouts:
            near = nearest(layout, self.layouts)
            it = f"did you mean {near}? It" if near else "it"
            is_own = not isinstance(layout, str) or ":" in layout
            others = "cpu_composed takes layouts of your own" if is_own else "'cpms engines' lists those of others"
            return f"engine {self.name} has no layout {described(layout)}; {it} has {', '.join(self.layouts)}; {others}"
        if layout == "pattern" and problem.graph.weights is not None:
            return f"layout 'pattern' stores no values, but {problem.graph.name} has weights; use csr, or ignore them"
        if has_own_codec(storage) and storage.group > 1 and layout == "ell":
            return f"layout 'ell' would group other numbers of {storage.name} than the matrix does; use csr"
        return None

    def require_supported(self, problem: Problem, storage: Format, layout: str) -> None:
        """Raise `UnsupportedError` for a combination that the engine cannot solve."""
        reason = self.unsupported(problem, storage, layout)
        if reason:
            raise UnsupportedError(reason)

    def refuses_storage(self, storage: Format) -> str | None:
        """Return a sentence that says why power iteration does not store a format here; None if it does."""
        if not self.stores:
            return codec_refusal(self.name, self.takes_codecs, storage)
        # Types are compared, since a format may have other names. NumPy's types equal None, so None is tested first.
        kind = element_type(storage)
        if kind is not None and kind in [element_type(format_named(name)) for name in self.stores]:
            return None
        return f"engine {self.name} stores {' and '.join(self.stores)}, not {storage.name}; use engine cpu or cuda"

    def refuses_residual(self, storage: Format) -> str | None:
        """Return a sentence that says why method ``refine`` does not read the residual in a format; None if it does."""
        if not has_own_codec(storage):
            return None
        if self.residual_codecs == "none":
            return (
                f"method 'refine' of engine {self.name} reads the residual in segments or a packed float, not in "
                f"{storage.name}; use engine cpu or reference, or method 'power'"
            )
        return codec_refusal(self.name, self.residual_codecs, storage)

    def never_runs(self, method: str, storage: Format) -> str | None:
        """Return a sentence that says why a method runs on no graph at all in this format; None if it may run on some.

        Examples
        --------
        >>> import cpms
        >>> cpms.engines.get("scipy").never_runs("power", cpms.CPMS2)
        'engine scipy stores fp64, not cpms2; use engine cpu or cuda'
        """
        if method not in self.methods:
            return f"engine {self.name} has no method {method!r}; it has {', '.join(self.methods)}"
        if method == "refine":
            try:
                return self.refuses_residual(residual_format(storage))
            except UnsupportedError as error:
                return str(error)
        return self.refuses_storage(storage)

    def refuses_weights(self, problem: Problem, work: str) -> str | None:
        """Return a sentence that says why a method, or ``batch``, does not take a graph with weights; None if it does.

        None, too, for a method that the engine does not have.
        """
        if problem.graph.weights is None or work in self.works_with_weights or not self.supports(work):
            return None
        name = "batches" if work == "batch" else f"method {work!r}"
        return (
            f"{name} of engine {self.name} stores no values, but {problem.graph.name} has weights; use engine cpu or "
            "cuda, or ignore them"
        )

    def sum_roundoff(self, storage: Format) -> float:  # noqa: ARG002
        """Return the unit roundoff of row sums in a lower precision than float64; 0 for float64."""
        return 0.0

    def for_solves(self, solves: int) -> Engine:  # noqa: ARG002
        """Return the engine for a number of solves, without preparations that cost more than these solves gain."""
        return self

    def held(self, problem: Problem) -> Problem:
        """Return the problem with its graph in the engine's memory, where solver and certificate share one copy."""
        return problem

    def recomputation(self, problem: Problem) -> Recomputation | None:  # noqa: ARG002
        """Return the certificate's recomputation of residuals in device memory; None for engines in main memory."""
        return None

    @abstractmethod
    def prepare(self, problem: Problem, storage: Format, layout: str) -> Operator[Any]:
        """Prepare a problem for power iteration: all work that depends on the matrix alone."""

    def supports(self, work: str) -> bool:
        """Return whether the engine has a method, or for ``batch`` whether it solves several queries at once."""
        return type(self).batch is not Engine.batch if work == "batch" else work in self.methods

    def batch(self, problem: Problem) -> Batch:  # noqa: ARG002
        """Prepare for power iteration of several teleport distributions; the problem's own is not used."""
        raise UnsupportedError(f"engine {self.name} takes no batches of queries; use cpu or cuda")

    def refinement_batch(self, problem: Problem) -> RefinementBatch:  # noqa: ARG002
        """Prepare for method ``refine`` with several teleport distributions; the problem's own is not used."""
        raise UnsupportedError(f"engine {self.name} takes no batches of queries by method 'refine'; use cpu or cuda")

    def refinement(self, problem: Problem) -> Refinement:  # noqa: ARG002
        """Prepare for method ``refine``; a graph without weights stores no values. Engines with it override this."""
        raise UnsupportedError(f"engine {self.name} has no method 'refine'; use cpu or cuda")

    def refinement_from_start(self, problem: Problem) -> Refinement:
        """Prepare for method ``refine`` from given ranks, without the reductions that such solves do not use."""
        return self.refinement(problem)

    def codec_refinement(self, problem: Problem) -> Refinement:
        """Prepare for method ``refine`` with a residual in a format of the protocol that `refuses_residual` accepts."""
        return self.refinement(problem)
