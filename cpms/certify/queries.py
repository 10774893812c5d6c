"""Certificates of a batch in the memory of its answers, one query after the other.

Answers in device memory stay there until they are certified. Each certificate costs about one product in float64; the
matrix is read once a query, where `cpms.certify.batch` on processors reads it once for 16.
"""

from __future__ import annotations

import math
from typing import Any

from cpms.certify.certificate import confirmed
from cpms.contracts.batch import Query
from cpms.contracts.recomputation import Recomputation
from cpms.contracts.status import Status
from cpms.contracts.stopping import Stopping


class QueryCertifier:
    """Recomputes G(x) - x of queries by `Recomputation.set_query`.

    Parameters
    ----------
    recomputation : Recomputation
        Of the batch's problem, whose own teleport distribution is not used.
    stopping : Stopping
    """

    def __init__(self, recomputation: Recomputation, stopping: Stopping) -> None:
        self._recomputation, self._stopping = recomputation, stopping
        self.roundoff = recomputation.roundoff
        """Bound of the rounding error of residuals in L1."""

    def certify(self, queries: list[Query], answers: list[Any], statuses: list[Status]) -> list[tuple[Status, float]]:
        """Return the certified status of each answer and its residual in L1; scale the answers to mass 1."""
        return [self._certified(*each) for each in zip(queries, answers, statuses, strict=True)]

    def _certified(self, query: Query, ranks: Any, status: Status) -> tuple[Status, float]:
        if status is Status.NON_FINITE:
            return status, math.inf
        self._recomputation.set_query(query)
        norms = self._recomputation.norms(ranks, self._stopping.norm)
        if norms is None:
            return Status.NON_FINITE, math.inf
        return confirmed(status, norms[1], self._stopping), norms[0]
