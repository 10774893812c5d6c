"""Estimate of the convergence rate of power iteration, from its first few sweeps on the device.

The ratio of successive residual norms tends to the modulus of the second eigenvalue, which is the rate of convergence;
extrapolation of the ratios so far gives the number of sweeps that a solve takes. Trimming and lumping weigh their cost
against it, and error feedback is worthwhile where convergence is fast. The estimate costs one persistent launch of at
most 24 float64 sweeps. See ``preprocess/convergence_estimate.cu``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.template import CONVERGENCE_ESTIMATE
from cpms.backends.cuda.persistent.device_graph import barrier
from cpms.backends.cuda.runtime.current import current

_TOLERANCE = 1e-10
_OBSERVED = 24
_MAX_SWEEPS = 160
_FAST_RATE = 0.65
"""Reduction of the residual a sweep up to which combining sweeps is worth little."""


def sweeps(indptr: Any, sources: Any, degree: Any, damping: float) -> int:
    """Return about how many sweeps of power iteration reduce the L1 norm of the residual below 1e-10.

    The mean rate over the later half of the first sweeps is extrapolated. On web graphs the rate rises later, so that
    the estimate is up to a third too low.

    Parameters
    ----------
    indptr, sources, degree : device arrays of uint32
        Of a graph without weights, whose teleport and dangling mass are spread evenly; ``degree`` are out-degrees.
    damping : float
    """
    return extrapolate(_changes(indptr, sources, degree, damping, _OBSERVED))


def converges_fast(indptr: Any, sources: Any, degree: Any, damping: float) -> bool:
    """Return whether each sweep reduces the residual so much that acceleration is not worthwhile.

    Parameters are those of `sweeps`.
    """
    observed = _OBSERVED // 2
    changes = _changes(indptr, sources, degree, damping, observed)
    half = observed // 2
    return len(changes) < observed or changes[-1] <= _FAST_RATE**half * changes[-1 - half]


def _changes(indptr: Any, sources: Any, degree: Any, damping: float, max_sweeps: int) -> list[float]:
    arrays, nodes = current().arrays, len(degree)
    blocks = current().persistent_spread(nodes)
    contributions, next_contributions = (arrays.empty(nodes, np.float64) for _ in range(2))
    found = arrays.zeros(1 + max_sweeps, np.float64)
    arguments = (
        *(indptr, sources, degree, np.uint32(nodes), np.float64(damping), contributions, next_contributions),
        *(np.uint32(max_sweeps), np.float64(_TOLERANCE), found, *barrier(blocks)),
    )
    current().run_persistent(CONVERGENCE_ESTIMATE, blocks, arguments)
    count, *changes = current().to_host(found).tolist()
    return list(changes[: int(count)])


def extrapolate(changes: list[float]) -> int:
    """Return about how many sweeps a solve takes, by the residual norms of the first sweeps.

    Examples
    --------
    >>> extrapolate([0.5, 1e-11]), extrapolate([0.85**k for k in range(24)])
    (2, 143)
    """
    if changes[-1] < _TOLERANCE:
        return len(changes)
    first, last = changes[_OBSERVED // 2 - 1], changes[-1]
    if last >= first:
        return _MAX_SWEEPS
    rate = (last / first) ** (2.0 / _OBSERVED)
    return min(round(_OBSERVED + math.log(_TOLERANCE / last) / math.log(rate)), _MAX_SWEEPS)
