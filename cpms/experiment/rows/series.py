"""Series of measurements in rows: the samples of one quantity of one contestant, with a key that two runs share.

A row holds its results in a list (``results`` or ``contestants``), or is a result itself. A column that ends in
``_samples_s`` has samples; a row without such a column has one value. Rows that differ in ``repetition`` alone make one
series. A key consists of the parameters of a row and of a result, so two runs of one configuration have the same keys.
Results of one row are never pooled: if their parameters are the same, the key has their place among them (``entry``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from cpms.experiment.rows.rows import Row

RESULTS = ("results", "contestants", "ways_found")
"""Columns of a row that hold its results, the measured one first."""
MEASURED = ("ok", "CONVERGED")
"""Statuses of results whose times are compared: of contestants, and of linear systems."""
_NOT_RUN = ("REFUSED", "unsupported", "unavailable", "out of memory")
"""Statuses of contestants that did not run; the first one is of linear systems."""
PARAMETERS = (
    "name",
    "contestant",
    "engine",
    "local",
    "method",
    "storage",
    "layout",
    "indices",
    "compute",
    "vectors",
    "preconditioner",
    "preconditioner_storage",
    "block",
    "inner",
    "restart",
    "rhs",
    "values",
    "pattern",
    "dtype",
    "policy",
    "controller",
    "tol",
    "start",
    "batch",
    "arrangement",
    "read",
    "k",
    "write_ahead",
    "most_read",
    "whole",
    "plain",
    "fixed",
    "error_feedback",
    "convergence_estimate",
    "sums",
    "ranks",
    "work_group",
    "cores",
    "add",
    "device",
    "stage",
    "caches",
    "entry",
)
"""Columns that distinguish the contestants of a cell."""
TURNED_OFF = ("error_feedback", "convergence_estimate")
"""Parameters that are on unless a contestant turns them off; all other truth values are off unless it sets them."""
_SAMPLES = "_samples_s"
_UNITS = ("_s", "_ms", "_us", "_gbps")
_OF_RUN = ("copy", "host_copy")
"""Quantities that a run measures once and each of its rows has a copy of: equal values are one sample."""
_NOT_COMPARED = ("cell_s", "load_s", "step_s", "check_s", "numbering_s")


class Series(NamedTuple):
    """Samples of one quantity.

    Parameters
    ----------
    experiment : str
    graph : str
        The graph or matrix; empty for kinds without one.
    contestant : str
        The parameters of the contestant, as text.
    quantity : str
        The column without its ending, such as ``solve``.
    unit : str
        ``s``, ``ms``, ``us`` or ``gbps``.
    samples : tuple of float
        Positive and finite.
    """

    experiment: str
    graph: str
    contestant: str
    quantity: str
    unit: str
    samples: tuple[float, ...]

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return the name that series of other runs share."""
        return self.experiment, self.graph, self.contestant, self.quantity

    @property
    def higher_is_better(self) -> bool:
        """Return whether the quantity is a rate."""
        return self.unit == "gbps"


def series_of(rows: Iterable[Row]) -> list[Series]:
    """Return the series of all rows, in their order; results that were not measured have none.

    Examples
    --------
    >>> row = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "path", "engine": "cpu", "solve_s": 0.5}
    >>> series_of([{**row, "repetition": 0}, {**row, "cell": "1", "repetition": 1, "solve_s": 0.25}])[0].samples
    (0.5, 0.25)
    """
    found: dict[tuple[str, str, str, str], Series] = {}
    for row in rows:
        for each in _of_row(row):
            known = found[each.key].samples if each.key in found else ()
            if each.quantity not in _OF_RUN or each.samples[0] not in known:
                found[each.key] = each._replace(samples=known + each.samples)
    return list(found.values())


def _of_row(row: Row) -> Iterator[Series]:
    if row["status"] != "ok":
        return
    for name, result in contestants(row):
        if result.get("status", "ok") in MEASURED:
            for quantity, unit, samples in quantities(result):
                yield Series(row["experiment"], str(row.get("graph", "")), name, quantity, unit, samples)


def contestants(row: Row) -> list[tuple[str, dict[str, Any]]]:
    """Return the results of a row, each with its parameters as text; of equal texts, results get an ``entry``.

    Examples
    --------
    >>> contestants({"results": [{"engine": "cpu"}, {"engine": "cpu"}]})
    [('cpu entry=1', {'engine': 'cpu', 'entry': 1}), ('cpu entry=2', {'engine': 'cpu', 'entry': 2})]
    """
    held = results_of(row)
    texts = [contestant(row, result) for result in held]
    found = []
    for place, (text, result) in enumerate(zip(texts, held, strict=True)):
        if texts.count(text) > 1:
            result = {**result, "entry": texts[: place + 1].count(text)}
        found.append((contestant(row, result), result))
    return found


def results_of(row: Row) -> list[dict[str, Any]]:
    """Return the results of a row, measured or not; a row without a list of them is its own result.

    Examples
    --------
    >>> results_of({"cell": "0", "results": [{"solve_s": 1.0}]}), results_of({"cell": "0"})
    ([{'solve_s': 1.0}], [{'cell': '0'}])
    """
    held = next((row[key] for key in RESULTS if isinstance(row.get(key), list)), [row])
    return [result for result in held if isinstance(result, dict)]


def refusals(row: Row) -> list[str]:
    """Return the reasons why contestants of a row did not run.

    Examples
    --------
    >>> refusals({"ways_found": [{"status": "CONVERGED"}, {"status": "REFUSED", "reason": "A is singular"}]})
    ['A is singular']
    """
    found = [str(result.get("reason", "")) for result in results_of(row) if result.get("status") in _NOT_RUN]
    return [*found, *map(str, (row.get("refused") or {}).values())]


def contestant(row: Row, result: dict[str, Any]) -> str:
    """Return the parameters of a result as short text, which tells it from the others of its row.

    A list of a row with several results holds the values of all of them, so it is no parameter of one.

    Examples
    --------
    >>> contestant({"engine": "cuda", "ranks": [1, 2]}, {"storage": "cpms2", "k": 5})
    'cuda cpms2 k=5'
    """
    of_row = row if result is row else {name: value for name, value in row.items() if not isinstance(value, list)}
    given = {name: source[name] for source in (of_row, result) for name in PARAMETERS if name in source}
    return _text(given)


def quantities(result: dict[str, Any]) -> Iterator[tuple[str, str, tuple[float, ...]]]:
    """Yield name, unit and samples of each quantity of a result; samples take precedence over their median."""
    sampled = {
        name.removesuffix(_SAMPLES): tuple(map(float, values))
        for name, values in result.items()
        if name.endswith(_SAMPLES) and isinstance(values, list) and values and all(map(_positive, values))
    }
    for name, samples in sampled.items():
        yield name, "s", samples
    for name, value in result.items():
        ending = next((unit for unit in _UNITS if name.endswith(unit)), None)
        quantity = name.removesuffix(ending or "")
        if ending is None or quantity in sampled or name in _NOT_COMPARED or not _positive(value):
            continue
        if not quantity.endswith(("least", "most")):
            yield quantity, ending.removeprefix("_"), (float(value),)


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _text(parameters: dict[str, Any]) -> str:
    """Return parameters as short text: values alone where they are texts, else ``name=value``."""
    parts = []
    for name, value in parameters.items():
        is_off = value in (None, False, [], {}) and not (value is False and name in TURNED_OFF)
        if is_off or (name == "write_ahead" and value == 0):
            continue
        parts.append(value if isinstance(value, str) else f"{name}={json.dumps(value, sort_keys=True)}")
    return " ".join(parts)
