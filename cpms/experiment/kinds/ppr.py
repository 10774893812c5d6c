"""Personalised PageRank of random nodes, sequentially and in batches.

Accuracy is the overlap with the top 20 of a float64 solution; a sample of the answers is certified. The time of a query
in a batch is that of the batch divided by its queries.
"""

from __future__ import annotations

import statistics
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from cpms import engines
from cpms.analysis import rankings
from cpms.api.batch_solving import prepare_batch
from cpms.api.personalized import personalized_pagerank
from cpms.api.request import Method
from cpms.backends.cuda.runtime.current import current
from cpms.base import threads, work_clock
from cpms.base.types import Floats
from cpms.certify.batch import BatchCertifier
from cpms.contracts import batch
from cpms.contracts.engine import Engine
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import Stopping
from cpms.experiment.config import Cell, Strict, WarmedUp
from cpms.experiment.config_types import EngineName, LayoutName, StorageName
from cpms.experiment.graph_cache import OnGraphs, graph_columns
from cpms.experiment.graph_files import GraphSource, named
from cpms.experiment.native_sums import NativeSums
from cpms.experiment.sequential_queries import OneQuery
from cpms.formats.formats import FloatFormat, format_named
from cpms.graph.graph import Graph
from cpms.precision.refinement_policy import default_policy
from cpms.problems.initial_guess import initial_guess, penalised_start
from cpms.problems.pagerank import Problem
from cpms.storage.device import host_float64

_TOP = 20
_MOST_TURNS, _ENOUGH_S = 5, 1.0
"""The limits of repeated solves of a batch, in number and in seconds; their median is recorded."""


class Contestant(Strict):
    """An engine with a format, layout and method.

    ``batch`` is the number of queries of a sweep, 0 for sequential solves. ``queries`` limits the number of queries,
    ``least_tol`` and ``most_tol`` limit the tolerances, and ``certified`` is the number of certified answers. If
    ``sums`` is ``storage``, all arithmetic is in the type of the storage, edge by edge (`cpms.experiment.native_sums`);
    the engine must then be ``reference``.
    """

    engine: EngineName
    storage: StorageName = "fp64"
    layout: LayoutName = "pattern"
    method: Literal["power", "refine"] = "power"
    batch: int = Field(default=0, ge=0)
    queries: int | None = Field(default=None, ge=1)
    least_tol: float = Field(default=0.0, ge=0)
    most_tol: float = Field(default=1.0, gt=0)
    certified: int = Field(default=5, ge=1)
    sums: Literal["engine", "storage"] = "engine"

    @model_validator(mode="after")
    def _native_sums_are_of_no_other_engine(self) -> Contestant:
        if self.sums == "storage" and (self.engine, self.method, self.batch) != ("reference", "power", 0):
            raise ValueError("sums in the storage's type are of engine reference, method power, without a batch")
        return self

    def parameters(self) -> dict[str, Any]:
        """Return the keys of a cell; ``sums`` is omitted at its default, so that older cells keep their names."""
        left_out = {"queries", "least_tol", "most_tol", *(() if self.sums == "storage" else ("sums",))}
        return self.model_dump(exclude=left_out)


class Setting(Strict):
    """The stopping rule of solves, and their initial guesses."""

    tol: float = Field(gt=0)
    norm: Literal["l1", "l2", "linf"] = "l2"
    max_iterations: int = Field(default=30, ge=1)
    starts: list[Literal["uniform", "penalised"]] = ["uniform"]


class Config(WarmedUp):
    """The fields of such an experiment."""

    graphs: list[GraphSource] = Field(min_length=1)
    contestants: list[Contestant] = Field(min_length=1)
    settings: list[Setting] = Field(min_length=1)
    queries: int = Field(default=100, ge=1)
    seed: int = 1
    damping: float = Field(default=0.85, gt=0, lt=1)
    dangling: Literal["teleport", "uniform"] = "uniform"
    penalty: float = Field(default=0.1, gt=0, lt=1)
    reference_tol: float = Field(default=1e-12, gt=0)

    def cells(self) -> list[Cell]:
        """Return one cell for each graph, contestant, setting and initial guess, in the order of the contestants."""
        fixed = self.model_dump(
            include={"queries", "seed", "damping", "dangling", "penalty", "reference_tol", "warmup"}
        )
        parts = [
            {
                "start": start,
                **setting.model_dump(exclude={"starts"}),
                **contestant.parameters(),
                "limit": contestant.queries,
            }
            for contestant in self.contestants
            for setting in self.settings
            for start in setting.starts
            if contestant.least_tol <= setting.tol <= contestant.most_tol
        ]
        return self.in_rounds(map(named, self.graphs), parts, **fixed)


