"""Time and bytes of the mean sweep of a long run, updates of x included, from rows of kind ``sweeps``.

Inner sweeps of a graph beyond the device's cache write the quantised residual alone. After eight of them a pass adds
their residuals to x (deferred update, ``kernels/cuda/pagerank/deferred_update.cuh``), and the time of the next sweep
includes it. Float64 sweeps update x each time, and inner sweeps in the cache the correction.

Rows hold the mean sweep of each run, over whole periods of eight sweeps, of which one includes an update. The time is
the median of these means, and its spread is their range. The median over the single sweeps of all runs is the time of a
sweep without an update.
"""

from __future__ import annotations

import math
import statistics
from typing import Any, NamedTuple

from cpms.backends.cuda.spmv.padded_csr import ENTRY_BYTES
from cpms.precision.anderson import DEPTH

UPDATE_PERIOD = DEPTH
"""Sweeps between two updates of x without error feedback, as in rows; see ``pagerank/persistent_refine.cu``."""
UPDATES = (
    "Except in-cache sweeps, every eighth sweep in few bits also updates the ranks: times and bytes include an eighth "
    "of that, which medians of single sweeps leave out"
)
"""A sentence for captions of tables."""
_X_BYTES, _CORRECTION_BYTES = 16, 8
"""Bytes a node to read and write x in float64, and the correction in float32."""
_OF_RESULT, _OF_ROW = ("sweep_us", "bytes", "bits"), ("nodes", "edges")
"""Columns from which times are derived, besides ``run_us``."""


class SweepTimes(NamedTuple):
    """Time and bytes of the mean sweep of a long run.

    Parameters
    ----------
    us : float
        Microseconds, with the share of an update: the median over runs.
    plain_us : float
        Median of single sweeps, and so without an update.
    update_us : float
        What an update adds to the sweep that includes it; 0 if updates are not deferred.
    least_us, most_us : float
        Least and most of the means of runs.
    bytes : float
        Least traffic, with the share of an update; NaN where rows do not hold the nodes of a lumped graph.
    """

    us: float
    plain_us: float
    update_us: float
    least_us: float
    most_us: float
    bytes: float

    @property
    def range_us(self) -> float:
        """How far the ends of the spread are apart."""
        return self.most_us - self.least_us


def sweep_times(row: Any, result: dict[str, Any]) -> SweepTimes:
    """Return time and bytes of the mean sweep of a long run, of a result of kind ``sweeps``.

    Parameters
    ----------
    row : mapping
        The row, with ``nodes``, ``edges`` and ``results``.
    result : dict
        One of its results.

    Examples
    --------
    >>> result = {"sweep_us": 10.0, "run_us": [14.0, 14.0, 15.0], "bits": 16, "bytes": 1450.0}
    >>> found = sweep_times({"nodes": 200, "edges": 200, "results": [result]}, result)
    >>> found.us, found.update_us, found.range_us, found.bytes
    (14.0, 32.0, 1.0, 2300.0)
    """
    runs = [float(each) for each in result["run_us"]]
    mean, plain = statistics.median(runs), float(result["sweep_us"])
    update_us, moved = 0.0, float(result["bytes"])
    if defers(row, result):
        lumped = result.get("arrangement", {}).get("merge")
        update_us = max(0.0, UPDATE_PERIOD * (mean - plain))
        moved += math.nan if lumped else row["nodes"] * _update_bytes(result["bits"]) / UPDATE_PERIOD
    return SweepTimes(mean, plain, update_us, min(runs), max(runs), moved)


def columns(row: Any, result: dict[str, Any]) -> dict[str, float]:
    """Return the derived columns of a result of any kind; none of other kinds, or of a row that lacks a part.

    Examples
    --------
    >>> columns({"kind": "contest"}, {"solve_s": 1.0})
    {}
    """
    if not has_times(row, result):
        return {}
    found = sweep_times(row, result)
    known = {} if math.isnan(found.bytes) else {"amortised_bytes": found.bytes}
    return {"amortised_us": found.us, "update_us": found.update_us, **known}


def has_times(row: Any, result: dict[str, Any]) -> bool:
    """Return whether a result is of kind ``sweeps``, and it and its row have the columns of `sweep_times`."""
    numbers = *(result.get(key) for key in _OF_RESULT), *(row.get(key) for key in _OF_ROW)
    runs = result.get("run_us")
    return (
        row.get("kind") == "sweeps"
        and all(isinstance(each, int | float) for each in numbers)
        and row["nodes"] > 0
        and isinstance(runs, list)
        and len(runs) > 0
    )


def defers(row: Any, result: dict[str, Any]) -> bool:
    """Return whether sweeps of a result defer the update of x.

    Sweeps that accumulate the correction instead also read and write it, as their recorded bytes show. Values are
    staged beyond the cache alone. Rows do not hold the edges of a lumped graph; it has fewer than the whole one, and
    lies in the cache if that does.
    """
    if result["bits"] >= 64:
        return False
    if result.get("arrangement", {}).get("merge"):
        whole = [each for each in row["results"] if _is_whole(each, result)]
        return not whole or defers(row, whole[0])
    of_node = (result["bytes"] - ENTRY_BYTES * row["edges"]) / row["nodes"] - result["bits"] / 8
    return bool(result.get("in_bins")) or of_node < _CORRECTION_BYTES


def _is_whole(other: dict[str, Any], lumped: dict[str, Any]) -> bool:
    """Return whether a result is of the whole graph in the same format."""
    return other.get("storage") == lumped.get("storage") and not other.get("arrangement", {}).get("merge")


def _update_bytes(bits: int) -> float:
    """Return the bytes a node of an update: the residuals and x read, x and the last residual written."""
    return (UPDATE_PERIOD + 1) * bits / 8 + _X_BYTES
