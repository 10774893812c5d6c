"""Compiled loops of compensated summation, for weights of graphs and certificates.

Neumaier's summation (ZAMM 54, 1974) adds the rounding error of each addition to a second sum, which is added at the
end; its error is that of one rounding unless the terms cancel. A term costs four additions and a comparison.
"""

from __future__ import annotations

from typing import Any

from cpms.base.jit import compiled, inlined_in_loops

_compiled: Any = compiled(_nrt=False)
_inlined: Any = inlined_in_loops()


@_inlined
def _added(total, error, term):  # type: ignore[no-untyped-def]
    """Return a sum with a term added to it, and the sum of its rounding errors."""
    after = total + term
    larger, smaller = (total, term) if abs(total) >= abs(term) else (term, total)
    return after, error + ((larger - after) + smaller)


@_compiled
def add_by_key(sums, error, keys, terms):  # type: ignore[no-untyped-def]
    """Add each term to the sum of its key."""
    for k in range(len(keys)):
        key = keys[k]
        sums[key], error[key] = _added(sums[key], error[key], terms[k])


@_compiled
def divide(x, divisor, contributions, low, high):  # type: ignore[no-untyped-def]
    """Write x / divisor of nodes ``low`` to ``high`` into ``contributions``; return the mass of nodes of divisor 0."""
    total = error = 0.0
    for node in range(low, high):
        if divisor[node] > 0:
            contributions[node] = x[node] / divisor[node]
        else:
            contributions[node] = 0.0
            total, error = _added(total, error, x[node])
    return total + error


@_compiled
def residual_norms(  # type: ignore[no-untyped-def]
    indptr, sources, weights, powers, contributions, x, damping, dangling, sink, teleport, scale, applied, low, high
):
    """Return the sum, the sum of squares times ``scale`` squared, and the largest of |G(x) - x| in some rows.

    ``contributions`` are x / out-degree. ``applied`` receives G(x) unless it is empty.
    """
    total = error = squares = squares_error = largest = 0.0
    for row in range(low, high):
        to_all, back = (sink[row] if len(sink) > 1 else sink[0]), (teleport[row] if len(teleport) > 1 else teleport[0])
        product = lost = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            source = sources[k]
            term = contributions[source]
            if len(weights) > 0:
                term *= weights[k] * powers[source]
            product, lost = _added(product, lost, term)
        after = damping * (product + lost + dangling * to_all) + (1.0 - damping) * back
        if len(applied) > 0:
            applied[row] = after
        difference = abs(after - x[row])
        total, error = _added(total, error, difference)
        squares, squares_error = _added(squares, squares_error, (difference * scale) ** 2)
        largest = largest if largest > difference else difference
    return total + error, squares + squares_error, largest
