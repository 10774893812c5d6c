"""How many sweeps a solve will take, from the first few of them; see ``preprocess/convergence_estimate.cu``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels.template import CONVERGENCE_ESTIMATE
from cpms.backends.cuda.persistent.device_graph import barrier
from cpms.backends.cuda.runtime.current import current

_TOL = 1e-10
_LOOKED_AT = 24
_MOST = 160
_FAST = 0.65
"""Part of a change that the next sweep leaves up to which combining sweeps is worth little."""


def sweeps(indptr: Any, sources: Any, degree: Any, damping: float) -> int:
    """Return about how many sweeps of power iteration bring the L1 norm of a change below 1e-10.

    The rate at which changes fall over the later half of the first few sweeps is taken for that of all others. On
    graphs of a web's kind it rises later, so that the number comes out up to a third too low.

    Parameters
    ----------
    indptr, sources, degree : device arrays of uint32
        Of a graph without weights, whose teleport and dangling mass are spread evenly; ``degree`` are out-degrees.
    damping : float
    """
    return forecast(_changes(indptr, sources, degree, damping, _LOOKED_AT))


def converges_fast(indptr: Any, sources: Any, degree: Any, damping: float) -> bool:
    """Return whether each sweep leaves little of what the one before it changed: nothing is then worth combining.

    Parameters are those of `sweeps`.
    """
    few = _LOOKED_AT // 2
    changes = _changes(indptr, sources, degree, damping, few)
    half = few // 2
    return len(changes) < few or changes[-1] <= _FAST**half * changes[-1 - half]


def _changes(indptr: Any, sources: Any, degree: Any, damping: float, most: int) -> list[float]:
    arrays, nodes = current().arrays, len(degree)
    blocks = current().persistent_spread(nodes)
    shares, fresh = (arrays.empty(nodes, np.float64) for _ in range(2))
    found = arrays.zeros(1 + most, np.float64)
    arguments = (
        *(indptr, sources, degree, np.uint32(nodes), np.float64(damping), shares, fresh),
        *(np.uint32(most), np.float64(_TOL), found, *barrier(blocks)),
    )
    current().run_persistent(CONVERGENCE_ESTIMATE, blocks, arguments)
    count, *changes = current().to_host(found).tolist()
    return list(changes[: int(count)])


def forecast(changes: list[float]) -> int:
    """Return about how many sweeps it takes, by what the first ones change.

    Examples
    --------
    >>> forecast([0.5, 1e-11]), forecast([0.85**k for k in range(24)])
    (2, 143)
    """
    if changes[-1] < _TOL:
        return len(changes)
    first, last = changes[_LOOKED_AT // 2 - 1], changes[-1]
    if last >= first:
        return _MOST
    rate = (last / first) ** (2.0 / _LOOKED_AT)
    return min(round(_LOOKED_AT + math.log(_TOL / last) / math.log(rate)), _MOST)
