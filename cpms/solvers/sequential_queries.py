"""Method ``refine`` for many personalised queries, one after the other on one prepared matrix.

A sequential batch suits processors whose caches hold one iterate but not several: interleaved iterates would evict each
other. Queries share the cost of preparing the matrix, and each query costs a solve of its own.
"""

from __future__ import annotations

from dataclasses import replace

from cpms.base import work_clock
from cpms.base.types import Floats
from cpms.certify.certificate import Certifier
from cpms.contracts.batch import Query, RefinementBatch, Solved
from cpms.contracts.refinement import Refinement
from cpms.contracts.stopping import Stopping
from cpms.precision.refinement_policy import RefinementPolicy, first_plan
from cpms.problems.pagerank import Problem
from cpms.solvers.refine import reduce_then_iterate


class SequentialQueries(RefinementBatch):
    """A batch that solves one query after the other.

    Parameters
    ----------
    refinement : Refinement
        One whose teleport distribution can be set.
    problem : Problem
        The problem of the refinement; its own teleport distribution is not used.
    """

    width = 16

    def __init__(self, refinement: Refinement, problem: Problem) -> None:
        self.problem, self.nbytes = problem, refinement.nbytes
        self._refinement = refinement

    def solve(self, queries: list[Query], first: Floats, policy: RefinementPolicy, stopping: Stopping) -> Solved:
        """Refine one query after the other; each begins at ``first`` and is timed by itself."""
        solved: Solved = []
        self._refinement.warm_up(self._refinement.readable(first_plan(policy)[0].storage))
        for query in queries:
            teleport = query.teleport(self.problem.graph.nodes)
            self._refinement.set_teleport(teleport)
            certifier = Certifier(replace(self.problem, teleport=teleport), stopping)
            began = work_clock.now()
            ranks, status, history = reduce_then_iterate(
                self._refinement, first, policy, stopping, certifier, lambda ranks: ranks
            )
            # Direct solves have no steps with times of their own.
            history[-1] = history[-1]._replace(seconds=work_clock.now() - began - certifier.seconds)
            solved.append((ranks, status, history))
        return solved
