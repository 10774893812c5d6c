"""The outcome of a cell, or of a contestant within a cell: measured, or a status with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cpms.base.errors import UnavailableError, UnsupportedError
from cpms.base.text.counted import counted

OK = "ok"
FAILURES = (UnsupportedError, UnavailableError, MemoryError)
"""Errors that are recorded as an outcome; the experiment continues."""
BAD_INPUT = "bad input"
"""The status of cells whose graph is missing or invalid."""
_MAX_REASONS = 3
"""The largest number of reasons in a message."""
_PASSING = ("unavailable", "out of memory", BAD_INPUT)
"""Outcomes that another machine, or this one later, may not have."""


def failure(error: Exception) -> dict[str, str]:
    """Return ``status`` and ``reason`` of one of `FAILURES`.

    Examples
    --------
    >>> failure(MemoryError())
    {'status': 'out of memory', 'reason': 'out of memory'}
    """
    if isinstance(error, MemoryError):
        return {"status": "out of memory", "reason": str(error) or "out of memory"}
    return {"status": "unavailable" if isinstance(error, UnavailableError) else "unsupported", "reason": str(error)}


def measured(row: dict[str, Any]) -> bool:
    """Return whether a row has measurements, of one contestant at least.

    Examples
    --------
    >>> measured({"status": "ok", "results": [{"status": "unsupported", "reason": "no"}]})
    False
    """
    return row.get("status") == OK and any(_took_part(result) for result in row.get("results", [{}]))


def why_not(row: dict[str, Any]) -> dict[str, str]:
    """Return ``status`` and ``reason`` of a row without measurements; a temporary status has precedence.

    Examples
    --------
    >>> missing = {"status": "unavailable", "reason": "no GPU"}
    >>> why_not({"status": "ok", "results": [{"status": "unsupported", "reason": "no"}, missing]})
    {'status': 'unavailable', 'reason': 'no GPU'}
    """
    failures = (
        [row] if row.get("status") != OK else [result for result in row.get("results", []) if not _took_part(result)]
    )
    failures += [{"reason": reason} for reason in row.get("refused", {}).values()]
    failures.sort(key=lambda each: each.get("status") not in _PASSING)
    first = failures[0] if failures else {}
    return {"status": str(first.get("status", "unsupported")), "reason": str(first.get("reason", "no reason is given"))}


def may_pass(row: dict[str, Any]) -> bool:
    """Return whether a row has no measurements for a reason that may be temporary."""
    return not measured(row) and why_not(row)["status"] in _PASSING


def summary(found: list[dict[str, Any]]) -> str:
    """Return the number of rows of each outcome, with some of the reasons.

    Examples
    --------
    >>> summary([{"status": "unsupported", "reason": "no layout 'ell'"}, {"status": "ok"}, {"status": "ok"}])
    "2 ok, 1 unsupported (no layout 'ell')"
    """
    failures = [why_not(row) for row in found if not measured(row)]
    texts = [f"{len(found) - len(failures)} {OK}"] if len(failures) < len(found) else []
    for status in dict.fromkeys(each["status"] for each in failures):
        reasons = [each["reason"] for each in failures if each["status"] == status]
        texts.append(f"{len(reasons)} {status} ({some(reasons)})")
    return ", ".join(texts)


def some(reasons: list[str]) -> str:
    """Return the first of different reasons, and the number of the others.

    Examples
    --------
    >>> some(["no GPU.", "no GPU.", "no MPI"]), some(list("abcde"))
    ('no GPU; no MPI', 'a; b; c; and 2 other reasons')
    """
    different = list(dict.fromkeys(reason.rstrip(".") for reason in reasons))
    others = len(different) - _MAX_REASONS
    listed = [*different[:_MAX_REASONS], f"and {counted(others, 'other reason')}"]
    return "; ".join(listed if others > 0 else different)


def tried(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return ``status`` "ok" with the measurements, or the status and reason of their failure."""
    try:
        return {"status": OK, **measure()}
    except FAILURES as error:
        return failure(error)


def _took_part(result: dict[str, Any]) -> bool:
    return bool(result.get("status", OK) == OK)
