"""A barrier of threads inside compiled code: an atomic counter of arrivals.

Lanes (`cpms.base.threads.run_lanes`) are threads that run one compiled call together. A barrier between two phases of
it takes far less time than work that is submitted to a pool of threads. A waiting thread reads the counter in a loop
for some microseconds, and then yields its processor after each read.
"""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]

from cpms.base.jit import inlined_in_loops, numba

_inlined: Any = inlined_in_loops()
_instruction: Any = numba.extending.intrinsic
_declared: Any = numba.core.cgutils.get_or_insert_function
_types: Any = numba.core.types
_SPINS = 2000
"""Reads of the counter before a waiting thread yields its processor: some microseconds."""


@_instruction
def _arrive(typing_context, control):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Add 1 to ``control[0]``, an int64, atomically."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        counter = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        builder.atomic_rmw("add", counter, ir.Constant(ir.IntType(64), 1), "seq_cst")
        return context.get_dummy_value()

    return _types.none(control), generate


@_instruction
def _arrived(typing_context, control):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return ``control[0]``; the writes of other threads before their arrival are visible after it."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        counter = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.load_atomic(counter, "seq_cst", 8)

    return _types.int64(control), generate


@_instruction
def _yield_processor(typing_context):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Yield the processor to another thread, where the system has a call for it."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ARG001
        if os.name == "posix":
            signature_of_call = ir.FunctionType(ir.IntType(32), [])
            builder.call(_declared(builder.module, signature_of_call, "sched_yield"), [])
        return context.get_dummy_value()

    return _types.none(), generate


@_inlined
def meet(control, arrivals):  # type: ignore[no-untyped-def]
    """Arrive, and wait until the counter ``control[0]`` is ``arrivals``."""
    spins = 0
    _arrive(control)
    while _arrived(control) < arrivals:
        spins += 1
        if spins > _SPINS:
            _yield_processor()
