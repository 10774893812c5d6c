"""Compiled loops whose sums keep what rounding loses of them: for `cpms.graph.compensated_sums` and `cpms.analysis.rankings`."""

from __future__ import annotations

from cpms.base.jit import compiled, numba


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _added(total, lost, term):  # type: ignore[no-untyped-def]
    """Return a sum with a term added to it, and what rounding has lost of it so far."""
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
def _inflow(indptr, sources, weights, powers, shares, row):  # type: ignore[no-untyped-def]
    """Return what flows into a row; what rounding loses of its sum is added at its end, so that no row is too long."""
    total = lost = 0.0
    for k in range(indptr[row], indptr[row + 1]):
        source = sources[k]
        term = shares[source]
        if len(weights) > 0:
            term *= weights[k] * powers[source]
        total, lost = _added(total, lost, term)
    return total + lost


@compiled()
def flow(indptr, sources, weights, powers, shares, found, first, low, high):  # type: ignore[no-untyped-def]
    """Put what flows into rows ``low`` to ``high`` into ``found``, whose first row is ``first``."""
    for row in range(low, high):
        found[row - first] = _inflow(indptr, sources, weights, powers, shares, row)


@compiled()
def divide(x, divisor, shares, low, high):  # type: ignore[no-untyped-def]
    """Put what nodes ``low`` to ``high`` send by an edge into ``shares``; return the mass of those that have none."""
    total = lost = 0.0
    for node in range(low, high):
        if divisor[node] > 0:
            shares[node] = x[node] / divisor[node]
        else:
            shares[node] = 0.0
            total, lost = _added(total, lost, x[node])
    return total + lost


@compiled()
def change(  # type: ignore[no-untyped-def]
    indptr, sources, weights, powers, shares, x, damping, dangling, sink, teleport, scale, applied, low, high
):
    """Return the sum, the sum of squares times ``scale`` squared, and the largest of |G(x) - x| in some rows.

    G(x) goes into ``applied``, if that has any values.
    """
    total = lost = squares = squares_lost = largest = 0.0
    for row in range(low, high):
        to_all, back = (sink[row] if len(sink) > 1 else sink[0]), (teleport[row] if len(teleport) > 1 else teleport[0])
        inflow = _inflow(indptr, sources, weights, powers, shares, row)
        after = damping * (inflow + dangling * to_all) + (1.0 - damping) * back
        if len(applied) > 0:
            applied[row] = after
        moved = abs(after - x[row])
        total, lost = _added(total, lost, moved)
        squares, squares_lost = _added(squares, squares_lost, (moved * scale) ** 2)
        largest = max(largest, moved)
    return total + lost, squares + squares_lost, largest
