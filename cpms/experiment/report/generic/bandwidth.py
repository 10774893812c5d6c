"""Bytes that results move at least, and the rates of copies that these are compared with.

Rows of whole PageRank solves hold their sweeps by bits, from which the least bytes follow
(`cpms.experiment.memory_footprint.least_bytes_by_bits`). A result on a GPU whose row holds no rate of a copy is set
beside the median of those that other rows hold of a GPU of the same name: such cards have the same memory. Machines
with processors of one name do not, so that a result on processors needs a rate of its own row. The cost is one pass
over the rows.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from cpms.base.text.counted import counted
from cpms.experiment.memory_footprint import least_bytes_by_bits
from cpms.experiment.rows.rows import Row

if TYPE_CHECKING:
    import pandas as pd

SOLVES = ("contest", "pagerank")
"""Kinds of whole PageRank solves."""
_IN_TURN = ("conversion",)
"""Kinds whose copies take turns with work that evicts their data from caches."""

QUANTITIES = ("bytes_read", "least_bytes", "amortised_bytes", "bytes", "matrix_bytes", "received_bytes")
"""Columns of bytes: those that a result moved, then sizes, and bytes between ranks."""
TRIMMED = "of refine, which may have trimmed the graph"
"""The reason in captions why a result of `may_trim` has no least number of bytes."""


class Rate(NamedTuple):
    """The rate of a copy, read and written, and a row that holds it."""

    gbps: float
    row: Row


def with_least_bytes(row: Row) -> Row:
    """Return a row of PageRank solves with ``least_bytes`` in each result whose sweeps and layout give them.

    A sweep moves the matrix once, and reads and writes a vector in its bits. Method ``refine`` has a matrix without
    values; its vector is the residual, and in the float64 sweeps that add the correction it is x. If it may have
    trimmed its graph (`may_trim`), rows do not hold the part that its sweeps read, so that there is no least number.

    Examples
    --------
    >>> row = {"kind": "contest", "nodes": 2, "edges": 2, "layout": "csr"}
    >>> lines = [{"layout": None, "bits": [64, 64]}, {"method": "refine", "bits": [64, 16]}]
    >>> lines += [{**lines[1], "whole": True}, {"layout": "ell"}]
    >>> [line.get("least_bytes") for line in with_least_bytes({**row, "results": lines})["results"]]
    [128.0, None, 88.0, None]
    """
    if row.get("kind") not in SOLVES or not {"nodes", "edges"} <= row.keys():
        return row
    if isinstance(row.get("results"), list):
        return {**row, "results": [_with_least_bytes(row, each) for each in row["results"] if isinstance(each, dict)]}
    return _with_least_bytes(row, row)


def may_trim(result: Row) -> bool:
    """Return whether a result is of a solve that may have removed a part of the graph before its sweeps.

    Examples
    --------
    >>> may_trim({"kind": "pagerank", "method": "refine"}), may_trim({"kind": "pagerank", "method": "power"})
    (True, False)
    """
    return result.get("kind") in SOLVES and result.get("method") == "refine" and not result.get("whole")


def _with_least_bytes(row: Row, result: dict[str, Any]) -> dict[str, Any]:
    sweeps = _sweeps(result)
    if result.get("least_bytes") or not sweeps or may_trim({**row, **result}):
        return result
    layout = "pattern" if result.get("method") == "refine" else result.get("layout") or row.get("layout")
    found = least_bytes_by_bits(row["nodes"], row["edges"], str(layout), sweeps)
    return result if found is None else {**result, "least_bytes": found}


def _sweeps(result: dict[str, Any]) -> dict[int, int]:
    """Return the number of sweeps by the bits that they read; nothing of rows that do not hold it."""
    by_bits, bits = result.get("iterations_by_bits"), result.get("bits")
    if isinstance(by_bits, dict):
        return {int(each): count for each, count in by_bits.items()}
    return dict(Counter(bits)) if isinstance(bits, list) else {}


def rates_of_gpus(rows: Iterable[Row]) -> dict[str, list[Rate]]:
    """Return the rates of copies that rows of any experiments hold, by the name of the GPU, each rate once.

    Examples
    --------
    >>> rates = {"copy_gbps": 4100.0}, {"ceilings": {"copy_gbps": 4200.0}}, {}
    >>> [rate.gbps for rate in rates_of_gpus({"gpu": "H200", **each} for each in rates)["H200"]]
    [4100.0, 4200.0]
    """
    found: dict[str, dict[float, Rate]] = {}
    for row in rows:
        ceilings = row.get("ceilings")
        gbps = row.get("copy_gbps") or (ceilings.get("copy_gbps") if isinstance(ceilings, dict) else None)
        if row.get("gpu") and row.get("kind") not in _IN_TURN and isinstance(gbps, int | float) and gbps > 0:
            found.setdefault(row["gpu"], {}).setdefault(float(gbps), Rate(float(gbps), row))
    return {gpu: list(rates.values()) for gpu, rates in found.items()}


def with_rates(found: pd.DataFrame, rates: Mapping[str, list[Rate]]) -> tuple[pd.DataFrame, list[Rate]]:
    """Return observations with a rate of a copy wherever their row or another of their GPU has one, and those taken.

    Parameters
    ----------
    found : pandas.DataFrame
        Of `cpms.experiment.report.observations.observations`.
    rates : mapping of str to list of Rate
        Of `rates_of_gpus`.
    """
    lacking = found.copy_gbps.isna() & (found.moved > 0)
    by_line = [tuple(dict.fromkeys(each)) if lacks else () for each, lacks in zip(found.machines, lacking, strict=True)]
    wanted = dict.fromkeys(names[0] for names in by_line if len(names) == 1 and names[0] in rates)
    medians = {name: statistics.median(rate.gbps for rate in rates[name]) for name in wanted}
    filled = [
        medians.get(names[0], own) if len(names) == 1 else own
        for names, own in zip(by_line, found.copy_gbps, strict=True)
    ]
    return found.assign(copy_gbps=filled), [rate for name in wanted for rate in rates[name]]


def taken_from(taken: list[Rate]) -> str:
    """Return the text of a caption about rates that other rows hold.

    Examples
    --------
    >>> taken_from([Rate(4100.0, {}), Rate(4200.0, {})])
    '; rate: median of 2 rows of GPUs of this name, 4100 to 4200 GB/s'
    >>> taken_from([Rate(4100.0, {})]), taken_from([])
    ('; rate: that of 1 row of a GPU of this name', '')
    """
    if not taken:
        return ""
    rates = sorted(rate.gbps for rate in taken)
    if len(rates) == 1:
        return "; rate: that of 1 row of a GPU of this name"
    return f"; rate: median of {len(rates)} rows of GPUs of this name, {rates[0]:.0f} to {rates[-1]:.0f} GB/s"


def of_one_quantity(found: pd.DataFrame) -> pd.DataFrame:
    """Return observations whose ``traffic`` is one quantity, since no axis can have two; NaN where a row lacks it.

    It is the first of `QUANTITIES` that at least half of the results have, or else the one that most have. Results that
    may have trimmed their graph (`may_trim`) do not count, unless there are no others.

    Examples
    --------
    >>> import pandas as pd
    >>> held = [{"least_bytes": 9.0, "matrix_bytes": 2.0}, {"matrix_bytes": 1.0}, {"matrix_bytes": 3.0}]
    >>> found = of_one_quantity(pd.DataFrame({"quantities": held, "trims": False}))
    >>> found[["traffic_name", "traffic"]].values.tolist()
    [['matrix_bytes', 2.0], ['matrix_bytes', 1.0], ['matrix_bytes', 3.0]]
    """
    trims = found.trims.astype(bool)
    counting = found if trims.all() else found[~trims]
    counts = Counter(name for held in counting.quantities for name in held)
    of_half = (name for name in QUANTITIES if counts[name] and 2 * counts[name] >= len(counting))
    chosen = next(of_half, max(QUANTITIES, key=lambda name: counts[name]))
    return found.assign(traffic=[held.get(chosen, float("nan")) for held in found.quantities], traffic_name=chosen)


def left_out(found: pd.DataFrame) -> str:
    """Return the text of a caption about timed results without bytes or without a rate.

    Examples
    --------
    >>> import pandas as pd
    >>> found = pd.DataFrame({"seconds": [1.0] * 3, "moved": [1.0, None, 1.0], "copy_gbps": [1.0, 1.0, None]})
    >>> left_out(found.assign(trims=False))
    '; left out: 1 result whose row lacks its bytes, 1 result without the rate of a copy on its device'
    >>> left_out(found[1:2].assign(trims=True))
    '; left out: 1 result of refine, which may have trimmed the graph'
    """
    timed = found[found.seconds > 0]
    lacking, trims = ~(timed.moved > 0), timed.trims.astype(bool)
    counts = {
        TRIMMED: lacking & trims,
        "whose row lacks its bytes": lacking & ~trims,
        "without the rate of a copy on its device": ~lacking & ~(timed.copy_gbps > 0),
    }
    texts = [f"{counted(int(which.sum()), 'result')} {why}" for why, which in counts.items() if which.any()]
    return f"; left out: {', '.join(texts)}" if texts else ""
