"""`cpms.PageRank`: a graph prepared once by an engine, and solved as often as its right-hand side changes.

Preparing arranges the matrix for an engine (layout, stored values, trimming, device memory), which costs as much as
several solves; a solve differs from the next in teleport distribution, tolerance or start. This is the split of direct
solvers into factorisation and substitution. `cpms.pagerank` and `cpms.personalized_pagerank` are one solve of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from cpms import engines
from cpms.api.batch_solving import solve_batch
from cpms.api.given_graph import given_graph
from cpms.api.preparation import CERTIFY, Certify, Preparation, errors_explained, with_changed_edges
from cpms.api.request import (
    Dangling,
    Method,
    Personalization,
    Request,
    requested_storage,
    require_batchable,
    resolve,
    resolve_again,
)
from cpms.api.result import Result
from cpms.api.solving import solve
from cpms.backends.mpi.exchange import agreement
from cpms.base import work_clock
from cpms.base.compilation import first_call
from cpms.base.errors import InputError
from cpms.base.text.keywords import checked_keywords
from cpms.base.text.suggestions import require_one_of
from cpms.base.types import Floats, Norm
from cpms.base.validation import at_least, described, is_iterable
from cpms.contracts.status import Status, Step
from cpms.formats.formats import Format
from cpms.graph.fingerprint import fingerprint
from cpms.graph.graph import Graph
from cpms.precision.controller_specs import PrecisionGiven, given_precision
from cpms.problems.pagerank import Problem
from cpms.problems.personalization import NodeDistribution
from cpms.storage.device import failures_explained, free_unused


class PageRank:
    """A graph prepared for PageRank: solve it often, and pay for its preparation once.

    The engine is chosen and the matrix prepared at the first solve, or by `prepare`. A solve equals a call of
    `cpms.pagerank` with the same arguments, bit for bit where the engine is repeatable, whatever was solved before. An
    object is for one thread at a time.

    Parameters
    ----------
    graph : Graph or object
        As in `cpms.pagerank`. Its arrays must not be written while the object is in use.
    method, storage, layout, engine, damping, controller, certify
        As in `cpms.pagerank`.
    solves : int
        About how many solves are expected. An engine on a GPU takes each step of preparation that saves more time in
        these solves than the step takes. The answers differ in rounding alone.

    Raises
    ------
    InputError
        If an argument is out of range.
    UnavailableError
        If the engine cannot run on this machine.

    Examples
    --------
    >>> import cpms
    >>> graph = cpms.Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0])
    >>> with cpms.PageRank(graph, method="refine", engine="cpu") as prepared:
    ...     uniform, personal = prepared.solve(), prepared.solve(personalization=[3], tol=1e-12)
    >>> uniform.top(1)[0][0], personal.top(1)[0][0], personal.converged
    (0, 0, True)
    >>> prepared
    PageRank('graph': refine on cpu, closed)
    """

    @checked_keywords
    def __init__(
        self,
        graph: Graph | tuple[Any, Any],
        *,
        method: Method = "power",
        storage: str | Format = "auto",
        layout: str = "auto",
        engine: str = "auto",
        damping: float = 0.85,
        controller: PrecisionGiven | None = None,
        certify: Certify = "auto",
        solves: int = 1,
    ) -> None:
        agreement.require_same_call({name: value for name, value in locals().items() if name != "self"})
        with failures_explained("its graph was made"):
            graph = given_graph(graph, engine)
        require_one_of("certify", certify, CERTIFY)
        self._certify, self._solves = certify, at_least(1, "solves", solves)
        self._given_storage = requested_storage(storage, method)
        Problem(graph, damping)
        if not isinstance(engine, str) or engine != "auto":
            engines.get(engine)
        self.graph, self._engine, self._method = graph, engine, method
        self._layout, self._precision = layout, given_precision(controller)
        self._options: dict[str, Any] = {"method": method, "storage": storage, "engine": engine, "damping": damping}
        self._decided: dict[str, Request] = {}
        self._held: dict[str, Preparation] = {}
        self._fingerprint: list[int] | None = None
        self._last_ranks: Floats | None = None
        self._before_update: tuple[Graph, dict[str, Request]] | None = None
        self._is_closed, self._solving = False, threading.Lock()

    def __repr__(self) -> str:
        state = f"prepared in {self.nbytes:,} bytes" if self._held else "nothing prepared yet"
        names = dict.fromkeys(request.engine.name for request in self._decided.values())
        engine = " and ".join(names) or described(self._engine).strip("'")
        state = "closed" if self._is_closed else state
        return f"{type(self).__name__}({described(self.graph.name)}: {self._method} on {engine}, {state})"

    def __enter__(self) -> Self:
        self._require_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def nbytes(self) -> int:
        """Bytes of the prepared matrices, in the memory of their engine; 0 before the first solve and when closed."""
        return sum(held.nbytes for held in self._held.values())

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def close(self) -> None:
        """Free what was prepared: device memory goes back to the device, not to a pool. Results remain valid."""
        self._is_closed = True
        is_on_device = any(held.is_on_device for held in self._held.values())
        self._held.clear()
        self._last_ranks = None
        if is_on_device:
            free_unused()

    def prepare(
        self,
        *,
        personalization: NodeDistribution | None = None,
        dangling: Dangling = "teleport",
    ) -> None:
        """Choose the engine and prepare the matrix now; without this call the first solve does both.

        Some reductions of the graph hold for the uniform teleport distribution alone, so give ``personalization`` if
        solves will have one.

        Examples
        --------
        >>> import cpms
        >>> prepared = cpms.PageRank(cpms.Graph.from_edges([0, 1], [1, 0]), engine="cpu")
        >>> prepared.prepare()
        >>> prepared.nbytes > 0
        True
        """
        with self._exclusive():
            request = self._request(
                personalization=personalization, dangling=dangling, tol=1e-10, norm="l1", max_iterations=1, start=None
            )
            with self._discarding("one"), first_call.begun(self.graph.edges, ends=False):
                self._prepared("one", request)

    @checked_keywords
    def solve(
        self,
        *,
        personalization: NodeDistribution | None = None,
        tol: float = 1e-10,
        norm: Norm = "l1",
        max_iterations: int = 1000,
        iterations: int | None = None,
        dangling: Dangling = "teleport",
        start: Floats | None = None,
        on_step: Callable[[Step], None] | None = None,
    ) -> Result:
        """Solve and certify; parameters and errors are those of `cpms.pagerank`.

        A different teleport distribution keeps the preparation if the engine can replace the distribution in place. If
        this solve needs a preparation, ``prepare_s`` of the result is its time.

        Returns
        -------
        Result

        Examples
        --------
        >>> import cpms
        >>> prepared = cpms.PageRank(cpms.Graph.from_edges([0, 1, 2], [1, 2, 0]))
        >>> [prepared.solve(start=start).converged for start in (None, [1.0, 2.0, 3.0])]
        [True, True]
        """
        self._require_agreement({name: value for name, value in locals().items() if name != "self"})
        compiled_before_s = work_clock.compiled_s()
        if on_step is not None and not callable(on_step):
            raise InputError(f"on_step is {described(on_step)}; give a function of a cpms.Step")
        with self._exclusive():
            request = self._request(
                personalization=personalization,
                tol=tol,
                norm=norm,
                max_iterations=max_iterations,
                iterations=iterations,
                dangling=dangling,
                start=start,
            )
            return self._solved(request, on_step, compiled_before_s)

    @checked_keywords
    def solve_many(
        self,
        queries: Iterable[Personalization],
        *,
        tol: float = 1e-10,
        norm: Norm = "l1",
        max_iterations: int = 1000,
        dangling: Dangling = "teleport",
        start: Floats | None = None,
        width: int | None = None,
    ) -> list[Result]:
        """Solve one personalised PageRank a query; parameters and errors are those of `cpms.personalized_pagerank`.

        The preparation for batches is kept beside the one for single solves.

        Examples
        --------
        >>> import cpms
        >>> prepared = cpms.PageRank(cpms.Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0]))
        >>> [result.top(1)[0][0] for result in prepared.solve_many([0, [1, 2], {3: 1.0}])]
        [0, 2, 0]
        """
        compiled_before_s = work_clock.compiled_s()
        most = None if width is None else at_least(1, "width", width)
        if isinstance(queries, str | Mapping) or not is_iterable(queries):
            raise InputError(f"queries is a {type(queries).__name__}; give a list of queries, one alone as [query]")
        require_batchable(self._method, self._given_storage, self._precision)
        with self._exclusive():
            request = self._request(
                queries=list(queries), tol=tol, norm=norm, max_iterations=max_iterations, dangling=dangling, start=start
            )
            if request.queries is None:
                return [self._solved(request, None, compiled_before_s)]
            with self._discarding("many"), first_call.begun(self.graph.edges * len(request.queries)):
                began = work_clock.now()
                prepared = self._prepared("many", request)
                prepare_s = work_clock.now() - began
                return solve_batch(
                    *(request, prepared.batch, most),
                    prepare_s=prepare_s,
                    compiled_before_s=compiled_before_s,
                    recomputation=prepared.recomputation,
                )

    def update(
        self, edges_added: Sequence[Any] | None = None, edges_removed: Sequence[Any] | None = None, **options: Any
    ) -> Result:
        """Change edges of the graph, and solve again from the last ranks; ``options`` and errors are those of `solve`.

        The changed graph replaces `graph`, for later solves too. A wrong argument is an error that changes nothing.
        Engine, format and layout are kept, and the arrays of the graph are merged with the changes in one pass: in
        device memory where the engine holds them there, after which `graph` is a `cpms.DeviceGraph`. The matrix of the
        engine is prepared anew. A change of few edges leaves a small residual. The answer is certified as any other.

        Parameters
        ----------
        edges_added : pair or triple of array_like, optional
            Sources, targets and, for a graph with weights, weights (1 without), each of shape (changes,). Nodes have
            the ids of the graph, and no new nodes can be added. An edge that exists is stored once more.
        edges_removed : pair of array_like, optional
            Sources and targets, removed before others are added. Each pair removes one stored edge, of repeated ones
            the first; one that does not exist is an error.

        Returns
        -------
        Result
            Of the changed graph. Without an earlier solve, or with ``start``, it starts as `solve` does.

        Examples
        --------
        >>> import cpms
        >>> prepared = cpms.PageRank(cpms.Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0]))
        >>> before = prepared.solve()
        >>> after = prepared.update(edges_added=([0], [3]), edges_removed=([2], [0]))
        >>> before.graph.edges, after.graph.out_degree.tolist(), after.converged, prepared.graph is after.graph
        (4, [2, 1, 0, 1], True, True)
        """
        self._require_agreement({"edges_added": edges_added, "edges_removed": edges_removed})
        with self._exclusive():
            self._require_unwritten()
            graph = with_changed_edges(self.graph, self._held.values(), edges_added, edges_removed)
            changed = {kind: request.with_graph(graph) for kind, request in self._decided.items()}
            self._before_update = self.graph, self._decided
            self.graph, self._decided, self._fingerprint = graph, changed, None
        try:
            return self.solve(**{"start": self._last_ranks} | options)
        finally:
            if self._before_update is not None:  # The solve was refused before its preparation.
                self.graph, self._decided = self._before_update
                self._before_update = self._fingerprint = None

    def _request(self, *, queries: list[Personalization] | None = None, **given: Any) -> Request:
        """Return the request of a solve; the first of its kind decides engine, format and layout for all later ones."""
        is_batch = queries is not None and not (len(queries) == 1 and self._engine == "auto")
        kind = "many" if is_batch else "one"
        if kind in self._decided:
            return resolve_again(self._decided[kind], queries=queries, **given)
        layout = "auto" if is_batch else self._layout
        request = resolve(
            self.graph, queries=queries, layout=layout, precision=self._precision, **self._options, **given
        )
        self._decided[kind] = request
        return request

    def _prepared(self, kind: str, request: Request) -> Preparation:
        """Return a preparation for the request: the one held, with another teleport distribution, or a new one."""
        self._require_unwritten()
        held = self._held.pop(kind, None)
        if held is not None:  # What is left of it is the graph, where the engine has it.
            request = request.with_graph(held.problem.graph)
            held = held.for_request(request)  # The old matrix is freed before another is made.
        self._held[kind] = held or Preparation.of(request, solves=self._solves, certify=self._certify)
        return self._held[kind]

    def _solved(self, request: Request, on_step: Callable[[Step], None] | None, compiled_before_s: float) -> Result:
        if self._before_update is not None:
            self._before_update = None
            self._held.clear()
        with self._discarding("one"), first_call.begun(self.graph.edges):
            began = work_clock.now()
            prepared = self._prepared("one", request)
            prepare_s = work_clock.now() - began
            found = solve(
                *(request, prepared.solver, on_step),
                prepare_s=prepare_s,
                compiled_before_s=compiled_before_s,
                recomputation=prepared.recomputation,
            )
            if not found.reusable:
                del self._held["one"]
            on_device, is_number = found.result.device_ranks, found.result.status is not Status.NON_FINITE
            self._last_ranks = (found.result.ranks if on_device is None else on_device) if is_number else None
            return found.result

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Refuse a closed object, and a solve within a solve or in another thread."""
        self._require_open()
        if not self._solving.acquire(blocking=False):
            raise InputError("this PageRank is in a solve already; make one for each thread, and none in on_step")
        try:
            yield
        finally:
            self._solving.release()

    @contextmanager
    def _discarding(self, kind: str) -> Iterator[None]:
        """Discard a preparation that an error has left half-used."""
        try:
            with errors_explained(self.graph):
                yield
        except BaseException:
            self._held.pop(kind, None)
            raise

    def _require_unwritten(self) -> None:
        found = fingerprint(self.graph)
        if self._fingerprint not in (None, found):
            raise InputError(
                f"an array of {self.graph.name} was written to after it was prepared; make a graph and a PageRank of "
                "what it holds now"
            )
        self._fingerprint = found

    def _require_open(self) -> None:
        if self._is_closed:
            raise InputError(f"this PageRank of {self.graph.name} is closed; make a new one to solve again")

    def _require_agreement(self, arguments: dict[str, Any]) -> None:
        agreement.require_same_call({"engine": self._engine, **arguments})
