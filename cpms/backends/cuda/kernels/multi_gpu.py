"""Kernel templates of solves over several GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cpms.backends.cuda.kernels.launch_shape import (
    SHAPES,
    Shape,
)
from cpms.backends.cuda.kernels.template import PACKS, PUSHES, SHARES, Variant, _bool, _shaped, _whose, storage_type
from cpms.formats.formats import FloatFormat


def ranks_correct(shape: Shape) -> Variant:
    """Return the correction of a rank's iterate, and what it finds of masses."""
    return _shaped("rank_correct", shape, (), ())


def ranks_full(shape: Shape, *, refines: bool, personal: bool) -> Variant:
    """Return a float64 sweep of a rank's rows, of method ``refine`` or of power iteration."""
    what = "refine" if refines else "power"
    return _shaped("rank_residual_sweep", shape, (what, _whose(personal)), (_bool(refines), _bool(personal)))


def ranks_quantise(storage: FloatFormat, shape: Shape) -> Variant:
    """Return the first quantisation of a round, of a rank's rows."""
    name, cpp = storage_type(storage, whole=True)
    return _shaped("rank_quantise", shape, (name,), (cpp,))


def ranks_low(storage: FloatFormat, shape: Shape, *, personal: bool) -> Variant:
    """Return a low sweep of a rank's rows."""
    name, cpp = storage_type(storage, whole=True)
    return _shaped("rank_inner_sweep", shape, (name, _whose(personal)), (cpp, _bool(personal)))


def ranks_combination(storage: FloatFormat, shape: Shape) -> list[Variant]:
    """Return what a rank finds of the z it has sent, and their combination."""
    name, cpp = storage_type(storage, whole=True)
    return [_shaped(kernel, shape, (name,), (cpp,)) for kernel in ("rank_products", "rank_combine")]


def ranks_power(shape: Shape, *, personal: bool) -> Variant:
    """Return power iteration over ranks that stays on their devices."""
    return _shaped("persistent_rank_power", shape, (_whose(personal),), (_bool(personal),))


def ranks_refine(storage: FloatFormat, shape: Shape, *, personal: bool) -> Variant:
    """Return rounds of method ``refine`` over ranks that stay on their devices."""
    name, cpp = storage_type(storage, whole=True)
    return _shaped("persistent_rank_refine", shape, (name, _whose(personal)), (cpp, _bool(personal)))


def ranks(storages: Iterable[FloatFormat], *, personal: bool) -> Iterator[Variant]:
    """Yield what a rank launches in both methods, in either shape."""
    storages = list(storages)
    yield from SHARES
    for bits in sorted({64, *(storage.width for storage in storages)}):
        yield from (PACKS[bits], PUSHES[bits])
    for shape in SHAPES.values():
        yield ranks_correct(shape)
        yield ranks_power(shape, personal=personal)
        for refines in (False, True):
            yield ranks_full(shape, refines=refines, personal=personal)
        for storage in storages:
            yield ranks_quantise(storage, shape)
            yield from ranks_combination(storage, shape)
            yield ranks_low(storage, shape, personal=personal)
            yield ranks_refine(storage, shape, personal=personal)
