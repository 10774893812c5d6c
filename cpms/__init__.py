"""Customized precision for iterative solvers; the first solver is PageRank.

Names load when they are first used, so that ``import cpms`` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cpms.base.device_modules import provide
from cpms.base.package_data import __version__ as __version__

provide(
    current="cpms.backends.cuda.runtime.current",
    codec="cpms.backends.cuda.arrays.codec",
    rounding="cpms.backends.cuda.arrays.rounding",
    block_codec="cpms.backends.cuda.product.block_codec",
    graphs="cpms.backends.cuda.graphs.device_graph",
    topk="cpms.backends.cuda.arrays.launch_topk",
)

_HOMES = {
    "AdaptiveReduction": "precision.refinement_policy",
    "FixedReduction": "precision.refinement_policy",
    "InnerPlan": "precision.refinement_policy",
    "RefinementPolicy": "precision.refinement_policy",
    "CpmsError": "base.errors",
    "InputError": "base.errors",
    "UnavailableError": "base.errors",
    "UnsupportedError": "base.errors",
    "DeviceGraph": "backends.cuda.graphs.device_graph",
    "Graph": "graph.graph",
    "BF16": "formats.formats",
    "CPMS2": "formats.formats",
    "CPMS2_PLANES": "formats.formats",
    "CPMS4": "formats.formats",
    "CPMS4_PLANES": "formats.formats",
    "CPMS8": "formats.formats",
    "CPMS8_PLANES": "formats.formats",
    "E4M3": "formats.formats",
    "E5M2": "formats.formats",
    "FP16": "formats.formats",
    "FP32": "formats.formats",
    "FP64": "formats.formats",
    "FloatFormat": "formats.formats",
    "Format": "formats.formats",
    "MagnitudeSplit": "formats.magnitude",
    "SegmentFormat": "formats.formats",
    "format_named": "formats.formats",
    "SegmentedArray": "storage.array",
    "convert_inplace": "storage.array",
    "encode": "storage.array",
    "load_array": "storage.array_file",
    "encode_counted": "storage.quantize",
    "quantize": "storage.quantize",
    "AtMost": "precision.controllers",
    "Controller": "precision.controllers",
    "Fixed": "precision.controllers",
    "Level": "precision.controllers",
    "Schedule": "precision.controllers",
    "StartAt": "precision.controllers",
    "Threshold": "precision.controllers",
    "WriteAhead": "precision.controllers",
    "Layout": "sparse.arrangement",
    "StoredMatrix": "api.matrix",
    "matrix": "api.matrix",
    "PageRank": "api.prepared",
    "Certificate": "certify.linear_system",
    "Eigenpair": "api.linear.solution",
    "LinearStep": "contracts.linear_solve",
    "Solution": "api.linear.solution",
    "SolveStatus": "contracts.linear_solve",
    "Solver": "api.linear.solver",
    "dominant_eigenpair": "api.linear.eigenpair",
    "solve": "api.linear.solve",
    "pagerank": "api.pagerank",
    "personalized_pagerank": "api.personalized",
    "penalised_start": "problems.initial_guess",
    "Result": "api.result",
    "Status": "contracts.status",
    "Step": "contracts.status",
    "load": "sources.loading",
    "generate": "sources.generators",
    "Largest": "analysis.topk_checks",
    "topk": "analysis.topk",
}

_MODULES = ("check", "datasets", "engines", "generators", "refine", "testing")
"""Modules for users, which load when they are first named, as ``cpms.refine``."""

if TYPE_CHECKING:
    from cpms.analysis.topk import topk as topk
    from cpms.analysis.topk_checks import Largest as Largest
    from cpms.api.linear.eigenpair import dominant_eigenpair as dominant_eigenpair
    from cpms.api.linear.solution import Eigenpair as Eigenpair
    from cpms.api.linear.solution import Solution as Solution
    from cpms.api.linear.solve import solve as solve
    from cpms.api.linear.solver import Solver as Solver
    from cpms.api.matrix import StoredMatrix as StoredMatrix
    from cpms.api.matrix import matrix as matrix
    from cpms.api.pagerank import pagerank as pagerank
    from cpms.api.personalized import personalized_pagerank as personalized_pagerank
    from cpms.api.prepared import PageRank as PageRank
    from cpms.api.result import Result as Result
    from cpms.backends.cuda.graphs.device_graph import DeviceGraph as DeviceGraph
    from cpms.base.errors import CpmsError as CpmsError
    from cpms.base.errors import InputError as InputError
    from cpms.base.errors import UnavailableError as UnavailableError
    from cpms.base.errors import UnsupportedError as UnsupportedError
    from cpms.certify.linear_system import Certificate as Certificate
    from cpms.contracts.linear_solve import LinearStep as LinearStep
    from cpms.contracts.linear_solve import SolveStatus as SolveStatus
    from cpms.contracts.status import Status as Status
    from cpms.contracts.status import Step as Step
    from cpms.formats.formats import BF16 as BF16
    from cpms.formats.formats import CPMS2 as CPMS2
    from cpms.formats.formats import CPMS2_PLANES as CPMS2_PLANES
    from cpms.formats.formats import CPMS4 as CPMS4
    from cpms.formats.formats import CPMS4_PLANES as CPMS4_PLANES
    from cpms.formats.formats import CPMS8 as CPMS8
    from cpms.formats.formats import CPMS8_PLANES as CPMS8_PLANES
    from cpms.formats.formats import E4M3 as E4M3
    from cpms.formats.formats import E5M2 as E5M2
    from cpms.formats.formats import FP16 as FP16
    from cpms.formats.formats import FP32 as FP32
    from cpms.formats.formats import FP64 as FP64
    from cpms.formats.formats import FloatFormat as FloatFormat
    from cpms.formats.formats import Format as Format
    from cpms.formats.formats import SegmentFormat as SegmentFormat
    from cpms.formats.formats import format_named as format_named
    from cpms.formats.magnitude import MagnitudeSplit as MagnitudeSplit
    from cpms.graph.graph import Graph as Graph
    from cpms.precision.controllers import AtMost as AtMost
    from cpms.precision.controllers import Controller as Controller
    from cpms.precision.controllers import Fixed as Fixed
    from cpms.precision.controllers import Level as Level
    from cpms.precision.controllers import Schedule as Schedule
    from cpms.precision.controllers import StartAt as StartAt
    from cpms.precision.controllers import Threshold as Threshold
    from cpms.precision.controllers import WriteAhead as WriteAhead
    from cpms.precision.refinement_policy import AdaptiveReduction as AdaptiveReduction
    from cpms.precision.refinement_policy import FixedReduction as FixedReduction
    from cpms.precision.refinement_policy import InnerPlan as InnerPlan
    from cpms.precision.refinement_policy import RefinementPolicy as RefinementPolicy
    from cpms.problems.initial_guess import penalised_start as penalised_start
    from cpms.sources.generators import generate as generate
    from cpms.sources.loading import load as load
    from cpms.sparse.arrangement import Layout as Layout
    from cpms.storage.array import SegmentedArray as SegmentedArray
    from cpms.storage.array import convert_inplace as convert_inplace
    from cpms.storage.array import encode as encode
    from cpms.storage.array_file import load_array as load_array
    from cpms.storage.quantize import encode_counted as encode_counted
    from cpms.storage.quantize import quantize as quantize

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"cpms.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'cpms' has no attribute {name!r}")
    value = getattr(import_module(f"cpms.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
