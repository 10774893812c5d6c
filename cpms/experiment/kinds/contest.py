"""Whole solves of contestants in turn, each certified once.

Contestants alternate, so that drifts of the machine's clock affect all alike; medians of their times are recorded. The
residual of each answer is recomputed by `cpms.certify`, whose code no engine shares.
"""

from __future__ import annotations

import statistics
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from cpms.analysis import rankings
from cpms.base import threads
from cpms.base.text.progress import part_done
from cpms.base.types import Floats
from cpms.certify import residual
from cpms.certify.roundoff import error_bound
from cpms.experiment.config import Cell, Repeated
from cpms.experiment.config_types import LayoutName
from cpms.experiment.graph_cache import OnGraphs, graph_columns
from cpms.experiment.graph_files import GraphSource, named, read_options
from cpms.experiment.rows.outcome import FAILURES, failure
from cpms.experiment.solver_specs import Contestant, Solved, Solver
from cpms.experiment.timers import copy_rates
from cpms.problems.pagerank import Problem

_TOP = 20
_SHORT_S = 0.01
"""Time of a solve below which its second run is timed, since in the first, caches hold another contestant's data."""


class Config(Repeated):
    """The fields of such an experiment.

    With ``reference_tol``, errors and highest ranks are compared with a float64 solution at that tolerance. ``warmup``
    rounds are not measured; they follow the first solve of each contestant, which is never measured.
    """

    graphs: list[GraphSource] = Field(min_length=1)
    layouts: list[LayoutName] = ["csr"]
    contestants: list[Contestant] = Field(min_length=2)
    tolerances: list[Annotated[float, Field(gt=0)]] = [1e-10]
    rounds: int = Field(default=5, ge=1)
    warmup: int = Field(default=0, ge=0)
    certify: bool = True
    reference_tol: float | None = Field(default=None, gt=0)
    later: ClassVar[set[str]] = {"reference_tol", "warmup"}

    def cells(self) -> list[Cell]:
        """Return one cell a graph, layout and tolerance."""
        parts = [{"layout": layout, "tol": tol} for layout in self.layouts for tol in self.tolerances]
        contestants = [contestant.parameters() for contestant in self.contestants]
        fixed = {"rounds": self.rounds, "certify": self.certify, "contestants": contestants, **self.given_later()}
        return self.in_rounds(map(named, self.graphs), parts, **fixed)

    def resolved(self, cell: Cell) -> Cell:
        """Return a cell with all fields of its contestants."""
        contestants = [Contestant.model_validate(given).model_dump() for given in cell["contestants"]]
        return {**super().resolved(cell), "contestants": contestants}


class Context(OnGraphs):
    """The graph of consecutive cells."""

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Solve in rounds of all contestants; a first solve of each warms up and is certified."""
        rates = copy_rates(given["engine"] for given in cell["contestants"])  # Before a graph takes memory.
        graph = self.graph_of(cell)
        problem, options = Problem(graph), read_options(cell)
        solver = Solver(problem, cell["graph"], layout=cell["layout"], tol=cell["tol"], read_options=options)
        exact = self.graph.exact(cell["reference_tol"]) if "reference_tol" in cell else None
        warmup, given = cell.get("warmup", 0), cell["contestants"]
        parts = len(given) * (1 + warmup + cell["rounds"])
        entrants = []
        for one in given:
            entrants.append(_Entrant(solver, one))
            part_done(len(entrants), parts)
        if cell["certify"]:
            threads.each(lambda each: each.assess(problem, exact), entrants)
        for turn in range(-warmup, cell["rounds"]):
            for place, each in enumerate(entrants, 1):
                each.sample(is_measured=turn >= 0)
                part_done(len(given) * (1 + warmup + turn) + place, parts)
        return {
            **graph_columns(graph),
            **rates,
            "results": [each.columns() for each in entrants],
        }


def _accuracy(problem: Problem, exact: Floats | None, ranks: Floats) -> dict[str, float | None]:
    """Return the residual, recomputed by `cpms.certify`; with exact ranks also error, bound and top-20 overlap."""
    if not 0.0 < ranks.sum() < np.inf:
        return {"residual_l1": None}
    scaled = ranks / ranks.sum()
    residual_l1 = residual.residual(problem, scaled)
    if exact is None:
        return {"residual_l1": residual_l1}
    return {
        "residual_l1": residual_l1,
        "error_l1": float(np.abs(scaled - exact).sum()),
        "error_bound": error_bound(residual_l1, residual.residual_roundoff(problem.graph), problem.damping),
        "top20_overlap": rankings.top_k_overlap(exact, scaled, _TOP),
    }


def _typical(samples: list[list[float]]) -> list[float]:
    """Return the median times of each sweep, over the solves with the median number of sweeps.

    Solves may differ by a sweep where the order of sums is not fixed.

    Examples
    --------
    >>> _typical([[0.1, 0.5], [0.3, 0.4], [0.1, 0.2, 0.3]])
    [0.2, 0.45]
    """
    middle = statistics.median_low(map(len, samples))
    typical: list[float] = np.median([sample for sample in samples if len(sample) == middle], axis=0).tolist()
    return typical


class _Entrant:
    """The columns of a contestant; ``ranks`` are those of its first solve, None if that failed."""

    def __init__(self, solver: Solver, given: dict[str, Any]) -> None:
        self._contestant, self._solver = Contestant.model_validate(given), solver
        self._head: dict[str, Any] = {**given, "status": "ok"}
        self._solve_s: list[float] = []
        self._step_s: list[list[float]] = []
        self.ranks: Floats | None = None
        first = self._solved(on_device=False)
        if first is not None:
            self.ranks = first.ranks
            self._head |= {
                "solver_status": first.status.name.lower(),
                "iterations": len(first.bits),
                "bits": first.bits,
                "residual_l1": None,
                **first.sizes,
            }

    def assess(self, problem: Problem, exact: Floats | None) -> None:
        """Record residual and error of the ranks."""
        if self.ranks is not None:
            self._head |= _accuracy(problem, exact, self.ranks)

    def sample(self, *, is_measured: bool) -> None:
        """Solve, and record the time if it is measured; a short solve is run again, and the second time recorded.

        Contestants of several ranks start new processes, which themselves solve twice.
        """
        solved = self._solved(on_device=True) if self._head["status"] == "ok" else None
        if solved is not None and solved.solve_s < _SHORT_S and self._contestant.ranks is None:
            solved = self._solved(on_device=True)
        if solved is not None and is_measured:
            self._solve_s.append(solved.solve_s)
            self._step_s.append(solved.step_s)

    def columns(self) -> dict[str, Any]:
        """Return the columns of a row."""
        if self._head["status"] != "ok":
            return self._head
        return {
            **self._head,
            "solve_samples_s": self._solve_s,
            "solve_s": statistics.median(self._solve_s),
            "step_s": _typical(self._step_s),
        }

    def _solved(self, *, on_device: bool) -> Solved | None:
        try:
            return self._solver.solve(self._contestant, on_device=on_device)
        except FAILURES as error:
            self._head |= failure(error)
            return None
