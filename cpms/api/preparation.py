"""What an engine has prepared for a request, and which later requests it serves.

This is the one place where `cpms.api` asks an engine to prepare a graph. A preparation depends on the graph, the
damping, the engine, the format and the layout. A request with another teleport distribution is served by the same
matrix where the engine can replace the distribution (`Operator.with_problem`, `Refinement.set_teleport`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from cpms.api.batch_solving import prepare_batch
from cpms.api.request import Request
from cpms.base.errors import UnsupportedError
from cpms.base.text.phases import phase
from cpms.contracts.batch import PreparedBatch
from cpms.contracts.operator import Operator
from cpms.contracts.own_codecs import has_own_codec
from cpms.contracts.recomputation import Recomputation
from cpms.contracts.refinement import Refinement
from cpms.graph.edge_updates import with_edges
from cpms.graph.graph import Graph
from cpms.precision.refinement_policy import planned_formats
from cpms.problems.pagerank import Problem
from cpms.storage.device import device_graphs, failures_explained

Certify = Literal["auto", "device", "host"]
CERTIFY: tuple[str, ...] = get_args(Certify)
"""Names of the places where answers are certified."""


@dataclass(frozen=True, eq=False)
class Preparation:
    """An operator or a refinement of one problem, or a batch for all its teleport distributions."""

    problem: Problem
    work: Operator[Any] | Refinement | PreparedBatch
    is_on_device: bool
    recomputation: Recomputation | None = None
    """Recomputes residuals where the engine leaves answers; None: in main memory."""

    @classmethod
    @phase("preparing the solve")
    def of(cls, request: Request, *, solves: int = 1, certify: Certify = "auto") -> Preparation:
        """Prepare what a request needs, by its engine, for so many solves.

        Raises
        ------
        UnsupportedError
            If ``certify`` is ``device`` and the engine has no certificate there.
        """
        problem, engine = request.problem, request.engine.for_solves(solves)
        problem = engine.held(problem)
        recomputation = None if certify == "host" else engine.recomputation(problem)
        if certify == "device" and recomputation is None:
            raise UnsupportedError(
                f"engine {engine.name} certifies {problem.graph.name} in main memory; certify='device' is for "
                "engines cuda and cuda_fused and graphs without weights, so use certify='auto'"
            )
        if not engine.takes_device_arrays:
            _ = problem.graph.out_degree  # Its first count checks the arrays, which compiled loops trust.
        is_refined = request.method == "refine"
        work: Operator[Any] | Refinement | PreparedBatch
        if request.queries is not None:
            work = prepare_batch(engine, problem, request.policy if is_refined else None)
        elif is_refined:
            codecs = any(has_own_codec(storage) for storage in planned_formats(request.policy))
            prepare = engine.refinement if request.start is None else engine.refinement_from_start
            work = engine.codec_refinement(problem) if codecs else prepare(problem)
        else:
            work = engine.prepare(problem, request.storage, request.layout)
        return cls(problem, work, engine.takes_device_arrays, recomputation)

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix, of the graph if the engine holds a copy, and of what certifies answers."""
        graph, recomputation = self.problem.graph, self.recomputation
        copied = graph.nbytes if graph.device_arrays is not None else 0
        return self.work.nbytes + copied + (0 if recomputation is None else recomputation.nbytes)

    @property
    def solver(self) -> Operator[Any] | Refinement:
        """The prepared operator or refinement, which solves one request at a time."""
        assert not isinstance(self.work, PreparedBatch)  # noqa: S101
        return self.work

    @property
    def batch(self) -> PreparedBatch:
        """The prepared batch, which solves many queries."""
        assert isinstance(self.work, PreparedBatch)  # noqa: S101
        return self.work

    def for_request(self, request: Request) -> Preparation | None:
        """Return the preparation of a request of the same kind, on the same matrix; None: it has to be made anew."""
        old, new, work = self.problem, request.problem, self.work
        same_dangling = _same(old.dangling, new.dangling)
        if same_dangling and (isinstance(work, PreparedBatch) or _same(old.teleport, new.teleport)):
            return self
        if isinstance(work, Operator):
            changed = work.with_problem(new)
            return None if changed is None else self._with(new, changed)
        # Reductions of a graph depend on where dangling mass goes.
        alike = same_dangling and old.dangling_follows_teleport == new.dangling_follows_teleport
        if alike and isinstance(work, Refinement) and work.set_teleport(new.teleport):
            return self._with(new, work)
        return None

    def _with(self, problem: Problem, work: Operator[Any] | Refinement) -> Preparation:
        if self.recomputation is not None:
            self.recomputation.set_problem(problem)
        return Preparation(problem, work, self.is_on_device, self.recomputation)


@contextmanager
def errors_explained(graph: Graph) -> Iterator[None]:
    """Explain a lack of memory, and a device that failed, while a graph is prepared, solved or changed.

    Raises
    ------
    UnsupportedError, UnavailableError
        In their place.
    """
    try:
        with failures_explained(f"{graph.name} was prepared or solved"):
            yield
    except MemoryError as error:
        advice = "close other prepared graphs, use fewer bits or a smaller width, or a machine with more memory"
        raise UnsupportedError(f"{graph.name} does not fit into memory ({error}); {advice}") from None


def with_changed_edges(
    graph: Graph, held: Iterable[Preparation], added: Sequence[Any] | None, removed: Sequence[Any] | None
) -> Graph:
    """Return a graph without some edges and with others, merged in device memory where a preparation holds it there.

    Raises
    ------
    InputError, UnsupportedError, UnavailableError
        As `cpms.graph.edge_updates.with_edges` and `cpms.DeviceGraph.with_edges` do, and for lack of memory.

    Examples
    --------
    >>> with_changed_edges(Graph.from_edges([0, 1], [1, 0]), [], ([0], [0]), ([1], [0])).targets.tolist()
    [0, 1]
    """
    where_held = (each.problem.graph for each in held)
    stored = next((each for each in where_held if each.device_arrays is not None), graph)
    change = with_edges if stored.device_arrays is None else device_graphs().DeviceGraph.with_edges
    with errors_explained(stored):
        changed: Graph = change(stored, added, removed)
    return changed


def _same(a: Any | None, b: Any | None) -> bool:
    if a is None or b is None or isinstance(a, str) or isinstance(b, str):
        return a is b or (isinstance(a, str) and isinstance(b, str) and a == b)
    return np.array_equal(a, b)
