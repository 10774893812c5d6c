"""Method ``refine`` on graphs where level-scheduled substitution solves all nodes, or all but a core.

The whole graph is prepared for sweeps lazily: only if the reduced answer is not confirmed, or a start or a number of
iterations was given.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

from cpms.base.types import Floats, Norm
from cpms.contracts.refinement import OuterRequest, OuterStep, Refinement
from cpms.formats.formats import FloatFormat


class ReducedRefinement(Refinement):
    """A refinement by `solve_reduced`; all other methods prepare the whole graph for sweeps first."""

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
