"""Method ``refine`` where passes solve a problem, or all but its core: few need sweeps over the whole graph."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

from cpms.base.types import Floats, Norm
from cpms.contracts.refinement import Refinement, Round
from cpms.formats.formats import FloatFormat


class Passed(Refinement):
    """A refinement by `solution`; the whole graph is prepared for sweeps once something else is asked for."""

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
        """Begin at values."""
        self._whole.start(values)

    def start_evenly(self, nodes: int) -> None:
        """Begin at the uniform distribution."""
        self._whole.start_evenly(nodes)

    def round(self, storage: FloatFormat | None, *, gain: float, tol: float, norm: Norm, most_low: int) -> Round:
        """Do one round over the whole graph."""
        return self._whole.round(storage, gain=gain, tol=tol, norm=norm, most_low=most_low)

    def rounds(
        self, storage: FloatFormat | None, *, gain: float, trust: float, tol: float, norm: Norm, most: int
    ) -> list[Round]:
        """Do rounds over the whole graph."""
        whole = self._whole
        whole.extrapolates, whole.carries, whole.adapts = self.extrapolates, self.carries, self.adapts
        return whole.rounds(storage, gain=gain, trust=trust, tol=tol, norm=norm, most=most)

    def read(self) -> Floats:
        """Return x of the whole graph, in main memory."""
        return self._whole.read()

    def read_device(self) -> Any | None:
        """Return it on the device, if it is there."""
        return self._whole.read_device()
