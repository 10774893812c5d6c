"""The table of any experiment: time with its spread, iterations, residual, error and bits of each contestant."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cpms.experiment.report.generic.flaws import flawed_in_words
from cpms.experiment.report.generic.words import bits_in_words, error_in_words
from cpms.experiment.report.page.case_labels import case_labels

ERRORS = ("error", "error_l1")
"""Columns of errors; the first one of kind peers is not measured, but given."""


def results(found: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the table of observations, and its content as the text of a caption; both empty without times.

    The spread is from the lower to the upper quartile of the samples; in rows without samples, it is from the least to
    the largest sample, if these are recorded.

    Parameters
    ----------
    found : DataFrame
        The result of `cpms.experiment.report.observations.observations`.

    Examples
    --------
    >>> from cpms.experiment.report.observations import observations
    >>> row = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "path", "solve_samples_s": [1.0, 2.0, 3.0]}
    >>> table, _ = results(observations([{**row, "iterations": 7}]))
    >>> table.columns.tolist(), table.values.tolist()
    (['graph', 'ms', 'from', 'to', 'iterations', 'bits'], [['path', 2000.0, 1500.0, 2500.0, 7.0, 64.0]])
    """
    found = found[found.seconds > 0] if not found.empty else found
    if found.empty:
        return pd.DataFrame(), ""
    ends, spread = _spread(found)
    cases = list(dict.fromkeys(zip(found.label, found.problem, strict=True)))
    by_case = dict(zip(cases, case_labels(cases), strict=True))
    several = len(set(found.called)) > 1
    columns = {
        "graph": pd.Series([by_case[each] for each in zip(found.label, found.problem, strict=True)]),
        **({"contestant": found.called} if several else {}),
        "ms": 1e3 * found.seconds,
        **ends,
        "iterations": found.iterations,
        "residual": found.residual,
        "error": found.error.where(found.error_name.isin(ERRORS) & (found.kind != "peers")),
        "bits": found.bits,
    }
    held = {name: list(values) for name, values in columns.items() if values.notna().any()}
    parts = [f"median time{spread}", *(name for name in ("iterations", "residual") if name in held)]
    if "error" in held:
        parts.append(error_in_words(found[found.error_name.isin(ERRORS)]).replace(", ", " in the "))
    bits = f" and the mean of the bits {bits_in_words(found)}" if "bits" in held else ""
    flaws = flawed_in_words("times not to be compared", found, found.flaw != "")
    return pd.DataFrame(held), f"{', '.join(parts)}{bits}{flaws}"


def _spread(found: pd.DataFrame) -> tuple[dict[str, pd.Series[float]], str]:
    """Return the columns of the spread, and their name in a caption."""
    if (found.samples.map(len) > 1).any():
        ends = (found.samples.map(lambda samples, q=q: 1e3 * np.quantile(samples, q)) for q in (0.25, 0.75))
        return dict(zip(("from", "to"), ends, strict=True)), ", from the lower to the upper quartile"
    if (found.least < found.most).any():
        return {"from": 1e3 * found.least, "to": 1e3 * found.most}, ", from the least to the most of the samples"
    return {}, ""
