"""What flows into nodes, edge by edge: for the referee of answers."""

from __future__ import annotations

import numba


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def flow(indptr, sources, weights, powers, shares, found, first, low, high):  # type: ignore[no-untyped-def]
    """Put what flows into rows ``low`` to ``high`` into ``found``, whose first row is ``first``.

    What rounding loses of a row's sum is added at its end, so that no row is too long.
    """
    weighted = len(weights) > 0
    for row in range(low, high):
        total = lost = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            source = sources[k]
            term = shares[source]
            if weighted:
                term *= weights[k] * powers[source]
            before = total
            total += term
            lost += (before - total) + term if before >= term else (term - total) + before
        found[row - first] = total + lost
