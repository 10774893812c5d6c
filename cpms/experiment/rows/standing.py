"""The standing of recorded rows: clean, of code that was not committed, of a changed configuration, or quoted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cpms.base.text.counted import counted
from cpms.experiment.rows import commits, flat, rows
from cpms.experiment.rows.changed import changed_plugins
from cpms.experiment.rows.configured import Cells, of_rows
from cpms.experiment.rows.outcome import measured
from cpms.experiment.rows.provenance import repository

_FEW = 3
"""Names of cells or graphs that a sentence holds."""
CLEAN, NOT_COMMITTED, CHANGED, QUOTED = "clean", "code not committed", "config changed", "quoted"


class Chosen(NamedTuple):
    """Rows to draw.

    Parameters
    ----------
    rows : list of dict
    note : str
        A caveat for readers of the figure; empty if there is none.
    left_out : list of str
        A sentence for each experiment with omitted rows.
    apart : list of dict
        The rows among ``rows`` that no commit explains.
    """

    rows: list[rows.Row]
    note: str
    left_out: list[str]
    apart: list[rows.Row]


class Recorded:
    """The rows of all experiments in a folder, the last one of each cell.

    Parameters
    ----------
    source : Path
    """

    def __init__(self, source: Path) -> None:
        found = [row for path in sorted(source.glob("*.jsonl")) if path.is_file() for row in rows.read(path)]
        self.rows = list({(row["experiment"], row["cell"]): row for row in found}.values())
        self.source = source
        self._cells = cache(self._cells_of)

    def of(self, experiments: Sequence[str]) -> list[rows.Row]:
        """Return the rows of some experiments, of cells that ran in a shuffled order in that of the configuration."""
        found = [row for row in self.rows if row["experiment"] in experiments]
        shuffled = {row["experiment"] for row in found if "shuffle" in row}
        for experiment in shuffled:
            cells = self._cells(experiment)
            if cells is not None:
                places = [place for place, row in enumerate(found) if row["experiment"] == experiment]
                own = sorted((found[place] for place in places), key=cells.place)
                for place, row in zip(places, own, strict=True):
                    found[place] = row
        return found

    def standing(self, row: rows.Row) -> str:
        """Return the standing of a row; a changed configuration has precedence over code that was not committed."""
        if "source" in row:
            return QUOTED
        cells = self._cells(row["experiment"])
        if cells is not None and not cells.hold(row):
            return CHANGED
        return CLEAN if committed(row) else NOT_COMMITTED

    def chosen(self, experiments: Sequence[str]) -> Chosen:
        """Return the rows of the present configurations; for an experiment without any, those of an earlier one."""
        notes, left_out = [], []
        gone: set[tuple[str, str]] = set()
        for experiment in experiments:
            own = self.of([experiment])
            present = [row for row in own if self.standing(row) != CHANGED]
            others = [row for row in own if self.standing(row) == CHANGED]
            if others and any(map(measured, present)):
                gone |= {(experiment, row["cell"]) for row in others}
                left_out.append(
                    f"left out: {counted(len(others), 'row')} of {experiment}, whose configuration has changed since"
                    f"{_named(others)}; 'cpms rows {self.source / experiment}.jsonl --prune' removes cells that it no "
                    "longer has"
                )
            elif others:
                notes.append(earlier(experiment))
        drawn = [row for row in self.of(experiments) if (row["experiment"], row["cell"]) not in gone]
        apart = [row for row in drawn if not committed(row)]
        if apart:
            notes.append(not_committed(apart, drawn))
        return Chosen(drawn, "; ".join(notes), left_out, apart)

    def counts(self, experiments: Sequence[str] | None = None) -> str:
        """Return the number of rows of each standing, of some experiments or of all.

        Examples
        --------
        >>> from cpms.base.package_data import folder
        >>> Recorded(folder("experiments") / "results").counts(["topk"])
        '12 rows: 12 clean, 0 code not committed, 0 config changed'
        """
        some = self.rows if experiments is None else self.of(experiments)
        counts = Counter(map(self.standing, some))
        without = sum("code_digest" not in row and "source" not in row for row in some)
        texts = ", ".join(f"{counts[standing]:,} {standing}" for standing in (CLEAN, NOT_COMMITTED, CHANGED))
        texts += f", {counts[QUOTED]:,} {QUOTED}" if counts[QUOTED] else ""
        digests = f"; {without:,} have no digest of their code" if without else ""
        files = Counter(file for row in some for file in changed_plugins(row))
        edited = "".join(
            f"; {counted(count, 'row')} measured before {file} was edited: 'cpms run' measures again"
            for file, count in files.items()
        )
        return f"{counted(len(some), 'row')}: {texts}{digests}{edited}"

    def unexplained(self, experiments: Sequence[str]) -> str:
        """Return the number of rows of some experiments whose code no commit has."""
        return unexplained(self.of(experiments))

    def _cells_of(self, experiment: str) -> Cells | None:
        present = of_rows(self.source, experiment)
        return None if present is None else Cells(present)


def present_rows(source: Path | str) -> tuple[list[rows.Row], list[str]]:
    """Return the rows of a file, a folder or an experiment that `Recorded.chosen` draws, and a line for each caveat.

    Raises
    ------
    InputError
        If there is no such source, or it holds no rows.
    """
    found = flat.read_rows(source)
    chosen = Recorded(flat.source_folder(source)).chosen([*dict.fromkeys(row["experiment"] for row in found)])
    drawn = {(row["experiment"], row["cell"]) for row in chosen.rows}
    kept = [row for row in found if (row["experiment"], row["cell"]) in drawn]
    return kept, [*chosen.left_out, *([chosen.note] if chosen.note else [])]


def _named(others: Sequence[rows.Row]) -> str:
    """Return the graphs of rows, or of few rows the names of their cells."""
    if len(others) <= _FEW:
        return ": " + ", ".join(repr(row["cell"]) for row in others)
    graphs = list(dict.fromkeys(str(row["graph"]) for row in others if row.get("graph")))
    more = f" and {len(graphs) - _FEW} more" if len(graphs) > _FEW else ""
    return f": on {', '.join(graphs[:_FEW])}{more}" if graphs else ""


def committed(row: rows.Row) -> bool:
    """Return whether a commit has the code of a row, by digest or by the row itself; quoted rows count."""
    return "source" in row or commit_of(row) is not None


def commit_of(row: rows.Row) -> str | None:
    """Return the commit that has the code of a row; None if no commit is known to.

    The digest of the code proves it. A copy of the repository may have a stale Git state, so the commit that the row
    names counts only where no commit at hand has that digest, and only if the code did not differ from it.

    Examples
    --------
    >>> commit_of({"git_commit": "0123456789", "git_dirty": False}), commit_of({"git_commit": "01", "git_dirty": True})
    ('0123456789', None)
    """
    digest, named = row.get("code_digest"), row.get("git_commit")
    proven = commits.by_digest(repository()).get(digest) if isinstance(digest, str) else None
    return proven or (str(named) if named and row.get("git_dirty") is False else None)


def commit_text(row: rows.Row) -> str:
    """Return the commit of a row for a caption; where no commit has its code, the one it was changed from.

    Examples
    --------
    >>> commit_text({"git_commit": "0123456789ab", "git_dirty": True}), commit_text({})
    ('0123456789 with changes', 'unknown')
    """
    found = commit_of(row)
    if found is not None:
        return found[:10]
    return f"{row['git_commit'][:10]} with changes" if row.get("git_commit") else "unknown"


def unexplained(some: Sequence[rows.Row]) -> str:
    """Return the number of rows whose code no commit has, and their experiments.

    Examples
    --------
    >>> unexplained([{"experiment": "mine", "git_commit": None}, {"git_commit": "01", "git_dirty": False}])
    'rows no commit explains: 1 of 2 (1 of mine)'
    """
    counts = Counter(row["experiment"] for row in some if not committed(row))
    named = ", ".join(f"{count} of {name}" for name, count in sorted(counts.items()))
    return f"rows no commit explains: {counts.total()} of {len(some)}" + (f" ({named})" if named else "")


def earlier(experiment: str) -> str:
    """Return the caveat on an experiment all of whose rows are of an earlier configuration."""
    return f"rows of {experiment} are of an earlier configuration"


def not_committed(apart: Sequence[rows.Row], drawn: Sequence[rows.Row]) -> str:
    """Return the caveat on rows that no commit explains; empty where there are none.

    Examples
    --------
    >>> not_committed([{}], [{}, {}])
    '1 of 2 rows by code that was not committed'
    """
    return f"{len(apart)} of {counted(len(drawn), 'row')} by code that was not committed" if apart else ""
