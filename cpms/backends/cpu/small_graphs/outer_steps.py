"""Outer steps of small graphs by the interpreter: the statements of the compiled loop of passes, on one thread.

The first call of `refine` in a process compiles the passes and the loop that calls them. The loop takes a third of that
time, and does little work itself, so the interpreter runs it in less time than compiling it takes. Python's arithmetic
is that of compiled code, and the passes are the compiled ones, so results are the same to the last bit.
"""

from __future__ import annotations

import math
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from cpms.backends.cpu import refine_loops as loops
from cpms.base import work_clock
from cpms.precision.anderson import coefficients, is_worthwhile
from cpms.precision.inner_stopping import inner_tolerance


def outer_steps(lane: int, first_ranges: Any, control: Any, passes: tuple[Any, ...], *arguments: Any) -> int:
    """Do what `cpms.backends.cpu.refine_loops.outer_steps` does; ``passes`` are functions, and there is one lane."""
    with np.errstate(all="ignore"):
        return int(_interpreted()(lane, first_ranges, control, passes, *arguments))


@cache
def _interpreted() -> Any:
    """Return the loop of passes with the interpreter's versions of all that it calls."""

    def call(function: Any, arguments: tuple[Any, ...]) -> None:
        function(*arguments)

    def meet(control: Any, arrivals: int) -> None:
        """Return at once, as there is one thread."""

    # math.ldexp refuses NumPy's integers.
    functions = SimpleNamespace(sqrt=math.sqrt, frexp=math.frexp, ldexp=lambda x, power: math.ldexp(x, int(power)))
    calls = ("_call_correct", "_call_residual", "_call_inner", "_call_products", "_call_combination")
    names = {**vars(loops), **dict.fromkeys(calls, call), "math": functions, "meet": meet, "_seconds": work_clock.now}
    names |= {"_coefficients": coefficients, "_is_worthwhile": is_worthwhile, "_inner_tolerance": inner_tolerance}
    for name in ("_reduce", "_report", "_shared_scale", "_plan_combination"):
        names[name] = FunctionType(getattr(loops, name).py_func.__code__, names)
    return FunctionType(loops.outer_steps.py_func.__code__, names)
