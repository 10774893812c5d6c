"""Whole solves by `cpms.pagerank`: graphs x methods x storages x layouts x engines x tolerances x repetitions.

A cell is one solve after a warm-up. Repetitions are the outer loop, so that contestants alternate. Without `layouts`,
method `power` has layout `csr`, as in the CPMS paper, and `refine` has `pattern`; name one layout to compare the two.
"""

from __future__ import annotations

import itertools
import resource
import sys
import time
from collections import defaultdict
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from cpms.analysis import rankings
from cpms.api import pagerank
from cpms.api.result import Result
from cpms.base.errors import InputError
from cpms.base.text.progress import part_done
from cpms.base.types import DanglingRule
from cpms.experiment.config import Cell, Strict, WarmedUp
from cpms.experiment.config_types import AUTO, EngineOrAuto, LayoutOrAuto, StorageName, StorageOrAuto
from cpms.experiment.graph_cache import OnGraphs, graph_columns
from cpms.experiment.graph_files import GraphSource, named
from cpms.experiment.memory_footprint import least_bytes_of_solve
from cpms.experiment.timers import copy_rates
from cpms.formats.formats import format_named
from cpms.graph.graph import Duplicates, Graph, SelfLoops
from cpms.precision.controller_specs import controller_of
from cpms.precision.controllers import AtMost, Controller, Fixed, StartAt, Threshold, WriteAhead, default_controller
from cpms.precision.refinement_policy import RefinementPolicy
from cpms.sources.readers.options import Ids, Symmetric, Weights

_RECORDED_TOP = 20
_OF_GRAPHS = {"duplicates", "self_loops", "ids"}
_OF_ALL_CELLS = {"damping", "norm", "symmetric", "weights", "max_iterations", "reference_tol", "record_history"}
_LATER = ("at_most", "rises", "plugin", "by", "inner", "formats", "storage", "inner_reduction")
"""Fields of policies that rows lack if a configuration does not give them."""


Rule = Literal["default", "threshold", "fixed", "schedule", "at_most", "start_at", "write_ahead",
               "adaptive_reduction", "fixed_reduction"]  # fmt: skip


class Policy(Strict):
    """The controller of power iteration, or the policy of ``refine``, in a configuration; by default the method's own.

    ``rises`` are the segments of a schedule by sweep. ``plugin`` names a controller or policy of one's own in place of
    a rule, by an entry point, ``module:attribute`` or ``file.py:attribute``. The keys ``start_at``, ``at_most`` and
    ``write_ahead`` wrap the controller. The rules of these names wrap ``inner``, another rule or table, and may be
    nested.
    """

    rule: Rule = "default"
    factor: float = Field(default=10.0, gt=0)
    stagnation: bool = True
    read: int | None = Field(default=None, ge=1)
    write_ahead: int = Field(default=0, ge=0)
    start_at: int | None = Field(default=None, ge=1)
    at_most: int | None = Field(default=None, ge=1)
    rises: dict[str, int] | None = None
    plugin: str | None = None
    by: int | None = Field(default=None, ge=0)
    inner: str | dict[str, Any] | None = None
    formats: Annotated[list[StorageName], Field(min_length=1)] | None = None
    storage: StorageName | None = None
    inner_reduction: float | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Policy:
        if (self.rises is None) == (self.rule == "schedule"):
            raise ValueError("rises are those of rule schedule, which needs them, such as {0 = 1, 20 = 2}")
        if self.plugin is not None and self.rule != "default":
            raise ValueError(f"plugin is in place of a rule; leave out one of them, {self.plugin} or {self.rule}")
        if self.plugin is not None or self.rule not in ("default", "threshold", "fixed"):
            self.precision("fp64")
        return self

    def precision(self, storage: str) -> Controller | RefinementPolicy:
        """Return the controller for a storage format, or the policy."""
        chosen: Controller | RefinementPolicy
        if self.plugin is not None:
            chosen = controller_of(self.plugin)
        elif self.rule == "default":
            chosen = default_controller(format_named(storage))
        elif self.rule == "fixed":
            chosen = Fixed(self.read)
        elif self.rule == "threshold":
            chosen = Threshold(self.factor, self.stagnation)
        else:
            keys = ("rises", "read", "by", "inner", "formats", "storage", "inner_reduction")
            given = {key: value for key in keys if (value := getattr(self, key)) is not None}
            chosen = controller_of({"rule": self.rule, **given})
        if isinstance(chosen, RefinementPolicy):
            if self.start_at or self.at_most or self.write_ahead:
                raise InputError("start_at, at_most and write_ahead are for controllers of power, not for policies")
            return chosen
        if self.start_at:
            chosen = StartAt(chosen, self.start_at)
        if self.at_most:
            chosen = AtMost(chosen, self.at_most)
        return WriteAhead(chosen, self.write_ahead) if self.write_ahead else chosen

    def of_method(self, method: str, storage: str) -> Controller | RefinementPolicy | None:
        """Return the controller or policy for a method that it fits; None for the default of ``refine``."""
        return None if method == "refine" and self == Policy() else self.precision(storage)

    def fits(self, method: str) -> bool:
        """Return whether it is a controller for ``power``, or a policy for ``refine``."""
        return self == Policy() or isinstance(self.precision("fp64"), RefinementPolicy) == (method == "refine")


