"""Kernel templates of persistent solves, by strategy for walking the edges.

One cooperative launch runs all sweeps of an outer iteration, or of a whole power iteration, and blocks meet at grid
barriers. That spares the launches and lets a sweep prefetch across the barrier; it costs a compiled kernel for each
strategy, format and launch shape. The strategies are those of ``persistent/strategies.cuh``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cpms.backends.cuda.kernels.launch_shape import (
    BLOCKING_SHARED_BYTES,
    HUB_SHARED_BYTES,
    MAX_STAGED_BYTES,
    PANEL_SHARED_BYTES,
    Shape,
)
from cpms.backends.cuda.kernels.template import Variant, _bool, _shaped, _teleport, storage_type
from cpms.formats.formats import FloatFormat


class Strategy(NamedTuple):
    """A strategy for walking the edges; see ``persistent/strategies.cuh``."""

    suffix: str
    """Ending of the kernels' names."""
    macro: str
    """Its macro in ``persistent/instantiate.cuh``."""
    shared: int
    """Bytes of dynamic shared memory of a launch."""
    byte_degrees: bool
    """Whether degrees, and internal degrees, are read as bytes."""
    stages_values: bool = False
    """Whether inner sweeps read values from shared memory, which holds formats of `fits_shared_memory` alone."""


DIRECT_GATHER = Strategy("", "CPMS_DIRECT_GATHER", 0, byte_degrees=True)

IN_CACHE_GATHER = Strategy("_in_cache", "CPMS_IN_CACHE_GATHER", 0, byte_degrees=False)

HUB_CACHE_GATHER = Strategy("_hub_cache", "CPMS_HUB_CACHE_GATHER", HUB_SHARED_BYTES, byte_degrees=False)

INNER_TILED_GATHER = Strategy(
    "_tiled_gather", "CPMS_INNER_TILED_GATHER", PANEL_SHARED_BYTES, byte_degrees=True, stages_values=True
)
"""The tiled gather serves inner sweeps alone; residual sweeps gather directly."""

INNER_BLOCKED = Strategy(
    "_inner_blocked", "CPMS_INNER_BLOCKED", BLOCKING_SHARED_BYTES, byte_degrees=True, stages_values=True
)

ALL_BLOCKED = Strategy("_blocked", "CPMS_ALL_BLOCKED", BLOCKING_SHARED_BYTES, byte_degrees=True, stages_values=True)

ERROR_FEEDBACK_STRATEGIES = DIRECT_GATHER, HUB_CACHE_GATHER, INNER_BLOCKED, ALL_BLOCKED
"""Strategies with kernels of error feedback; see `error_feedback`."""


def fits_shared_memory(storage: FloatFormat) -> bool:
    """Return whether strategies that stage values in shared memory serve a format.

    Examples
    --------
    >>> from cpms.formats.formats import FP16, FP32
    >>> fits_shared_memory(FP16), fits_shared_memory(FP32)
    (True, False)
    """
    return storage.width <= 8 * MAX_STAGED_BYTES


def persistent_refine(
    storage: FloatFormat, shape: Shape, *, personal: bool, core: bool = False, strategy: Strategy = DIRECT_GATHER
) -> Variant:
    """Return outer iterations of method ``refine`` whose inner sweeps read this format.

    With ``core`` they sweep the trimmed core of a graph, else a whole graph.

    Examples
    --------
    >>> from cpms.formats.formats import FP16
    >>> persistent_refine(FP16, Shape(512, 1), personal=False, strategy=ALL_BLOCKED).symbol
    'persistent_refine_blocked__e5m10_nearest__uniform__whole__512x1'
    """
    name, cpp = storage_type(storage, whole=True)
    names = name, _teleport(personal), "core" if core else "whole"
    arguments = cpp, *map(_bool, (personal, core))
    return _of_strategy("persistent_refine", strategy, _shaped("", shape, names, arguments))


def error_feedback(
    storage: FloatFormat, shape: Shape, *, personal: bool, core: bool = False, strategy: Strategy = DIRECT_GATHER
) -> Variant:
    """Return the same outer iterations with error feedback, for a strategy of `ERROR_FEEDBACK_STRATEGIES`.

    A node keeps the rounding error of its quantised residual and adds it before the next quantisation.

    Examples
    --------
    >>> from cpms.formats.formats import FP16
    >>> error_feedback(FP16, Shape(512, 1), personal=False, strategy=ALL_BLOCKED).symbol
    'error_feedback_blocked__e5m10_nearest__uniform__whole__512x1'
    """
    same = persistent_refine(storage, shape, personal=personal, core=core, strategy=strategy)
    return replace(same, kernel=f"error_feedback{strategy.suffix}", macro="error_feedback")


def persistent_power(shape: Shape, *, personal: bool, strategy: Strategy = DIRECT_GATHER) -> Variant:
    """Return power iteration in float64 in one launch.

    Examples
    --------
    >>> persistent_power(Shape(384, 2), personal=False).instance
    'CPMS_PERSISTENT_POWER(persistent_power__uniform__384x2, CPMS_DIRECT_GATHER, 384, 2, false)'
    """
    teleport = (_teleport(personal),), (_bool(personal),)
    return _of_strategy("persistent_power", strategy, _shaped("", shape, *teleport))


def _of_strategy(macro: str, strategy: Strategy, shaped: Variant) -> Variant:
    arguments = strategy.macro, *shaped.arguments
    return replace(shaped, kernel=macro + strategy.suffix, macro=macro, arguments=arguments, shared=strategy.shared)
