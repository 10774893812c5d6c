"""Kernel templates of batches of personalised queries."""

from __future__ import annotations

from collections.abc import Iterator

from cpms.backends.cuda.kernels.launch_shape import (
    SHAPES,
)
from cpms.backends.cuda.kernels.template import Variant, _bool, storage_type
from cpms.formats.formats import FloatFormat, format_named


def batch_full(each: int, *, refines: bool) -> list[Variant]:
    """Return the first and the other float64 sweeps of a batch, ``each`` queries a lane; they may keep the change."""
    names, arguments = (f"{each}", "refines" if refines else "power"), (f"{each}", _bool(refines))
    return [Variant(kernel, names, arguments, SHAPES[16]) for kernel in ("batch_first_sweep", "batch_residual_sweep")]


def batch_low(storage: FloatFormat, each: int) -> list[Variant]:
    """Return a batch's first values of a round in few bits, and its low sweep."""
    name, cpp = storage_type(storage, whole=True)
    return [Variant(kernel, (name, f"{each}"), (cpp, f"{each}")) for kernel in ("batch_quantise", "batch_inner_sweep")]


def batch_products(storage: FloatFormat) -> Variant:
    """Return the products of what a batch's low sweeps sent, a lane a query."""
    name, cpp = storage_type(storage, whole=True)
    return Variant("batch_products", (name,), (cpp,), SHAPES[16])


def batch_collect(storage: FloatFormat, each: int, *, sends: bool) -> Variant:
    """Return what adds up what a batch's low sweeps sent, and ``sends`` something else in its place."""
    name, cpp = storage_type(storage, whole=True)
    what = "sends" if sends else "adds"
    return Variant("batch_apply_history", (name, f"{each}", what), (cpp, f"{each}", _bool(sends)), SHAPES[16])


def batch_correct(each: int) -> Variant:
    """Return the correction of a batch's iterates."""
    return Variant("batch_correct", (f"{each}",), (f"{each}",))


def batch_behind(each: int) -> Variant:
    """Return what follows, in a batch, for nodes behind those that are swept."""
    return Variant("batch_downstream", (f"{each}",), (f"{each}",), SHAPES[16])


BATCH_TOTALS = Variant("batch_reduce")

BATCH_RANKS = Variant("batch_scores")

BATCH_SUMS = Variant("batch_row_sums")

BATCH_LOW_NEXT = Variant("batch_advance")

BATCH_COMBINE = Variant("batch_combine")

BATCH_SENT = Variant("batch_after_combine")

BATCHING = (BATCH_TOTALS, BATCH_RANKS, BATCH_SUMS, BATCH_LOW_NEXT, BATCH_COMBINE, BATCH_SENT)


def batches() -> Iterator[Variant]:
    """Yield what batches of queries launch, for the named packed floats and some more."""
    yield from BATCHING
    for each in (1, 2):
        for refines in (False, True):
            yield from batch_full(each, refines=refines)
        yield from (batch_correct(each), batch_behind(each))
    for name in ("fp32", "fp16", "bf16", "e5m2", "e4m3", "fp16-zero"):
        storage = format_named(name)
        assert isinstance(storage, FloatFormat)  # noqa: S101  # All of these are.
        yield from batch_kept(storage)
        for each in (1, 2, 4):
            yield from batch_low(storage, each)


def batch_kept(storage: FloatFormat) -> Iterator[Variant]:
    """Yield what reads the z that a batch's low sweeps keep, of any number of queries."""
    for each in (1, 2, 4):
        yield from (batch_collect(storage, each, sends=sends) for sends in (False, True))
    yield batch_products(storage)
