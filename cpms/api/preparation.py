"""What an engine has prepared for a request, and which later requests it serves.

This is the one place where `cpms.api` asks an engine to prepare a graph. A preparation depends on the graph, the
damping, the engine, the format and the layout. A request with another teleport distribution is served by the same
matrix where the engine can replace the distribution (`Operator.with_problem`, `Refinement.set_teleport`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cpms.api.batch_solving import prepare_batch
from cpms.api.request import Request
from cpms.contracts.batch import PreparedBatch
from cpms.contracts.operator import Operator
from cpms.contracts.refinement import Refinement
from cpms.problems.pagerank import Problem


@dataclass(frozen=True, eq=False)
class Preparation:
    """An operator or a refinement of one problem, or a batch for all its teleport distributions."""

    problem: Problem
    work: Operator[Any] | Refinement | PreparedBatch
    is_on_device: bool

    @classmethod
    def of(cls, request: Request) -> Preparation:
        """Prepare what a request needs, by its engine."""
        problem, engine = request.problem, request.engine
        is_refined = request.method == "refine"
        work: Operator[Any] | Refinement | PreparedBatch
        if request.queries is not None:
            work = prepare_batch(engine, problem, request.policy if is_refined else None)
        elif is_refined:
            work = engine.refinement(problem)
        else:
            work = engine.prepare(problem, request.storage, request.layout)
        return cls(problem, work, engine.takes_device_arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix."""
        return self.work.nbytes

    @property
    def solver(self) -> Operator[Any] | Refinement:
        """What solves one request at a time."""
        assert not isinstance(self.work, PreparedBatch)  # noqa: S101
        return self.work

    @property
    def batch(self) -> PreparedBatch:
        """What solves many queries."""
        assert isinstance(self.work, PreparedBatch)  # noqa: S101
        return self.work

    def for_request(self, request: Request) -> Preparation | None:
        """Return the preparation of a request of the same kind, on the same matrix; None: it has to be made anew."""
        old, new, work = self.problem, request.problem, self.work
        if old.dangling == new.dangling and (isinstance(work, PreparedBatch) or _same(old.teleport, new.teleport)):
            return self
        if isinstance(work, Operator):
            changed = work.with_problem(new)
            return None if changed is None else Preparation(new, changed, self.is_on_device)
        # Reductions of a graph depend on where dangling mass goes.
        alike = old.dangling == new.dangling and old.dangling_follows_teleport == new.dangling_follows_teleport
        if alike and isinstance(work, Refinement) and work.set_teleport(new.teleport):
            return Preparation(new, work, self.is_on_device)
        return None


def _same(a: Any | None, b: Any | None) -> bool:
    return (a is None and b is None) or (a is not None and b is not None and np.array_equal(a, b))
