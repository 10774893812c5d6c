"""Method ``refine`` on graphs where level-scheduled substitution solves all nodes, or all but a core.

The core are the nodes on cycles and between them. Substitution visits the other nodes in the order of their
dependencies, each once, so that sweeps go over the core alone. The whole graph is prepared for sweeps only if that is
needed: the certificate refutes the reduced answer, or a caller gave a start or a number of iterations.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

from cpms.base.types import Floats, Norm
from cpms.contracts.refinement import OuterRequest, OuterStep, Refinement
from cpms.formats.formats import FloatFormat


class ReducedRefinement(Refinement):
    """A refinement with `solve_reduced`; each of the other methods first prepares the whole graph for sweeps."""

    @abstractmethod
    def _prepare_whole(self) -> Refinement:
        """Prepare the whole graph for sweeps."""

    @cached_property
    def _whole(self) -> Refinement:
        return self._prepare_whole()

    @property
    def _whole_if_prepared(self) -> Refinement | None:
        return self.__dict__.get("_whole")

    def start(self, values: Floats) -> None:
        """Begin at ``values``."""
        self._whole.start(values)

    def start_uniform(self, nodes: int) -> None:
        """Begin at the uniform distribution."""
        self._whole.start_uniform(nodes)

    def outer_step(
        self, storage: FloatFormat | None, *, inner_reduction: float, tol: float, norm: Norm, max_inner: int
    ) -> OuterStep:
        """Do one outer step over the whole graph."""
        return self._whole.outer_step(storage, inner_reduction=inner_reduction, tol=tol, norm=norm, max_inner=max_inner)

    def outer_steps(self, storage: FloatFormat | None, request: OuterRequest) -> list[OuterStep]:
        """Do outer steps over the whole graph."""
        whole = self._whole
        whole.anderson, whole.error_feedback, whole.adaptive = self.anderson, self.error_feedback, self.adaptive
        return whole.outer_steps(storage, request)

    def read(self) -> Floats:
        """Return x of the whole graph, in main memory."""
        return self._whole.read()

    def read_device(self) -> Any | None:
        """Return x of the whole graph on the device; None if it is in main memory."""
        return self._whole.read_device()