class Context(OnGraphs):
    """The graph of consecutive cells, its queries and their reference answers."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._reference: _ReferenceQueries | None = None

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Solve the queries of a cell, and measure the accuracy of their answers."""
        engines.get(cell["engine"])
        graph = self.graph_of(cell)
        if self._reference is None or self._reference.graph is not graph:
            self._reference = None
            self._reference = _ReferenceQueries(graph, cell)
        initial = penalised_start(graph, cell["penalty"]) if cell["start"] == "penalised" else None
        solve = _in_batches if cell["batch"] else _one_at_a_time
        answers, columns = solve(self._reference, cell, initial_guess(graph, initial))
        return {
            **graph_columns(graph),
            **columns,
            **_accuracy(self._reference, cell, answers),
        }


class _ReferenceQueries:
    """Queries of random nodes with out-edges, and the top 20 of their float64 solutions."""

    def __init__(self, graph: Graph, cell: Cell) -> None:
        self.graph = graph
        random = np.random.default_rng(cell["seed"])
        linked = np.flatnonzero(graph.out_degree > 0)
        count = min(cell["queries"] + cell["warmup"], len(linked))
        nodes = random.choice(linked, count, replace=False)
        self.warmup = min(cell["warmup"], count - 1)
        self.queries = [batch.Query(np.array([node]), np.ones(1)) for node in nodes]
        method: Method = "power" if engines.get_any("cuda").missing() else "refine"
        solved = personalized_pagerank(
            graph,
            [graph.node_id(int(node)) for node in nodes[self.warmup :]],
            method=method,
            damping=cell["damping"],
            dangling=cell["dangling"],
            tol=cell["reference_tol"],
        )
        self.top = [
            set(top.tolist()) for top in threads.each(lambda result: rankings.top_k(result.ranks, _TOP), solved)
        ]
        self.exact = [result.ranks for result in solved[:_TOP]]
        self.reference_residual_l1 = max(result.residual_l1 for result in solved)


Answers = list[tuple[Floats, Status, list[Step]]]


def _one_at_a_time(reference: _ReferenceQueries, cell: Cell, initial: Floats) -> tuple[Answers, dict[str, Any]]:
    """Solve queries sequentially on one prepared matrix."""
    queries = reference.queries[: None if cell["limit"] is None else reference.warmup + cell["limit"]]
    solver = (NativeSums if cell.get("sums") == "storage" else OneQuery)(reference.graph, cell, initial)
    answers: Answers = []
    solve_s, reset_s = [], []
    for query in queries:
        began = work_clock.now()
        solver.set_teleport(query)
        reset_s.append(work_clock.now() - began)
        ranks, status, history = solver.solve()
        solve_s.append(history[-1].seconds)
        answers.append((host_float64(ranks), status, history))
    del answers[: reference.warmup], solve_s[: reference.warmup], reset_s[: reference.warmup]
    return answers, {
        "prepare_s": solver.prepare_s,
        "matrix_bytes": solver.matrix_bytes,
        "reset_s": statistics.median(reset_s),
        "query_samples_s": solve_s,
        "query_s": statistics.fmean(solve_s),
    }


