"""Translation units: which kernel variants are compiled together, each unit on its own by a thread of its own.

A unit's text depends on its variants alone, so that one compiled elsewhere is found by its content. Persistent kernels
take seconds each and are units of their own; small kernels that serve the same step are one unit, whichever of them is
needed first; the others are compiled with those of their file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cpms.backends.cuda.kernels import streaming, template
from cpms.backends.cuda.kernels.launch_shape import SHAPES, SHARED_MEMORY_SHAPE
from cpms.backends.cuda.kernels.persistent import (
    ALL_BLOCKED,
    DIRECT_GATHER,
    HUB_CACHE_GATHER,
    IN_CACHE_GATHER,
    INNER_BLOCKED,
    INNER_TILED_GATHER,
    error_feedback,
    persistent_power,
    persistent_refine,
)
from cpms.backends.cuda.kernels.template import Variant
from cpms.formats.formats import E5M2, FP16, FP64

Unit = tuple[Variant, ...]

_STEPS: tuple[Unit, ...] = (
    (*template.PACKS_OF_EDGES.values(), *template.ROWS_OF_EDGES),
    template.EDGE_UPDATES,
    (*template.CERTIFICATE, *template.CERTIFIED_ROWS.values()),
    template.PADDED_CSR,
    template.EQUAL_RANGES,
    template.CONTRIBUTIONS,
    template.TRIMMING,
    template.LUMPING,
    (template.CONVERGENCE_ESTIMATE,),
    template.LEVEL_SOLVE,
)
_STEP_OF = {variant: step for step in _STEPS for variant in step}
_ALONE = ("persistent_", "error_feedback")


def units_of(variants: Iterable[Variant]) -> list[Unit]:
    """Return the units that have these variants between them, each once.

    Examples
    --------
    >>> from cpms.backends.cuda.kernels.streaming import scale
    >>> from cpms.formats.formats import FP64
    >>> [len(unit) for unit in units_of([*template.LUMPING, scale(FP64, 1), template.TRIMMING[0]])]
    [2, 1, 2]
    """
    found: dict[object, Unit] = {}
    for variant in dict.fromkeys(variants):
        if variant in _STEP_OF:
            found[_STEP_OF[variant]] = _STEP_OF[variant]
        elif variant.kernel.startswith(_ALONE):
            found[variant] = (variant,)
        else:
            found[variant.file] = (*found.get(variant.file, ()), variant)
    return list(found.values())


def common_units() -> list[Unit]:
    """Return the units of calls with default arguments on one GPU: edges to ranks by both methods, certified.

    Power iteration has persistent kernels and, on engine ``cuda``, composed sweeps.
    """
    composed = [
        unit
        for kernel in template.PRODUCTS["pattern"]
        for unit in units_of(streaming.composed_sweeps(kernel, FP64, pattern=True))
    ]
    return list(dict.fromkeys([*_STEPS, *((variant,) for variant in _persistent()), *composed]))


def _persistent() -> Iterator[Variant]:
    few, shapes = SHARED_MEMORY_SHAPE, SHAPES.values()
    yield from (persistent_power(shape, personal=False) for shape in shapes)
    for strategy in (IN_CACHE_GATHER, HUB_CACHE_GATHER, ALL_BLOCKED):
        yield persistent_power(few, personal=False, strategy=strategy)
    for personal in (False, True):
        for core in (False, True):
            yield persistent_refine(FP16, few, personal=personal, core=core, strategy=IN_CACHE_GATHER)
            yield from (persistent_refine(FP16, shape, personal=personal, core=core) for shape in shapes)
    for strategy in (HUB_CACHE_GATHER, INNER_TILED_GATHER, INNER_BLOCKED, ALL_BLOCKED):
        yield persistent_refine(FP16, few, personal=False, strategy=strategy)
    for strategy in (DIRECT_GATHER, INNER_BLOCKED, ALL_BLOCKED):
        yield error_feedback(E5M2, few, personal=False, strategy=strategy)
