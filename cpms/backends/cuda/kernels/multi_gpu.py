"""Kernel templates of solves over several GPUs: a rank sweeps its own rows and exchanges halo values with the others.

The composed kernels are launched sweep by sweep (``multi_gpu/rank_sweep.cu``); the persistent ones run all sweeps in
one launch, and ranks signal each other through peer memory (``multi_gpu/persistent_ranks.cu``).
"""

from __future__ import annotations

from cpms.backends.cuda.kernels.launch_shape import Shape
from cpms.backends.cuda.kernels.template import Variant, _bool, _shaped, _teleport, storage_type
from cpms.formats.formats import FloatFormat


def rank_correct(shape: Shape) -> Variant:
    """Return the correction of a rank's iterate, and its sums of mass."""
    return _shaped("rank_correct", shape, (), ())


def rank_residual_sweep(shape: Shape, *, refines: bool, personal: bool) -> Variant:
    """Return a float64 sweep of a rank's rows, of method ``refine`` or of power iteration."""
    method = "refine" if refines else "power"
    return _shaped("rank_residual_sweep", shape, (method, _teleport(personal)), (_bool(refines), _bool(personal)))


def rank_quantise(storage: FloatFormat, shape: Shape) -> Variant:
    """Return the first quantisation of an outer iteration, of a rank's rows."""
    name, cpp = storage_type(storage, whole=True)
    return _shaped("rank_quantise", shape, (name,), (cpp,))


def rank_inner_sweep(storage: FloatFormat, shape: Shape, *, personal: bool) -> Variant:
    """Return an inner sweep of a rank's rows."""
    name, cpp = storage_type(storage, whole=True)
    return _shaped("rank_inner_sweep", shape, (name, _teleport(personal)), (cpp, _bool(personal)))


def rank_combination(storage: FloatFormat, shape: Shape) -> list[Variant]:
    """Return the inner products of a rank's stored z, and their combination, for Anderson acceleration."""
    name, cpp = storage_type(storage, whole=True)
    return [_shaped(kernel, shape, (name,), (cpp,)) for kernel in ("rank_products", "rank_combine")]


def persistent_rank_power(shape: Shape, *, personal: bool) -> Variant:
    """Return power iteration over ranks in one launch."""
    return _shaped("persistent_rank_power", shape, (_teleport(personal),), (_bool(personal),))


def persistent_rank_refine(storage: FloatFormat, shape: Shape, *, personal: bool) -> Variant:
    """Return outer iterations of method ``refine`` over ranks in one launch."""
    name, cpp = storage_type(storage, whole=True)
    return _shaped("persistent_rank_refine", shape, (name, _teleport(personal)), (cpp, _bool(personal)))
