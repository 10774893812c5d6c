"""Kernel templates of solves over several GPUs: a rank sweeps its own rows and exchanges halo values with the others.

Where ranks write into each other's memory, they run the persistent kernels of one device, which exchange within a
launch (``pagerank/ranks.cuh``). Elsewhere each sweep is a launch (``multi_gpu/rank_sweep.cu``) and the host exchanges.
"""

from __future__ import annotations

from dataclasses import replace

from cpms.backends.cuda.kernels.launch_shape import Shape
from cpms.backends.cuda.kernels.template import Variant, _bool, _shaped, _teleport, storage_type
from cpms.formats.formats import FloatFormat

_OF_RANKS = {
    "persistent_power": "rank_power",
    "persistent_refine": "rank_refine",
    "error_feedback": "rank_feedback",
}


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


def of_ranks(alone: Variant) -> Variant:
    """Return a persistent kernel of one device for the rows of one rank of several.

    Examples
    --------
    >>> from cpms.backends.cuda.kernels.persistent import persistent_power
    >>> of_ranks(persistent_power(Shape(512, 1), personal=False)).symbol
    'rank_power__uniform__512x1'
    """
    made, (strategy, *others) = _OF_RANKS[alone.macro], alone.arguments
    strategy = strategy.replace("CPMS_DIRECT", "CPMS_RANK_DIRECT")
    return replace(
        alone, kernel=made + alone.kernel.removeprefix(alone.macro), macro=made, arguments=(strategy, *others)
    )
