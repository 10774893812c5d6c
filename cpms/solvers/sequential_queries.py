"""Method ``refine`` for many personalised queries, one after the other on one prepared matrix."""

from __future__ import annotations

from dataclasses import replace

from cpms.base import work_clock
from cpms.base.types import Floats
from cpms.certify.certificate import Certifier
from cpms.contracts.batch import Query, RefinementBatch, Solved
from cpms.contracts.refinement import Refinement
from cpms.contracts.stopping import Stopping
from cpms.precision.refinement_policy import RefinementPolicy
from cpms.problems.pagerank import Problem
from cpms.solvers.refine import refined


class SequentialQueries(RefinementBatch):
    """For engines whose caches have room for one iterate: what queries share is what preparing the matrix takes.

    Parameters
    ----------
    refinement : Refinement
        One that can be aimed.
    problem : Problem
        What it was prepared for; its own teleport distribution is not used.
    """

    width = 16

    def __init__(self, refinement: Refinement, problem: Problem) -> None:
        self.problem, self.nbytes = problem, refinement.nbytes
        self._refinement = refinement

    def solve(self, queries: list[Query], first: Floats, policy: RefinementPolicy, stopping: Stopping) -> Solved:
        """Refine one query after the other; each begins at ``first``, on a clock of its own."""
        solved: Solved = []
        self._refinement.warm_up(policy.init()[0].storage)
        for query in queries:
            teleport = query.teleport(self.problem.graph.nodes)
            self._refinement.set_teleport(teleport)
            referee = Certifier(replace(self.problem, teleport=teleport), stopping)
            began = work_clock.now()
            ranks, status, history = refined(self._refinement, first, policy, stopping, referee, lambda ranks: ranks)
            # Of what is done in passes no step tells.
            history[-1] = history[-1]._replace(seconds=work_clock.now() - began - referee.seconds)
            solved.append((ranks, status, history))
        return solved