class Config(WarmedUp):
    """The fields of such an experiment."""

    warmup: int = Field(default=1, ge=0)
    graphs: list[GraphSource] = Field(min_length=1)
    methods: list[Literal["power", "refine"]] = Field(default=["power"], min_length=1)
    storages: list[StorageOrAuto] = Field(default=["fp64"], min_length=1)
    layouts: Annotated[list[LayoutOrAuto], Field(min_length=1)] | None = None
    """Layouts; csr by default, pattern for method refine."""
    engines: list[EngineOrAuto] = Field(default=["cpu"], min_length=1)
    tolerances: list[Annotated[float, Field(gt=0)]] = Field(default=[1e-10], min_length=1)
    policies: list[Policy] = Field(default=[Policy()], min_length=1)
    damping: float = Field(default=0.85, gt=0, lt=1)
    norm: Literal["l1", "l2", "linf"] = "l1"
    symmetric: Symmetric = "lower"
    weights: Weights = "auto"
    duplicates: Duplicates = "keep"
    self_loops: SelfLoops = "keep"
    ids: Ids = "keep"
    dangling: DanglingRule = "teleport"
    max_iterations: int = Field(default=1000, ge=1)
    reference_tol: float | None = Field(default=None, gt=0)
    record_history: bool = False
    later: ClassVar[set[str]] = {*_OF_GRAPHS, "dangling"}

    @model_validator(mode="after")
    def _formats_are_named_for_power(self) -> Config:
        if AUTO in self.storages and "power" in self.methods:
            raise ValueError("storages hold auto, which is method refine's; for power name formats such as fp64")
        for method in self.methods:
            if not any(policy.fits(method) for policy in self.policies):
                raise ValueError(f"no one of policies is for method {method}; add one, such as {{ rule = 'default' }}")
        return self

    def cells(self) -> list[Cell]:
        """Return the cells, with contestants inside repetitions, so that they alternate."""
        fixed = self.model_dump(include=_OF_ALL_CELLS) | self.given_later()
        axes = (self.engines, self.storages, self.policies, self.tolerances)
        parts = [
            {
                "method": method,
                "storage": storage,
                "layout": layout,
                "engine": engine,
                "policy": policy.model_dump(exclude_defaults=True),
                "tol": tol,
            }
            for method in self.methods
            for layout in (["pattern" if method == "refine" else "csr"] if self.layouts is None else self.layouts)
            for engine, storage, policy, tol in itertools.product(*axes)
            if policy.fits(method)
        ]
        return self.in_rounds(map(named, self.graphs), parts, **fixed)

    def resolved(self, cell: Cell) -> Cell:
        """Return a cell with its defaults and all fields of its policy."""
        policy = Policy.model_validate(cell["policy"])
        later = {name for name in _LATER if getattr(policy, name) is None}
        return {**super().resolved(cell), "policy": policy.model_dump(exclude=later)}


