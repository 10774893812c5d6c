"""Names of generated graphs and matrices in tables for people: short as in figures, where files of data have all."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from cpms.experiment.report.page.case_labels import graph_labels

if TYPE_CHECKING:
    import pandas as pd

_SPECIFICATION = re.compile(r"\b[a-z][\w-]*:\w+=\S*[^\s,]")
"""A generator with parameters; a comma behind it belongs to the text."""


def shorter(table: pd.DataFrame) -> Callable[[str], str]:
    """Return a function that replaces specifications of generators in a table's cells and heads by short names.

    Those whose short names are alike have a parameter that distinguishes them, or remain; so does one that is
    shorter than its name in words.

    Examples
    --------
    >>> import pandas as pd
    >>> in_words = shorter(pd.DataFrame({"matrix": ["stencil:points=5,side=90", "rmat:scale=20,seed=1", "wiki-Vote"]}))
    >>> in_words("stencil:points=5,side=90, ms"), in_words("wiki-Vote")
    ('5-point 90, ms', 'wiki-Vote')
    """
    texts = [str(column) for column in table.columns]
    texts += [value for place in range(table.shape[1]) for value in table.iloc[:, place] if isinstance(value, str)]
    found = list(dict.fromkeys(spec for text in texts for spec in _SPECIFICATION.findall(text)))
    labels = graph_labels(found).items()
    short = {str(spec): label for spec, label in labels if label not in texts and len(label) <= len(str(spec))}
    return lambda text: _SPECIFICATION.sub(lambda match: short.get(match[0], match[0]), text)


def with_short_names(table: pd.DataFrame, in_words: Callable[[str], str]) -> pd.DataFrame:
    """Return a table with the texts of its cells and heads in other words."""
    made = table.copy(deep=False)
    for place, dtype in enumerate(table.dtypes):
        if dtype.kind not in "biufc":
            made.isetitem(
                place, [in_words(value) if isinstance(value, str) else value for value in table.iloc[:, place]]
            )
    made.columns = [in_words(str(column)) for column in table.columns]
    return made
