"""Compiled loops whose sums keep what rounding loses of them, by compensated summation; see `cpms.weight_sums`."""

from __future__ import annotations

import numba


@numba.njit(inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _added(total, lost, term):  # type: ignore[no-untyped-def]
    """Return a sum with a term added to it, and what rounding has lost of it so far."""
    after = total + term
    if abs(total) >= abs(term):
        return after, lost + ((total - after) + term)
    return after, lost + ((term - after) + total)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def add_by_key(sums, lost, keys, terms):  # type: ignore[no-untyped-def]
    """Add each term to the sum of its key."""
    for k in range(len(keys)):
        key = keys[k]
        sums[key], lost[key] = _added(sums[key], lost[key], terms[k])


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
            total, lost = _added(total, lost, term)
        found[row - first] = total + lost