class Context(OnGraphs):
    """The graph of consecutive cells, and the contestants that are warmed up."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._config = config
        self._warm: set[str] = set()

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Solve one cell and return its columns."""
        rates = copy_rates([cell["engine"]])  # Before a graph takes memory.
        options = {key: cell[key] for key in ("symmetric", "weights", *_OF_GRAPHS) if key in cell}
        graph = self.graph_of(cell, **options)
        keys = ("graph", "read_options", "storage", "layout", "engine", "policy", "method")
        contestant = str({key: cell.get(key) for key in keys})
        if contestant not in self._warm:
            for turn in range(self._config.warmup):
                _solve(graph, cell)
                part_done(turn + 1, self._config.warmup + 1)
            self._warm.add(contestant)
        busy_s, began = time.process_time(), time.monotonic()
        result = _solve(graph, cell)
        busy = (time.process_time() - busy_s) / (time.monotonic() - began)
        return {
            "warmup": self._config.warmup,
            "busy_cores": busy,
            **rates,
            **_columns(graph, result, cell),
            **self._accuracy(result, cell),
        }

    def _accuracy(self, result: Result, cell: Cell) -> dict[str, Any]:
        """Compare with a float64 solution at ``reference_tol``, computed once a graph."""
        if cell["reference_tol"] is None:
            return {}
        reference = self.graph.exact(cell["reference_tol"], cell["damping"], cell.get("dangling", "teleport"))
        return {
            "error_l1": float(np.abs(result.ranks - reference).sum()),
            "top20_overlap": rankings.top_k_overlap(reference, result.ranks, 20),
        }


def _solve(graph: Graph, cell: Cell) -> Result:
    return pagerank.pagerank(
        graph,
        method=cell["method"],
        storage=cell["storage"],
        layout=cell["layout"],
        engine=cell["engine"],
        damping=cell["damping"],
        tol=cell["tol"],
        norm=cell["norm"],
        max_iterations=cell["max_iterations"],
        dangling=cell.get("dangling", "teleport"),
        controller=Policy.model_validate(cell["policy"]).of_method(cell["method"], cell["storage"]),
    )


def _columns(graph: Graph, result: Result, cell: Cell) -> dict[str, Any]:
    seconds: dict[int, float] = defaultdict(float)
    previous_s = 0.0
    for step in result.history:
        seconds[step.bits] += step.seconds - previous_s
        previous_s = step.seconds
    columns = {
        **graph_columns(graph),
        "dangling": len(graph.dangling_nodes),
        "layout": result.layout,
        "engine": result.engine,
        "converged": result.converged,
        "solver_status": result.status.name.lower(),
        "iterations": result.iterations,
        "iterations_by_bits": {str(bits): count for bits, count in result.iterations_by_bits.items()},
        "iterations_by_bits_written": {str(b): count for b, count in result.iterations_by_bits_written.items()},
        "residual_l1": result.residual_l1 if np.isfinite(result.residual_l1) else None,
        "error_bound": result.error_bound if np.isfinite(result.error_bound) else None,
        "mass": result.mass if np.isfinite(result.mass) else None,
        "solve_s": result.solve_s,
        "prepare_s": result.prepare_s,
        "certify_s": result.certify_s,
        "seconds_by_bits_s": {str(bits): spent for bits, spent in seconds.items()},
        "matrix_bytes": result.matrix_bytes,
        "peak_memory_bytes": _peak_bytes(),
        "top": [[node, score] for node, score in result.top(_RECORDED_TOP)],
    }
    if cell["method"] == "power":
        storage = format_named(result.storage if cell["storage"] == AUTO else cell["storage"])
        columns["least_bytes"] = least_bytes_of_solve(graph, storage, result.layout, result.iterations_by_bits)
    if cell["record_history"]:
        columns["history"] = [[step.residual, step.bits, step.mass, step.seconds] for step in result.history]
    return columns


def _peak_bytes() -> int:
    """Return the peak resident memory of the process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
