"""Kernel templates of persistent solves, by strategy for walking the edges."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from cpms.backends.cuda.kernels.launch_shape import (
    BIN_SHARED_BYTES,
    BINNED,
    BINNED_BYTES,
    DEALT_SHARED_BYTES,
    HOT_SHARED_BYTES,
    SHAPES,
    Shape,
)
from cpms.backends.cuda.kernels.template import Variant, _bool, _shaped, _whose, storage_type
from cpms.formats.formats import FloatFormat
from cpms.precision.anderson import SLOTS, slots_for


class Way(NamedTuple):
    """How sweeps go over edges; see ``persistent/strategies.cuh``."""

    suffix: str
    shared: int
    """Bytes of shared memory that a launch asks for."""
    counts_are_bytes: bool
    """Whether degrees are read as bytes, and what else is counted of a node's edges."""
    in_bins: bool = False
    """Whether low sweeps read values in bins, which hold those of `is_binned` alone."""


OVER_SOURCES = Way("", 0, counts_are_bytes=True)

OVER_CACHED = Way("_in_cache", 0, counts_are_bytes=False)

OVER_CODES = Way("_compressed", 0, counts_are_bytes=True)

OVER_HOT = Way("_hub_cache", HOT_SHARED_BYTES, counts_are_bytes=False)

IN_BINS = Way("_tiled_gather", BIN_SHARED_BYTES, counts_are_bytes=True, in_bins=True)
"""Low sweeps alone."""

LOW_DEALT = Way("_inner_blocked", DEALT_SHARED_BYTES, counts_are_bytes=True, in_bins=True)

DEALT = Way("_blocked", DEALT_SHARED_BYTES, counts_are_bytes=True, in_bins=True)

CARRYING = OVER_SOURCES, OVER_CODES, OVER_HOT, LOW_DEALT, DEALT
"""Those with kernels in which nodes keep what rounding loses; see `carry`."""


def is_binned(storage: FloatFormat) -> bool:
    """Return whether bins hold values of a format.

    Examples
    --------
    >>> from cpms.formats.formats import FP16, FP32
    >>> is_binned(FP16), is_binned(FP32)
    (True, False)
    """
    return storage.width <= 8 * BINNED_BYTES


def refine(
    storage: FloatFormat, shape: Shape, *, personal: bool, partial: bool = False, way: Way = OVER_SOURCES
) -> Variant:
    """Return rounds of method ``refine`` whose low sweeps read this format, over a whole graph or the core of one.

    Examples
    --------
    >>> from cpms.formats.formats import FP16
    >>> refine(FP16, Shape(512, 1), personal=False, way=DEALT).symbol
    'persistent_refine_blocked__e5m10_nearest__uniform__whole__512x1'
    """
    name, cpp = storage_type(storage, whole=True)
    names = name, _whose(personal), "core" if partial else "whole"
    arguments = cpp, *map(_bool, (personal, partial))
    return replace(_shaped(f"persistent_refine{way.suffix}", shape, names, arguments), shared=way.shared)


def carry(
    storage: FloatFormat, shape: Shape, *, personal: bool, partial: bool = False, way: Way = OVER_SOURCES
) -> Variant:
    """Return the same rounds but for what rounding loses, which nodes keep; in one of the ways `CARRYING`.

    Examples
    --------
    >>> from cpms.formats.formats import FP16
    >>> carry(FP16, Shape(512, 1), personal=False, way=DEALT).symbol
    'error_feedback_blocked__e5m10_nearest__uniform__whole__512x1'
    """
    same = refine(storage, shape, personal=personal, partial=partial, way=way)
    return replace(same, kernel=f"error_feedback{way.suffix}")


def fused_power(shape: Shape, *, personal: bool, way: Way = OVER_SOURCES) -> Variant:
    """Return power iteration in float64 that stays on the device.

    Examples
    --------
    >>> fused_power(Shape(384, 2), personal=False).instance
    'CPMS_PERSISTENT_POWER(persistent_power__uniform__384x2, 384, 2, false)'
    """
    whose = (_whose(personal),), (_bool(personal),)
    return replace(_shaped(f"persistent_power{way.suffix}", shape, *whose), shared=way.shared)


def resident(stored: Iterable[FloatFormat], *, personal: bool) -> Iterator[Variant]:
    """Yield the kernels that stay for many sweeps, but for those that take edges in bins."""
    stored = list(stored)
    for shape in SHAPES.values():
        yield fused_power(shape, personal=personal)
        for storage in stored:
            yield refine(storage, shape, personal=personal)
            yield refine(storage, shape, personal=personal, partial=True)


def over_cached(stored: Iterable[FloatFormat]) -> Iterator[Variant]:
    """Yield resident kernels of graphs that fit in the cache."""
    stored = list(stored)
    for personal in (False, True):
        yield fused_power(BINNED, personal=personal, way=OVER_CACHED)
        for storage in stored:
            yield refine(storage, BINNED, personal=personal, way=OVER_CACHED)
            yield refine(storage, BINNED, personal=personal, partial=True, way=OVER_CACHED)


def over_codes(stored: Iterable[FloatFormat]) -> Iterator[Variant]:
    """Yield resident kernels that find sources by codes; with rows of one's own, of the first format alone."""
    stored = list(stored)
    for shape, personal in itertools.product(SHAPES.values(), (False, True)):
        yield fused_power(shape, personal=personal, way=OVER_CODES)
        for storage in stored[:1] if personal else stored:
            yield refine(storage, shape, personal=personal, way=OVER_CODES)
            yield refine(storage, shape, personal=personal, partial=True, way=OVER_CODES)


def over_hot(stored: Iterable[FloatFormat]) -> Iterator[Variant]:
    """Yield resident kernels that keep the first nodes' values in shared memory; cores have another order."""
    for personal in (False, True):
        yield fused_power(BINNED, personal=personal, way=OVER_HOT)
        yield from (refine(storage, BINNED, personal=personal, way=OVER_HOT) for storage in stored)


def in_bins(stored: Iterable[FloatFormat], way: Way) -> Iterator[Variant]:
    """Yield method ``refine`` over edges in bins of a kind."""
    for storage in filter(is_binned, stored):
        for personal in (False, True):
            yield refine(storage, BINNED, personal=personal, way=way)
            yield refine(storage, BINNED, personal=personal, partial=True, way=way)


def carrying(stored: Iterable[FloatFormat], way: Way) -> Iterator[Variant]:
    """Yield rounds in which nodes keep what rounding loses, in a way; with rows of one's own, of one format."""
    stored = [s for s in stored if slots_for(s) == SLOTS and (is_binned(s) or not way.in_bins)]
    shapes = (BINNED,) if way.shared else SHAPES.values()
    for shape, personal in itertools.product(shapes, (False, True)):
        for storage in stored[:1] if personal else stored:
            for partial in (False, True) if way != OVER_HOT else (False,):
                yield carry(storage, shape, personal=personal, partial=partial, way=way)
