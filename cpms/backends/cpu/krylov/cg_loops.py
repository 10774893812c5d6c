"""Compiled conjugate gradient iterations: a product and two passes over vectors, with three barriers between threads.

A call iterates for one right-hand side, or for several, whose products then share each read of the matrix. The vectors
of each are updated alone, by the same code as those of one, so that a right-hand side changes no bit of another.

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
from cpms.backends.cpu.krylov.shared_products import multiply_for_all
from cpms.backends.cpu.krylov.stored_cg_loops import turn_blocks, turn_packed, update_blocks, update_packed
from cpms.backends.cpu.lane_barrier import meet
from cpms.backends.cpu.product_loops import BLOCKS, NATIVE
from cpms.base.jit import array_at, compiled, inlined_in_loops

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


@inlined_in_loops()
def _interleave(addresses, like, low, high, block):  # type: ignore[no-untyped-def]
    """Write a range of rows of a block of shape (rows, 4); of the addresses of x, r and p, those of p are used."""
    last = len(addresses) - 1  # The columns that no right-hand side has repeat the last one.
    a, b = array_at(addresses[0, 2], len(like), like), array_at(addresses[min(1, last), 2], len(like), like)
    c, d = array_at(addresses[min(2, last), 2], len(like), like), array_at(addresses[min(3, last), 2], len(like), like)
    for i in range(low, high):
        block[4 * i], block[4 * i + 1], block[4 * i + 2], block[4 * i + 3] = a[i], b[i], c[i], d[i]


@compiled(error_model="numpy")
def dot(p, q, low, high):  # type: ignore[no-untyped-def]
    """Return p.q of a range."""
    return dot_product(p[low:high], q[low:high])


@cache
def lanes_kernel(shape: int, spec: tuple[int, int, int], vectors: tuple[int, ...], is_shared: bool = False) -> Any:
    """Return the compiled iterations of a lane, for one storage of columns, of values, and of the vectors r and p.

    Parameters
    ----------
    shape, spec
        Storage of columns and values; see `cpms.backends.cpu.krylov.row_products`.
    vectors : tuple of int
        Storage of r and p, as in `cpms.backends.cpu.product_loops`: plain, packed floats, or block floats, whose blocks
        no range of rows cuts.
    is_shared : bool
        For up to `SHARED` right-hand sides with plain vectors, in place of one.

    Notes
    -----
    Of the kernel's arguments, ``first`` holds the first range of each lane. ``addresses``, of shape (right-hand sides,
    3), holds those of x, r and p, which are arrays of the types of ``x_like`` and ``r_like``; r and p have the length
    of ``r_like``. ``decoded`` is p as products read it: p itself for one right-hand side with plain vectors, and a
    block of shape (rows, `SHARED`) for several. Row j of ``q`` is A p of right-hand side j. All do the same number of
    iterations, which the kernel returns. They end when ``report`` has no row left. They end for all, too, when one of
    them has a residual of at most its target, a p.Ap not above 0 or not finite, or a value of r or p that is not below
    ``limit``. An iteration with such a p.Ap is not done and not counted; ``report`` has its p.Ap. Lane 0 reports
    (`SQUARE`, `CURVATURE`, `NEXT`) for each.
    """
    stored = vectors[0]
    kind, exponent_bits, mantissa_bits = spec

    @compiled(error_model="numpy")
    def iterate(  # type: ignore[no-untyped-def]
        lane, first, control, bounds, matrix, weights, addresses, x_like, r_like, q, decoded, limit, products, targets,
        sums, report,
    ):  # fmt: skip
        buffer = np.empty(RUN)
        lanes, parts, arrivals, done, count = len(first) - 1, len(bounds) - 1, 0, 0, len(addresses)
        product, curvature, beta = products.copy(), np.empty(count), np.empty(count)
        if is_shared:
            for part in range(first[lane], first[lane + 1]):
                _interleave(addresses, r_like, bounds[part], bounds[part + 1], decoded)
            arrivals += lanes
            meet(control, arrivals)
        is_running = True
        while is_running and done < report.shape[1]:
            for part in range(first[lane], first[lane + 1]):
                low, high = bounds[part], bounds[part + 1]
                if is_shared:
                    multiply_for_all(matrix, decoded, q, low, high, shape, kind, exponent_bits, mantissa_bits)
                    for j in range(count):
                        p = array_at(addresses[j, 2], len(r_like), r_like)
                        sums[j, 0, part] = dot_product(p[low:high], q[j, low:high])
                else:
                    given = matrix, decoded, q[0], low, high, buffer, kind, exponent_bits, mantissa_bits
                    if shape == WHOLE:
                        multiply_whole(*given)
                    elif shape == DISTANCES:
                        multiply_by_distances(*given)
                    else:
                        multiply(*given)
                    sums[0, 0, part] = dot_product(decoded[low:high], q[0, low:high])
            arrivals += lanes
            meet(control, arrivals)
            for j in range(count):
                curvature[j] = 0.0
                for part in range(parts):
                    curvature[j] += sums[j, 0, part]
                if lane == 0:
                    report[j, done, SQUARE] = report[j, done, NEXT] = 0.0
                    report[j, done, CURVATURE] = curvature[j]
                is_running &= curvature[j] > 0.0 and curvature[j] < np.inf
            if not is_running:
                break
            for part in range(first[lane], first[lane + 1]):
                low, high = bounds[part], bounds[part + 1]
                for j in range(count):
                    alpha = product[j] / curvature[j]
                    x = array_at(addresses[j, 0], len(x_like), x_like)
                    r = array_at(addresses[j, 1], len(r_like), r_like)
                    p = array_at(addresses[j, 2], len(r_like), r_like)
                    if stored == NATIVE:
                        own = x[low:high], r[low:high], p[low:high], q[j, low:high]
                        if weights is None:
                            sums[j, 1, part], sums[j, 2, part] = _update(*own, None, alpha)
                        else:
                            sums[j, 1, part], sums[j, 2, part] = _update(*own, weights[low:high], alpha)
                    elif stored == BLOCKS:
                        whole = x, r, p, q[j], low, high, alpha, limit, vectors
                        sums[j, 1, part], sums[j, 2, part] = update_blocks(*whole)
                    else:
                        whole = x, r, p, q[j], low, high, alpha, limit, vectors
                        sums[j, 1, part], sums[j, 2, part] = update_packed(*whole)
            arrivals += lanes
            meet(control, arrivals)
            for j in range(count):
                square = of_residual = 0.0
                for part in range(parts):
                    square += sums[j, 1, part]
                    of_residual += sums[j, 2, part]
                beta[j] = -of_residual / curvature[j]
                if lane == 0:
                    report[j, done, SQUARE] = square
                is_running &= square > targets[j] * targets[j] and square < np.inf
            for part in range(first[lane], first[lane + 1]):
                low, high = bounds[part], bounds[part + 1]
                for j in range(count):
                    r = array_at(addresses[j, 1], len(r_like), r_like)
                    p = array_at(addresses[j, 2], len(r_like), r_like)
                    if stored == NATIVE:
                        if weights is None:
                            sums[j, 3, part] = _turn(r[low:high], p[low:high], None, beta[j])
                        else:
                            sums[j, 3, part] = _turn(r[low:high], p[low:high], weights[low:high], beta[j])
                    elif stored == BLOCKS:
                        turned = r, p, decoded, low, high, beta[j], limit, vectors
                        sums[j, 3, part] = turn_blocks(*turned)
                    else:
                        turned = r, p, decoded, low, high, beta[j], limit, vectors
                        sums[j, 3, part] = turn_packed(*turned)
                if is_shared:
                    _interleave(addresses, r_like, low, high, decoded)
            arrivals += lanes
            meet(control, arrivals)
            for j in range(count):
                product[j] = 0.0
                for part in range(parts):
                    product[j] += sums[j, 3, part]
                if lane == 0:
                    report[j, done, NEXT] = product[j]
                is_running &= product[j] != 0.0 and np.isfinite(product[j])
            done += 1
        return done

    return iterate
