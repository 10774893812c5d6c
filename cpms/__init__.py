"""Customized precision for iterative solvers; the first solver is PageRank.

Names load when they are first used, so that ``import cpms`` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "CpmsError": "errors",
    "InputError": "errors",
    "UnavailableError": "errors",
    "UnsupportedError": "errors",
    "Graph": "graph",
    "BF16": "format",
    "CPMS2": "format",
    "CPMS2_PLANES": "format",
    "CPMS4": "format",
    "CPMS4_PLANES": "format",
    "CPMS8": "format",
    "CPMS8_PLANES": "format",
    "E4M3": "format",
    "E5M2": "format",
    "FP16": "format",
    "FP32": "format",
    "FP64": "format",
    "FloatFormat": "format",
    "Format": "format",
    "SegmentFormat": "format",
    "format_named": "format",
    "SegmentedArray": "segmented",
    "convert_inplace": "segmented",
    "encode": "segmented",
    "AtMost": "precision",
    "Controller": "precision",
    "Fixed": "precision",
    "Level": "precision",
    "Schedule": "precision",
    "StartAt": "precision",
    "Threshold": "precision",
    "WriteAhead": "precision",
    "pagerank": "solve",
    "personalized_pagerank": "batch",
    "penalised_start": "start",
    "Result": "result",
    "Status": "result",
    "Step": "result",
    "load": "loading",
    "generate": "generators",
    "Largest": "largest",
    "topk": "largest",
}

_MODULES = ("check", "datasets", "engines", "generators", "refine", "testing")
"""Modules for users, which load when they are first named, as ``cpms.refine``."""

if TYPE_CHECKING:
    from cpms.batch import personalized_pagerank as personalized_pagerank
    from cpms.errors import CpmsError as CpmsError
    from cpms.errors import InputError as InputError
    from cpms.errors import UnavailableError as UnavailableError
    from cpms.errors import UnsupportedError as UnsupportedError
    from cpms.format import BF16 as BF16
    from cpms.format import CPMS2 as CPMS2
    from cpms.format import CPMS2_PLANES as CPMS2_PLANES
    from cpms.format import CPMS4 as CPMS4
    from cpms.format import CPMS4_PLANES as CPMS4_PLANES
    from cpms.format import CPMS8 as CPMS8
    from cpms.format import CPMS8_PLANES as CPMS8_PLANES
    from cpms.format import E4M3 as E4M3
    from cpms.format import E5M2 as E5M2
    from cpms.format import FP16 as FP16
    from cpms.format import FP32 as FP32
    from cpms.format import FP64 as FP64
    from cpms.format import FloatFormat as FloatFormat
    from cpms.format import Format as Format
    from cpms.format import SegmentFormat as SegmentFormat
    from cpms.format import format_named as format_named
    from cpms.generators import generate as generate
    from cpms.graph import Graph as Graph
    from cpms.largest import Largest as Largest
    from cpms.largest import topk as topk
    from cpms.loading import load as load
    from cpms.precision import AtMost as AtMost
    from cpms.precision import Controller as Controller
    from cpms.precision import Fixed as Fixed
    from cpms.precision import Level as Level
    from cpms.precision import Schedule as Schedule
    from cpms.precision import StartAt as StartAt
    from cpms.precision import Threshold as Threshold
    from cpms.precision import WriteAhead as WriteAhead
    from cpms.result import Result as Result
    from cpms.result import Status as Status
    from cpms.result import Step as Step
    from cpms.segmented import SegmentedArray as SegmentedArray
    from cpms.segmented import convert_inplace as convert_inplace
    from cpms.segmented import encode as encode
    from cpms.solve import pagerank as pagerank
    from cpms.start import penalised_start as penalised_start

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
