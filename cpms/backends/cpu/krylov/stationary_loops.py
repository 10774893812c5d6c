"""Compiled sweeps in residual form: a product and two passes over vectors, with two barriers between threads.

The steps are those of `cpms.contracts.sweeps`. Lanes share the rows as in `cpms.backends.cpu.krylov.cg_loops`. A lane
computes the step of its rows. After a barrier it multiplies its rows with the whole step, and subtracts the products
from the residual while they lie in its cache. After another barrier all lanes add the partial sums of all ranges in the
same order. A sweep reads the matrix, the correction and the inverse diagonal once, the residual twice, and the step
three times.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from cpms.backends.cpu.krylov.basis_loops import summed
from cpms.backends.cpu.krylov.row_products import DISTANCES, RUN, WHOLE, multiply, multiply_by_distances, multiply_whole
from cpms.backends.cpu.lane_barrier import meet
from cpms.base.jit import compiled, inlined_in_loops

inlined: Any = inlined_in_loops()


@inlined
def _turn(step, residual, inverse, keep, turn):  # type: ignore[no-untyped-def]
    """Do step = keep step + turn inverse residual."""
    if keep == 0.0:  # Jacobi's method does not read the last step.
        for i in range(len(step)):
            step[i] = turn * (inverse[i] * residual[i])
    else:
        for i in range(len(step)):
            step[i] = keep * np.float64(step[i]) + turn * (inverse[i] * residual[i])


@summed
def _correct(correction, residual, step, product):  # type: ignore[no-untyped-def]
    """Do correction += step and residual -= product; return the residual's squared 2-norm."""
    square = 0.0
    for i in range(len(step)):
        correction[i] += np.float64(step[i])
        value = residual[i] - np.float64(product[i])
        residual[i] = value
        square += value * value
    return square


@cache
def lanes_kernel(shape: int, spec: tuple[int, int, int]) -> Any:
    """Return the compiled sweeps of a lane, for one storage of the matrix's columns and values.

    Parameters
    ----------
    shape, spec
        Storage of columns and values; see `cpms.backends.cpu.krylov.row_products`.

    Notes
    -----
    Of the kernel's arguments, ``first`` holds the first range of each lane. Sweeps end after as many as
    ``coefficients`` has rows, after a residual of at most ``target``, or one that is not below ``limit``. Lane 0
    reports the squared 2-norm of the residual after each sweep. The kernel returns the number of sweeps.
    """
    kind, exponent_bits, mantissa_bits = spec

    @compiled(error_model="numpy")
    def iterate(  # type: ignore[no-untyped-def]
        lane, first, control, bounds, matrix, c, r, s, q, inverse, coefficients, target, limit, sums, report
    ):
        buffer = np.empty(RUN)
        lanes, parts, arrivals, done = len(first) - 1, len(bounds) - 1, 0, 0
        begin, end = bounds[first[lane]], bounds[first[lane + 1]]
        while done < len(report):
            _turn(s[begin:end], r[begin:end], inverse[begin:end], coefficients[done, 0], coefficients[done, 1])
            arrivals += lanes
            meet(control, arrivals)
            for part in range(first[lane], first[lane + 1]):
                low, high = bounds[part], bounds[part + 1]
                given = matrix, s, q, low, high, buffer, kind, exponent_bits, mantissa_bits
                if shape == WHOLE:
                    multiply_whole(*given)
                elif shape == DISTANCES:
                    multiply_by_distances(*given)
                else:
                    multiply(*given)
                sums[part] = _correct(c[low:high], r[low:high], s[low:high], q[low:high])
            arrivals += lanes
            meet(control, arrivals)
            square = 0.0
            for part in range(parts):
                square += sums[part]
            if lane == 0:
                report[done] = square
            done += 1
            if not square > target * target or not square < limit * limit:
                break
        return done

    return iterate
