"""Compiled loops of compensated summation, for weights of graphs, certificates and rankings.

Neumaier's summation (ZAMM 54, 1974) adds the rounding error of each addition to a second sum, which is added at the
end; its error is that of one rounding unless the terms cancel. A term costs four additions and a comparison.
"""

from __future__ import annotations

from cpms.base.jit import compiled, numba


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _added(total, lost, term):  # type: ignore[no-untyped-def]
    """Return a sum with a term added to it, and the sum of its rounding errors."""
    after = total + term
    if abs(total) >= abs(term):
        return after, lost + ((total - after) + term)
    return after, lost + ((term - after) + total)


@compiled()
def add_by_key(sums, lost, keys, terms):  # type: ignore[no-untyped-def]
    """Add each term to the sum of its key."""
    for k in range(len(keys)):
        key = keys[k]
        sums[key], lost[key] = _added(sums[key], lost[key], terms[k])


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _inflow(indptr, sources, weights, powers, contributions, row):  # type: ignore[no-untyped-def]
    """Return the product of a row of P with x, from the contributions x / out-degree of its sources."""
    total = lost = 0.0
    for k in range(indptr[row], indptr[row + 1]):
        source = sources[k]
        term = contributions[source]
        if len(weights) > 0:
            term *= weights[k] * powers[source]
        total, lost = _added(total, lost, term)
    return total + lost


@compiled()
def flow(indptr, sources, weights, powers, contributions, found, first, low, high):  # type: ignore[no-untyped-def]
    """Write the products of rows ``low`` to ``high`` into ``found``, whose first row is ``first``."""
    for row in range(low, high):
        found[row - first] = _inflow(indptr, sources, weights, powers, contributions, row)


@compiled()
def divide(x, divisor, contributions, low, high):  # type: ignore[no-untyped-def]
    """Write x / divisor of nodes ``low`` to ``high`` into ``contributions``; return the mass of nodes of divisor 0."""
    total = lost = 0.0
    for node in range(low, high):
        if divisor[node] > 0:
            contributions[node] = x[node] / divisor[node]
        else:
            contributions[node] = 0.0
            total, lost = _added(total, lost, x[node])
    return total + lost


@compiled()
def change(  # type: ignore[no-untyped-def]
    indptr, sources, weights, powers, contributions, x, damping, dangling, sink, teleport, scale, applied, low, high
):
    """Return the sum, the sum of squares times ``scale`` squared, and the largest of |G(x) - x| in some rows.

    ``applied`` receives G(x) unless it is empty.
    """
    total = lost = squares = squares_lost = largest = 0.0
    for row in range(low, high):
        to_all, back = (sink[row] if len(sink) > 1 else sink[0]), (teleport[row] if len(teleport) > 1 else teleport[0])
        inflow = _inflow(indptr, sources, weights, powers, contributions, row)
        after = damping * (inflow + dangling * to_all) + (1.0 - damping) * back
        if len(applied) > 0:
            applied[row] = after
        difference = abs(after - x[row])
        total, lost = _added(total, lost, difference)
        squares, squares_lost = _added(squares, squares_lost, (difference * scale) ** 2)
        largest = max(largest, difference)
    return total + lost, squares + squares_lost, largest
