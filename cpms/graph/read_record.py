"""How a file was read: the form that a reader detected, as a record beside the graph.

Readers infer delimiter, header, columns and weights of a file; reports print the record, so that wrong guesses show.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from cpms.base.text.counted import counted


@dataclass(frozen=True, kw_only=True)
class ReadRecord:
    """How the file of a graph was read.

    Parameters
    ----------
    form : str
        The kind of file, such as ``"edge list of numbers"``.
    delimiter : str, optional
        Separator of the fields of an edge list: ``"space"`` (any run of blanks and tabs), ``"tab"``, …
    columns : tuple of int, optional
        Columns of source, target and perhaps weight, from 1.
    header : tuple of str, optional
        Titles that the first line holds.
    comment_lines : int
        Comment lines above the first edge.
    skipped_lines : int
        Comment lines below the first edge.
    repeated_headers : int
        Lines below the first edge that repeat the header.
    weights : str, optional
        Source of the weights; None without weights.
    zero_weights : int
        Entries of weight 0 that were dropped.
    symmetric : {"lower", "expand"}, optional
        Treatment of a symmetric file, or of an edge list whose edges count in both directions.
    ids : {"keep", "compact"}
        Whether nodes are all ids up to the largest or those that an edge touches.

    Examples
    --------
    >>> ReadRecord(form="edge list of names", delimiter="comma", columns=(1, 2), skipped_lines=2).sentence()
    'edge list of names: comma between fields, columns 1, 2; 2 comment lines below the first edge were skipped'
    """

    form: str
    delimiter: str | None = None
    columns: tuple[int, ...] | None = None
    header: tuple[str, ...] | None = None
    comment_lines: int = 0
    skipped_lines: int = 0
    repeated_headers: int = 0
    weights: str | None = None
    zero_weights: int = 0
    symmetric: str | None = None
    ids: str = "keep"

    def as_dict(self) -> dict[str, Any]:
        """Return the record as a dictionary for JSON."""
        return asdict(self)

    def sentence(self) -> str:
        """Return the record in words, titles of the file in ASCII."""
        parts = [f"{self.delimiter} between fields"] if self.delimiter else []
        if self.columns:
            parts.append(f"columns {', '.join(self._column(number) for number in self.columns)}")
        if self.weights:
            parts.append(f"weights from {ascii(self.weights)[1:-1]}")
        if self.comment_lines:
            parts.append(counted(self.comment_lines, "comment line"))
        if self.symmetric:
            parts.append("both directions" if self.symmetric == "expand" else "the lower triangle")
        if self.ids == "compact":
            parts.append("ids compact")
        skipped = [
            f"{counted(count, what)} below the first edge {'was' if count == 1 else 'were'} skipped"
            for count, what in ((self.skipped_lines, "comment line"), (self.repeated_headers, "repeated header"))
            if count
        ]
        if self.zero_weights:
            skipped.append(f"{counted(self.zero_weights, 'entry', 'entries')} of weight 0 dropped")
        return "; ".join([f"{self.form}: {', '.join(parts)}" if parts else self.form, *skipped])

    def _column(self, number: int) -> str:
        titles = self.header or ()
        return f"{number} ({titles[number - 1]!a})" if number <= len(titles) else str(number)