def _in_batches(reference: _ReferenceQueries, cell: Cell, initial: Floats) -> tuple[Answers, dict[str, Any]]:
    """Solve all queries in batches; the time of a query is the batch's divided by its queries."""
    queries = reference.queries[reference.warmup :][: cell["limit"]]
    problem = Problem(reference.graph, cell["damping"], None, cell["dangling"])
    stopping = Stopping(cell["tol"], cell["norm"], cell["max_iterations"])
    began = work_clock.now()
    engine = engines.get(cell["engine"])
    policy = default_policy(format_named(cell["storage"])) if cell["method"] == "refine" else None
    batch = prepare_batch(engine, problem, policy)
    prepare_s = work_clock.now() - began
    together = [queries[begin : begin + cell["batch"]] for begin in range(0, len(queries), cell["batch"])]
    batch.solve(together[0], initial, stopping=stopping)
    _wait_for(engine)
    answers: Answers = []
    batch_s = []
    for some in together:
        samples: list[float] = []
        while not samples or (sum(samples) < _ENOUGH_S and len(samples) < _MOST_TURNS):
            solved = []  # Frees the memory of the last answers for the next ones.
            began = work_clock.now()
            solved = batch.solve(some, initial, stopping=stopping)
            _wait_for(engine)
            # The host's clock is used, as each query's history may have its own.
            samples.append(work_clock.now() - began)
        batch_s.append(statistics.median(samples))
        answers += [(host_float64(ranks), status, history) for ranks, status, history in solved]
    return answers, {
        "prepare_s": prepare_s,
        "matrix_bytes": batch.nbytes,
        "reset_s": None,
        "query_samples_s": batch_s,
        "query_s": sum(batch_s) / len(queries),
    }


def _wait_for(engine: Engine) -> None:
    """Wait for the end of an engine's work on its device."""
    if engine.takes_device_arrays:
        current().synchronize()


def _accuracy(reference: _ReferenceQueries, cell: Cell, answers: Answers) -> dict[str, Any]:
    """Compare the answers with float64 solutions, and certify the first ones by residuals recomputed in float64."""
    ranks = [values for values, _, _ in answers]
    tops = threads.each(lambda values: rankings.top_k(values, _TOP), ranks)
    overlap = [len(found & set(top.tolist())) / len(found) for found, top in zip(reference.top, tops, strict=False)]
    count = min(cell["certified"], len(answers))
    problem = Problem(reference.graph, cell["damping"], None, cell["dangling"])
    certifier = BatchCertifier(problem, Stopping(cell["tol"], cell["norm"]))
    sample = [values.copy() for values in ranks[:count]]
    queries = reference.queries[reference.warmup :][:count]
    certified = certifier.certify(queries, sample, [status for _, status, _ in answers[:count]])
    errors = [float(np.abs(a - b).sum()) for a, b in zip(sample, reference.exact, strict=False)]
    residuals = [residual for _, residual in certified if np.isfinite(residual)]
    return {
        "answered": len(answers),
        "iterations": [len(history) for _, _, history in answers],
        "bits": {
            str(bits): sum(step.bits == bits for _, _, h in answers for step in h) / len(answers)
            for bits in _bits(answers)
        },
        "solver_converged": sum(status is Status.CONVERGED for _, status, _ in answers),
        "certified_answers": count,
        "certified_converged": sum(status is Status.CONVERGED for status, _ in certified),
        "residual_l1": max(residuals, default=None),
        "error_l1": max(errors, default=None) if np.isfinite(errors).all() else None,
        "reference_residual_l1": reference.reference_residual_l1,
        "top20_accuracy": statistics.fmean(overlap),
        **_narrow(cell, ranks),
    }


def _bits(answers: Answers) -> list[int]:
    return sorted({step.bits for _, _, history in answers for step in history})


def _narrow(cell: Cell, answers: list[npt.NDArray[np.float64]]) -> dict[str, Any]:
    """Return the fractions of zeros and subnormal numbers among ranks of power iteration in a packed float."""
    storage = format_named(cell["storage"])
    if not isinstance(storage, FloatFormat) or cell["method"] == "refine":
        return {}
    least = storage.min_normal * 2.0 ** -(storage.bias - 1 if storage.scaled else 0)
    return {
        "zero_share": statistics.fmean(float((ranks == 0).mean()) for ranks in answers),
        "subnormal_share": statistics.fmean(float(((ranks > 0) & (ranks < least)).mean()) for ranks in answers),
    }
