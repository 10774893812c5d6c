"""Kernel templates of batches: personalised queries whose vectors are swept together, a lane a query or several.

A sweep over many vectors reads each index once for all of them (a sparse matrix times a dense block, SpMM). Names
follow the kernels in ``batch/``.
"""

from __future__ import annotations

from collections.abc import Iterator

from cpms.backends.cuda.kernels.launch_shape import SHAPES
from cpms.backends.cuda.kernels.template import Variant, _bool, storage_type
from cpms.formats.formats import FloatFormat


def batch_residual_sweeps(each: int, *, refines: bool) -> list[Variant]:
    """Return the first and the later float64 sweeps of a batch, ``each`` queries a lane.

    With ``refines`` they store the change of each iterate, the residual of method ``refine``.
    """
    names, arguments = (f"{each}", "refines" if refines else "power"), (f"{each}", _bool(refines))
    return [Variant(kernel, names, arguments, SHAPES[16]) for kernel in ("batch_first_sweep", "batch_residual_sweep")]


def batch_inner_sweeps(storage: FloatFormat, each: int) -> list[Variant]:
    """Return the quantisation of a batch's residuals, and its inner sweep."""
    name, cpp = storage_type(storage, whole=True)
    return [Variant(kernel, (name, f"{each}"), (cpp, f"{each}")) for kernel in ("batch_quantise", "batch_inner_sweep")]


def batch_products(storage: FloatFormat) -> Variant:
    """Return the inner products of a batch's stored z for Anderson acceleration, a lane a query."""
    name, cpp = storage_type(storage, whole=True)
    return Variant("batch_products", (name,), (cpp,), SHAPES[16])


def batch_apply_history(storage: FloatFormat, each: int, *, sends: bool) -> Variant:
    """Return the deferred update of a batch's iterates; with ``sends``, it replaces the last z by a combination too."""
    name, cpp = storage_type(storage, whole=True)
    action = "sends" if sends else "adds"
    return Variant("batch_apply_history", (name, f"{each}", action), (cpp, f"{each}", _bool(sends)), SHAPES[16])


def batch_correct(each: int) -> Variant:
    """Return the correction of a batch's iterates."""
    return Variant("batch_correct", (f"{each}",), (f"{each}",))


def batch_downstream(each: int) -> Variant:
    """Return the substitution of a batch over nodes downstream of the swept core."""
    return Variant("batch_downstream", (f"{each}",), (f"{each}",), SHAPES[16])


BATCH_REDUCE = Variant("batch_reduce")

BATCH_SCORES = Variant("batch_scores")

BATCH_ROW_SUMS = Variant("batch_row_sums")

BATCH_ADVANCE = Variant("batch_advance")

BATCH_COMBINE = Variant("batch_combine")

BATCH_AFTER_COMBINE = Variant("batch_after_combine")

BATCH_HELPERS = (BATCH_REDUCE, BATCH_SCORES, BATCH_ROW_SUMS, BATCH_ADVANCE, BATCH_COMBINE, BATCH_AFTER_COMBINE)


def batch_history(storage: FloatFormat) -> Iterator[Variant]:
    """Yield the kernels that read the history of a batch's z, for any number of queries."""
    for each in (1, 2, 4):
        yield from (batch_apply_history(storage, each, sends=sends) for sends in (False, True))
    yield batch_products(storage)
