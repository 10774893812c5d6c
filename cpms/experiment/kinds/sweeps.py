"""Times of persistent sweeps on a GPU, by format and arrangement of the graph, with two lower bounds.

The bounds are those of a roofline: the minimum traffic at copy bandwidth, and random gathers alone. An arrangement
turns one strategy on or off, to measure its effect. The keys of `RecordedArrangement` are those of recorded cells, and
this module alone maps them to the names of the code.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from cpms import engines
from cpms.backends.cuda.arrays.vectors import vector_length
from cpms.backends.cuda.kernels.template import GATHERS
from cpms.backends.cuda.persistent import power
from cpms.backends.cuda.persistent.device_graph import Arrangement, PersistentGraph
from cpms.backends.cuda.persistent.refinement import CudaRefinement
from cpms.backends.cuda.persistent.strategies import DIRECT_GATHER_DATA, StrategyData, StrategyRequest
from cpms.backends.cuda.reduction.reduced_refinement import lumped_core
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv import reordering
from cpms.backends.cuda.spmv.padded_csr import ENTRY_BYTES, out_degree
from cpms.base import work_clock
from cpms.experiment.config import Cell, Repeated, Strict
from cpms.experiment.config_types import StorageName
from cpms.experiment.derived.sweep_times import UPDATE_PERIOD
from cpms.experiment.graph_cache import OnGraphs, graph_columns
from cpms.experiment.graph_files import GraphSource
from cpms.experiment.timers import Timer, ceilings, in_turn
from cpms.formats.formats import FloatFormat, format_named
from cpms.formats.quantization import quantiser
from cpms.precision.controllers import FLOAT64
from cpms.problems.pagerank import Problem

_NEVER = 1e-300
_REQUEST_KEYS = {
    "hot": "hub_cache",
    "bins": "tiled_gather",
    "deal": "propagation_blocking",
    "cached": "in_cache",
}
"""Fields of `StrategyRequest` by the keys of recorded rows.

A cell's name is a hash of its keys, so the keys stay as they were first recorded; this table is the only place that
maps them to the names of the code. Of the other keys, ``renumber`` is ``reorder``, ``stretch_steps`` is ``range_tiles``
and ``warps`` is ``warps`` of `Arrangement`, and ``merge`` asks for lumping (`RecordedArrangement.arrangement`).
"""
_LATER = "cached", "merge"
"""Keys that rows recorded before these strategies existed do not have."""


class RecordedArrangement(Strict):
    """The arrangement of a graph in device memory; see `cpms.backends.cuda.persistent.device_graph.Arrangement`.

    With ``merge``, nodes of equal columns are lumped as in `cpms.backends.cuda.reduction.lumping`; all else is then the
    choice of the engine, and there are no sweeps in float64.
    """

    renumber: bool = True
    stretch_steps: int | None = Field(default=None, ge=0)
    warps: Literal[16, 24] | None = None
    hot: bool | None = None
    bins: bool | None = None
    deal: bool | None = None
    cached: bool | None = None
    merge: bool | None = None

    @model_validator(mode="after")
    def _lumps_without_other_keys(self) -> RecordedArrangement:
        if self.merge and self.model_copy(update={"merge": None}) != RecordedArrangement():
            raise ValueError("merged nodes lie as the engine chooses; leave out what is beside merge = true")
        return self

    @model_serializer(mode="wrap")
    def _as_recorded(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out later keys at their defaults, so that older cells keep their names."""
        fields: dict[str, Any] = written(self)
        return {name: value for name, value in fields.items() if name not in _LATER or value is not None}

    def arrangement(self) -> Arrangement:
        """Return the arrangement in the names of the engine."""
        request = StrategyRequest(**{field: getattr(self, key) for key, field in _REQUEST_KEYS.items()})
        return Arrangement(self.renumber, self.stretch_steps, self.warps, request)


class Config(Repeated):
    """The fields of such an experiment."""

    graphs: list[GraphSource] = Field(min_length=1)
    storages: list[StorageName] = ["fp16", "e5m2", "fp32"]
    arrangements: list[RecordedArrangement] = [RecordedArrangement()]
    sweeps: int = Field(default=30, ge=2)
    samples: int = Field(default=5, ge=1)

    def cells(self) -> list[Cell]:
        """Return one cell for each graph; arrangements and formats alternate."""
        fixed = self.model_dump(include={"storages", "arrangements", "sweeps", "samples"})
        return self.cells_by_graph(self.graphs, **fixed)

    def resolved(self, cell: Cell) -> Cell:
        """Return a cell with all keys of its arrangements."""
        return {
            **cell,
            "arrangements": [dict(RecordedArrangement.model_validate(given)) for given in cell["arrangements"]],
        }


