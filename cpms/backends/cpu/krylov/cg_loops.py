"""Compiled conjugate gradient iterations: a product and two passes over vectors, with three barriers between threads.

The recurrences are those of `cpms.contracts.conjugate_gradients`. Each lane, which is a thread in compiled code, has
whole ranges of rows (``bounds``). It writes the partial sums of each range to a place of their own. After a barrier all
lanes add them in the order of the ranges, so results do not depend on the number of threads, and all lanes take the
same decisions. A lane updates the vectors of the rows that it multiplied, which may still lie in its cache. An
iteration reads the matrix once, p three times, and x, r and q at most twice from memory. Products are those of
`cpms.backends.cpu.krylov.row_products`. Products and sums are float64.

Vectors r and p are plain, or stored in few bits (`cpms.backends.cpu.krylov.stored_cg_loops`). Plain ones may have a
diagonal preconditioner: a vector of weights, which an iteration reads twice.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from cpms.backends.cpu.krylov.basis_loops import dot_product, summed
from cpms.backends.cpu.krylov.row_products import DISTANCES, RUN, WHOLE, multiply, multiply_by_distances, multiply_whole
from cpms.backends.cpu.krylov.stored_cg_loops import turn_blocks, turn_packed, update_blocks, update_packed
from cpms.backends.cpu.lane_barrier import meet
from cpms.backends.cpu.product_loops import BLOCKS, NATIVE
from cpms.base.jit import compiled

SQUARE, CURVATURE, NEXT = range(3)
"""Columns of the report: as in `cpms.contracts.conjugate_gradients.CgStep`."""


@summed
def _update(x, r, p, q, weights, alpha):  # type: ignore[no-untyped-def]
    """Do x += alpha p and r -= alpha q; return r.r and z.q of the stored r, with z = weights r, or r for None."""
    square = of_residual = 0.0
    for i in range(len(x)):
        x[i] += alpha * np.float64(p[i])
        r[i] = np.float64(r[i]) - alpha * np.float64(q[i])
        value = np.float64(r[i])
        square += value * value
        weighted = value if weights is None else weights[i] * value
        of_residual += weighted * np.float64(q[i])
    return square, of_residual


@summed
def _turn(r, p, weights, beta):  # type: ignore[no-untyped-def]
    """Do p = z + beta p, with z = weights r, or r for None; return r.p of the stored p."""
    total = 0.0
    for i in range(len(r)):
        value = np.float64(r[i])
        weighted = value if weights is None else weights[i] * value
        p[i] = weighted + beta * np.float64(p[i])
        total += value * np.float64(p[i])
    return total


@compiled(error_model="numpy")
def dot(p, q, low, high):  # type: ignore[no-untyped-def]
    """Return p.q of a range."""
    return dot_product(p[low:high], q[low:high])


@cache
def lanes_kernel(shape: int, spec: tuple[int, int, int], vectors: tuple[int, ...]) -> Any:
    """Return the compiled iterations of a lane, for one storage of columns, of values, and of the vectors r and p.

    Parameters
    ----------
    shape, spec
        Storage of columns and values; see `cpms.backends.cpu.krylov.row_products`.
    vectors : tuple of int
        Storage of r and p, as in `cpms.backends.cpu.product_loops`: plain, packed floats, or block floats, whose blocks
        no range of rows cuts.

    Notes
    -----
    Of the kernel's arguments, ``first`` holds the first range of each lane, and ``decoded`` is p as products read it,
    which is p itself for plain vectors. Iterations end when ``report`` has no row left, after a residual of at most
    ``target``, before a step with p.Ap not above 0 or not finite, and when a value of r or p is not below ``limit``.
    Lane 0 reports (`SQUARE`, `CURVATURE`, `NEXT`) for each. The kernel returns the number of iterations.
    """
    stored = vectors[0]
    kind, exponent_bits, mantissa_bits = spec

    @compiled(error_model="numpy")
    def iterate(  # type: ignore[no-untyped-def]
        lane, first, control, bounds, matrix, weights, x, r, p, q, decoded, limit, product, target, sums, report
    ):
        buffer = np.empty(RUN)
        lanes, parts, arrivals, done = len(first) - 1, len(bounds) - 1, 0, 0
        while done < len(report):
            for part in range(first[lane], first[lane + 1]):
                low, high = bounds[part], bounds[part + 1]
                given = matrix, decoded, q, low, high, buffer, kind, exponent_bits, mantissa_bits
                if shape == WHOLE:
                    multiply_whole(*given)
                elif shape == DISTANCES:
                    multiply_by_distances(*given)
                else:
                    multiply(*given)
                sums[0, part] = dot_product(decoded[low:high], q[low:high])
            arrivals += lanes
            meet(control, arrivals)
            curvature = 0.0
            for part in range(parts):
                curvature += sums[0, part]
            if lane == 0:
                report[done, 0], report[done, 1], report[done, 2] = 0.0, curvature, 0.0
            if not (curvature > 0.0 and curvature < np.inf):
                return done + 1
            alpha = product / curvature
            for part in range(first[lane], first[lane + 1]):
                low, high = bounds[part], bounds[part + 1]
                if stored == NATIVE:
                    own = x[low:high], r[low:high], p[low:high], q[low:high]
                    if weights is None:
                        sums[1, part], sums[2, part] = _update(*own, None, alpha)
                    else:
                        sums[1, part], sums[2, part] = _update(*own, weights[low:high], alpha)
                elif stored == BLOCKS:
                    whole = x, r, p, q, low, high, alpha, limit, vectors
                    sums[1, part], sums[2, part] = update_blocks(*whole)
                else:
                    whole = x, r, p, q, low, high, alpha, limit, vectors
                    sums[1, part], sums[2, part] = update_packed(*whole)
            arrivals += lanes
            meet(control, arrivals)
            square = of_residual = 0.0
            for part in range(parts):
                square += sums[1, part]
                of_residual += sums[2, part]
            beta = -of_residual / curvature
            for part in range(first[lane], first[lane + 1]):
                low, high = bounds[part], bounds[part + 1]
                if stored == NATIVE:
                    if weights is None:
                        sums[3, part] = _turn(r[low:high], p[low:high], None, beta)
                    else:
                        sums[3, part] = _turn(r[low:high], p[low:high], weights[low:high], beta)
                elif stored == BLOCKS:
                    turned = r, p, decoded, low, high, beta, limit, vectors
                    sums[3, part] = turn_blocks(*turned)
                else:
                    turned = r, p, decoded, low, high, beta, limit, vectors
                    sums[3, part] = turn_packed(*turned)
            arrivals += lanes
            meet(control, arrivals)
            product = 0.0
            for part in range(parts):
                product += sums[3, part]
            if lane == 0:
                report[done, 0], report[done, 2] = square, product
            done += 1
            if not square > target * target or product == 0.0 or not np.isfinite(square + product):
                break
        return done

    return iterate
