"""``mpiexec -n MOST python -m cpms.mpi.scaling TASK``: time solves on 1, 2, 4, … of the ranks, a GPU each.

TASK is a JSON object; see `cpms.experiment.kinds.scaling_gpu`, which starts this. All counts of ranks use the same
processes, the others wait at a barrier. Rank 0 prints the results as JSON.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from cpms.backends.cuda.persistent import power as power_kernel
from cpms.backends.cuda.persistent.device_graph import PersistentGraph
from cpms.backends.cuda.persistent.refinement import CudaRefinement
from cpms.backends.cuda.runtime.current import current
from cpms.backends.mpi.exchange import agreement, world
from cpms.backends.mpi.exchange.transport import Repeated, Transport, between
from cpms.backends.mpi.exchange.windows import copy_to
from cpms.backends.mpi.shares import reading
from cpms.backends.mpi.shares.rows import GraphRows, of_graph
from cpms.backends.mpi.sweeps import device_choice
from cpms.backends.mpi.sweeps.device_rows import DeviceRows
from cpms.base import threads
from cpms.base.program import run_program
from cpms.base.text.terminal import say_json
from cpms.base.types import Floats
from cpms.contracts.status import Status, Step
from cpms.contracts.stopping import Stopping
from cpms.formats.formats import FloatFormat, format_named
from cpms.formats.quantization import quantiser
from cpms.graph.graph import Graph
from cpms.mpi.abort import abort
from cpms.mpi.solve import Certifier
from cpms.precision.controllers import Fixed
from cpms.precision.refinement_policy import default_policy
from cpms.problems.pagerank import Problem
from cpms.solvers.power import power
from cpms.solvers.refine import outer_iteration
from cpms.sources.loading import load

_EXCHANGES = 10
_SAMPLES = 3
_LINK_BYTES = 32 << 20
"""Bytes of a plain copy that measures the link between two GPUs."""
History = list[Step]


def graph_for(graph: str, ranks: int) -> str:
    """Return the graph for a number of ranks.

    ``RANKS*N`` becomes the number of ranks times N, ``RANKS`` that number, and ``N+LOG2RANKS`` the sum of N and its
    base-2 logarithm, rounded down: the scale of an R-MAT graph, whose nodes double with each step.

    Examples
    --------
    >>> graph_for("rmat:scale=20+LOG2RANKS,edge_factor=8,seed=1", 4)
    'rmat:scale=22,edge_factor=8,seed=1'
    >>> graph_for("uniform:nodes=RANKS*20,edges=RANKS*80", 4), graph_for("weblike-parts:parts=RANKS,nodes=5", 2)
    ('uniform:nodes=80,edges=320', 'weblike-parts:parts=2,nodes=5')
    """
    graph = re.sub(r"(\d+)\+LOG2RANKS", lambda found: str(int(found[1]) + ranks.bit_length() - 1), graph)
    return re.sub(r"RANKS(?:\*(\d+))?", lambda found: str(ranks * int(found[1] or 1)), graph)


@dataclass
class _Contestant:
    """An engine with a method and a format, and the times of its solves."""

    engine: str
    method: str
    storage: str
    solve: Callable[[Floats, Stopping], tuple[Status, History]]
    answer: Callable[[], Floats]
    nbytes: int
    samples_s: list[float] = field(default_factory=list)
    sweeps_s: dict[int, list[float]] = field(default_factory=dict)
    exchanged_s: list[float] = field(default_factory=list)
    """Seconds of each launch in exchanges and waits for other ranks, as the operator notes them."""
    exchange_samples_s: list[float] = field(default_factory=list)
    received_bytes: int = 0
    status: Status = Status.MAX_ITERATIONS
    iterations_by_bits: dict[int, int] = field(default_factory=dict)


def measured(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the columns of each contestant for each count of ranks; collective, with all results on rank 0."""
    everyone = world.world()
    thread_count = max(1, threads.available() // world.ranks_here())
    loaded: dict[str, Graph] = {}
    reference_ranks: list[Floats] = []
    found = []
    for count in task["ranks"]:
        graph = graph_for(task["graph"], count)
        if not reading.in_shares(graph) and graph not in loaded:
            # Waiting ranks load the graph, too, since they need it at the next count.
            with threads.limited(thread_count):
                loaded[graph] = load(graph)
        part = everyone.Split(0 if everyone.rank < count else 1, everyone.rank)
        if everyone.rank < count:
            with threads.limited(thread_count):
                found += _of_count(task, graph, part, loaded, reference_ranks)
        everyone.Barrier()
    return found


def _of_count(
    task: dict[str, Any], graph: str, communicator: Any, loaded: dict[str, Graph], reference_ranks: list[Floats]
) -> list[dict[str, Any]]:
    began = time.perf_counter()
    rows = _rows(graph, communicator, loaded)
    load_s = time.perf_counter() - began
    transport = between(communicator)
    join_s = time.perf_counter() - began - load_s
    problem, stopping = Problem(rows), Stopping(task["tol"])
    contestants, own = _contestants(problem, rows, transport, quantiser(format_named(task["storage"])))
    current().synchronize()
    prepare_s = time.perf_counter() - began - load_s - join_s
    began = time.perf_counter()
    initial = np.full(rows.nodes, 1.0 / rows.nodes)
    for turn in range(task["warmup"] + task["solves"]):
        for contestant in contestants:
            communicator.Barrier()
            _solve(contestant, initial, stopping, communicator, transport, counts=turn >= task["warmup"])
    solves_s = time.perf_counter() - began
    exchanges = {} if own is None else _exchanges(own)
    certifier = Certifier(problem, rows, communicator, stopping, threads.available())
    held = communicator.allgather(rows.edges)
    head = {
        "graph_name": rows.name,
        "ranks": transport.ranks,
        "nodes": rows.nodes,
        "edges": sum(held),
        "edges_by_rank": held,
        "load_s": load_s,
        "join_s": join_s,
        "prepare_s": prepare_s,
        "solves_s": solves_s,
        **exchanges,
    }
    return [head | _columns(contestant, certifier, communicator, reference_ranks) for contestant in contestants]


def _rows(graph: str, communicator: Any, loaded: dict[str, Graph]) -> GraphRows:
    """Read this rank's rows, from the whole graph if ranks cannot read parts of it."""
    if graph in loaded:
        return of_graph(loaded[graph], communicator.rank, communicator.size)
    return reading.read(graph, communicator)


def _contestants(
    problem: Problem, rows: GraphRows, transport: Transport, storage: FloatFormat
) -> tuple[list[_Contestant], DeviceRows | None]:
    """Return the contestants, and this rank's rows if there are several ranks."""
    of_power, _ = device_choice.power_operator(problem, rows, transport)
    refinement, own = device_choice.refinement(problem, rows, transport)
    contestants = [_of_power("mpi_cuda", of_power), _of_refinement("mpi_cuda", refinement, storage)]
    if transport.ranks == 1:
        fused = power_kernel.operator(problem, PersistentGraph.of(problem, value_bytes=8))
        contestants += [
            _of_power("cuda_fused", fused),
            _of_refinement("cuda_fused", CudaRefinement.of(problem), storage),
        ]
    for contestant, operator in zip(contestants, (of_power, refinement), strict=False):
        contestant.exchanged_s = getattr(operator, "exchanged_s", [])
    return contestants, own


def _of_power(engine: str, operator: Any) -> _Contestant:
    last_answer: list[Any] = []

    def solve(initial: Floats, stopping: Stopping) -> tuple[Status, History]:
        last_answer.clear()  # Its memory is taken again, and with it the graphs of the last solve.
        # The answer stays on the device.
        answer, status, history = power(operator, initial, Fixed(), stopping, answer=lambda _, x, __: x)
        last_answer[:] = [answer]
        return status, history

    return _Contestant(engine, "power", "fp64", solve, lambda: operator.read(last_answer[0], 0), operator.nbytes)


def _of_refinement(engine: str, refinement: Any, storage: FloatFormat) -> _Contestant:
    def solve(initial: Floats, stopping: Stopping) -> tuple[Status, History]:
        _, status, history = outer_iteration(
            refinement, initial, default_policy(storage), stopping, answer=lambda _: None
        )
        return status, history

    return _Contestant(engine, "refine", storage.name, solve, refinement.read, refinement.nbytes)


def _solve(
    contestant: _Contestant,
    initial: Floats,
    stopping: Stopping,
    communicator: Any,
    transport: Transport,
    *,
    counts: bool,
) -> None:
    received_before = transport.received_bytes
    contestant.exchanged_s.clear()
    status, history = contestant.solve(initial, stopping)
    if not counts:
        return
    contestant.samples_s.append(max(communicator.allgather(history[-1].seconds)))
    # Of a rank that waits least for others.
    contestant.exchange_samples_s.append(min(communicator.allgather(sum(contestant.exchanged_s))))
    contestant.status, contestant.received_bytes = status, transport.received_bytes - received_before
    contestant.iterations_by_bits = Counter(step.bits for step in history)
    # The first sweep of a solve includes a wait, and the first inner sweep another exchange; both are excluded.
    for previous, step in pairwise(history):
        if step.bits == previous.bits:
            contestant.sweeps_s.setdefault(step.bits, []).append(step.seconds - previous.seconds)


def _exchanges(own: DeviceRows) -> dict[str, Any]:
    """Return the times of exchanges in 64 and in 16 bits, the bytes of rank 0, and the link's share that they use."""
    transport, exchange, communicator = own.transport, own.exchange, own.transport.communicator
    foreign = communicator.allgather(own.read_values - (own.rows.high - own.rows.low))
    found: dict[str, Any] = {"exchange": exchange.name, "foreign_values_by_rank": foreign}
    link = _link_bandwidth(transport)
    if link:
        found["link_bytes_per_s"] = link
    for bits in (64, 16):
        vector, repeated = own.exchange.vector(np.uint8, each_bytes=bits // 8), Repeated(transport)
        samples = []
        for _ in range(_SAMPLES + 1):
            current().synchronize()
            received_before, began = transport.received_bytes, time.perf_counter()
            for _ in range(_EXCHANGES):
                repeated.run((vector.memory, vector.received_totals), (bits,), partial(own.exchange.queue, vector))
            current().synchronize()
            samples.append((time.perf_counter() - began) / _EXCHANGES)
        found |= {
            f"exchange_{bits}_bits_s": statistics.median(samples[1:]),
            f"exchange_{bits}_bits_received_bytes": (transport.received_bytes - received_before) // _EXCHANGES,
        }
        if link:
            share = max(foreign) * bits / 8 / found[f"exchange_{bits}_bits_s"] / link
            found[f"exchange_{bits}_bits_link_share"] = share
    return found


def _link_bandwidth(transport: Transport) -> float | None:
    """Return the bytes a second that each rank copies into the next one's memory, all at the same time; collective."""
    if transport.windows is None:
        return None
    window, source = transport.windows.window(_LINK_BYTES), current().arrays.zeros(_LINK_BYTES, np.uint8)
    target = window.addresses[(transport.rank + 1) % transport.ranks]
    samples = []
    for _ in range(_SAMPLES + 1):
        current().synchronize()
        transport.communicator.Barrier()
        began = time.perf_counter()
        for _ in range(_EXCHANGES):
            copy_to(target, source)
        current().synchronize()
        samples.append(time.perf_counter() - began)
    slowest: float = max(transport.communicator.allgather(statistics.median(samples[1:])))
    return _EXCHANGES * _LINK_BYTES / slowest


def _columns(
    contestant: _Contestant, certifier: Certifier, communicator: Any, reference_ranks: list[Floats]
) -> dict[str, Any]:
    began = time.perf_counter()
    columns: dict[str, Any] = {
        "engine": contestant.engine,
        "method": contestant.method,
        "storage": contestant.storage,
        "converged": contestant.status is Status.CONVERGED,
        "iterations": sum(contestant.iterations_by_bits.values()),
        "iterations_by_bits": {str(bits): count for bits, count in contestant.iterations_by_bits.items()},
        "solve_s": statistics.median(contestant.samples_s),
        "solve_samples_s": contestant.samples_s,
        "exchange_s": statistics.median(contestant.exchange_samples_s),
        "sweep_s_by_bits": {str(bits): statistics.median(spent) for bits, spent in contestant.sweeps_s.items()},
        "received_bytes": contestant.received_bytes,
        "matrix_bytes_by_rank": communicator.allgather(contestant.nbytes),
    }
    if contestant.engine == "mpi_cuda":
        ranks = contestant.answer()
        ranks /= ranks.sum()
        columns["residual_l1"] = certifier.change(ranks).l1
        if not reference_ranks or len(reference_ranks[0]) != len(ranks):
            reference_ranks[:] = [ranks]
        columns["difference_l1"] = float(np.abs(ranks - reference_ranks[0]).sum())
        columns["check_s"] = time.perf_counter() - began
    return columns


def main() -> int:
    """Run this rank and return its exit code; rank 0 alone prints."""
    return run_program(_call, abort)


def _call() -> int:
    agreement.require_same(world.world(), {"TASK": sys.argv[1]})
    found = measured(json.loads(sys.argv[1]))
    if world.world().rank == 0:
        say_json(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