class Context(OnGraphs):
    """The graph of consecutive cells, and the rates of the device, measured once a run."""

    @functools.cached_property
    def _ceilings(self) -> dict[str, float]:
        return ceilings()

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Time the sweeps over a graph in each arrangement."""
        engines.get("cuda_fused")
        rates = self._ceilings  # Measured before a graph takes memory.
        began = work_clock.now()
        graph = self.graph_of(cell)
        load_s = work_clock.now() - began
        results = []
        for recorded in cell["arrangements"]:
            results += _arranged(Problem(graph), recorded, cell)
        return {
            **graph_columns(graph),
            "load_s": load_s,
            "ceilings": rates,
            "results": results,
        }


def _arranged(problem: Problem, recorded: dict[str, Any], cell: Cell) -> list[dict[str, Any]]:
    given = RecordedArrangement.model_validate(recorded)
    began = work_clock.now()
    if given.renumber:
        reordering.chosen(problem.graph, out_degree(problem.graph))
    numbering_s = work_clock.now() - began
    refinement = lumped_core(problem) if given.merge else CudaRefinement.of(problem, given.arrangement())
    first = np.full(refinement.graph.nodes, 1.0 / refinement.graph.nodes)
    contestants: list[_Contestant] = [
        _Contestant(
            storage.name,
            storage.width,
            refinement.graph,
            refinement.accumulates(storage),
            lambda storage=storage: inner_seconds(refinement, first, storage, cell["sweeps"]),  # type: ignore[misc]
        )
        for storage in (quantiser(format_named(name)) for name in cell["storages"])
    ]
    if not given.merge:
        resident = PersistentGraph.of(problem, given.arrangement(), value_bytes=8)
        operator = power.operator(problem, resident)
        seconds = functools.partial(residual_seconds, operator, first, cell["sweeps"])
        contestants.append(_Contestant("fp64", 64, resident, False, seconds))
    samples: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    run_means: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    for turn in range(cell["samples"] + 1):
        for contestant in contestants:
            found = contestant.seconds()
            if turn:
                samples[contestant.name] += found
                run_means[contestant.name].append(mean_of_whole_periods(found))
    gathers = {contestant.bits: _gather_timer(contestant.graph, contestant.bits) for contestant in contestants}
    in_turn(list(gathers.values()), 9)
    return [
        {
            "arrangement": recorded,
            "renumbered": graph.order is not None,
            "numbering_s": numbering_s,
            "storage": name,
            "bits": bits,
            "sweep_us": 1e6 * statistics.median(samples[name]),
            "least_us": 1e6 * min(samples[name]),
            "most_us": 1e6 * max(samples[name]),
            "run_us": [1e6 * mean for mean in run_means[name]],
            "bytes": bytes_moved(
                graph.nodes, int(graph.degree.sum()), bits, graph.strategy_data, accumulates=accumulates
            ),
            "in_bins": graph.strategy_data.streamed_bytes(bits // 8) is not None,
            "gather_us": 1e3 * statistics.median(gathers[bits].samples_ms),
        }
        for name, bits, graph, accumulates, _ in contestants
    ]


class _Contestant(NamedTuple):
    """Sweeps in a format over an arranged graph."""

    name: str
    bits: int
    graph: PersistentGraph
    accumulates: bool
    seconds: Callable[[], list[float]]


def inner_seconds(refinement: CudaRefinement, first: Any, storage: FloatFormat, sweeps: int) -> list[float]:
    """Return the seconds of each of several inner sweeps."""
    refinement.start(first)
    found = refinement.outer_step(storage, inner_reduction=_NEVER, tol=_NEVER, norm="l1", max_inner=sweeps)
    seconds: list[float] = np.diff(found.seconds)[1:].tolist()
    return seconds


def residual_seconds(operator: power.FusedOperator, first: Any, sweeps: int) -> list[float]:
    """Return the seconds of each of several float64 sweeps."""
    x, out = operator.load(first), operator.empty()
    found = operator.sweeps(x, out, FLOAT64, 0, norm="l1", tol=0.0, most=sweeps)
    seconds: list[float] = np.diff(found.seconds).tolist()
    return seconds


def mean_of_whole_periods(seconds: list[float]) -> float:
    """Return the mean over the last sweeps of a run that make up whole periods of the deferred update of x.

    Every period includes one update, so that this is the mean sweep of a long run. A run that is shorter than a period
    gives the mean over all its sweeps.

    Examples
    --------
    >>> mean_of_whole_periods([100.0] + [1.0, 9.0] * 8)
    5.0
    """
    whole = len(seconds) // UPDATE_PERIOD * UPDATE_PERIOD
    return statistics.fmean(seconds[-whole:])


def bytes_moved(
    nodes: int, edges: int, bits: int, strategy_data: StrategyData = DIRECT_GATHER_DATA, *, accumulates: bool = False
) -> float:
    """Return the minimum traffic of a sweep in bytes, without the gathered values.

    For an edge, a sweep reads its source and row-end flag, or its entries of a tiled gather. For a row, an inner sweep
    reads the out-degree and writes the value; if sweeps accumulate the correction, it also reads and writes that. A
    float64 sweep reads the out-degree and reads and writes the value.

    Examples
    --------
    >>> bytes_moved(2, 2, 16), bytes_moved(2, 2, 16, accumulates=True)
    (14.5, 30.5)
    """
    row = strategy_data.degree_bytes + (16 if bits == 64 else bits / 8 + (8 if accumulates else 0))
    staged_bytes = strategy_data.streamed_bytes(bits // 8)
    return (ENTRY_BYTES * edges if staged_bytes is None else staged_bytes) + row * nodes


def _gather_timer(resident: PersistentGraph, bits: int) -> Timer:
    backend = current()
    values = backend.arrays.zeros(vector_length(resident.nodes), f"uint{bits}")
    blocks = backend.processors * 8
    sums = backend.arrays.zeros(blocks * 256, np.uint64)
    sources = resident.edges.sources
    arguments = sources, np.uint64(sources.size), values, sums
    return Timer(lambda: backend.run(GATHERS[bits], blocks, arguments), same=True)
