"""What separates the fields of an edge list, where its first lines leave no doubt."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from cpms.base.errors import InputError
from cpms.base.text.counted import counted
from cpms.sources.readers.edge_lists.lines import is_decimal, sampled_fields
from cpms.sources.readers.kinds import without_compression
from cpms.sources.readers.options import DELIMITERS, ReadOptions

Rows = list[list[str]]
_SUFFIX_SAYS = {"csv": ",", "tsv": "\t"}
_CANDIDATES = ("\t", ",", None, ";")


def separator_of(lines: list[tuple[int, str]], options: ReadOptions, label: str) -> str | None:
    """Return the separator that ``options`` name, else the one that the lines themselves show.

    Tabs, commas, runs of blanks, and semicolons are tried. The one that splits every line into equally many fields is
    taken; of several, the one that leaves numbers as ids, or two or three fields, or for which the file's name stands
    (``.csv``, ``.tsv``).

    Raises
    ------
    InputError
        If none gives two fields, or several do so in different ways.
    """
    if options.delimiter != "auto":
        return options.separator
    splits = {separator: [sampled_fields(text, separator) for _, text in lines] for separator in _CANDIDATES}
    if titles := [column for column in options.columns or () if isinstance(column, str)]:
        named = {each: rows for each, rows in splits.items() if set(titles) <= set(rows[0])}
        splits = named or splits
    if options.header == "yes" and not titles:
        splits = {separator: rows[1:] or rows for separator, rows in splits.items()}
    scores = {separator: _score(rows, options) for separator, rows in splits.items()}
    best = max(scores.values())
    if best == 0:
        raise _no_separator(lines, splits, label)
    winners = _distinct([separator for separator in splits if scores[separator] == best], splits)
    for preferred in (_leaves_numbers(splits), _leaves_few_fields(splits), _suits_name(label)):
        winners = list(filter(preferred, winners)) or winners
    if winners == [None] and _has_empty_fields([text for _, text in lines]):
        winners = ["\t", None]
    if len(winners) == 1 or best < len(splits[winners[0]]):  # The reader refuses lines with other fields.
        return winners[0]
    names = [next(name for name, separator in DELIMITERS.items() if separator == winner) for winner in winners]
    raise InputError(
        f"{label}, line {lines[0][0]}: {' or '.join(names)} could separate its fields; choose one "
        f"(delimiter=…, --delimiter {' or '.join(names)})"
    )


def counted_fields(row: list[str]) -> str:
    """Return how many fields a line has, for an error.

    Examples
    --------
    >>> counted_fields(["0"]), counted_fields(["0", "1", ""])
    ('1 field', '3 fields, 1 of them empty,')
    """
    fields, empty = counted(len(row), "field"), sum(not field for field in row)
    return f"{fields}, {empty} of them empty," if empty else fields


def usual_fields(rows: Rows) -> int:
    """Return how many fields most lines of two or more have, 0 if there are none such."""
    counts = Counter(len(row) for row in rows if len(row) > 1)
    return counts.most_common(1)[0][0] if counts else 0


def _score(rows: Rows, options: ReadOptions) -> int:
    """Return how many lines a separator splits into the fields of an edge."""
    if any(isinstance(column, str) for column in options.columns or ()):
        return sum(len(row) == len(rows[0]) for row in rows)
    if options.columns:
        places = [column - 1 for column in options.columns if isinstance(column, int)] or [0, 1]
        return sum(len(row) > max(places) for row in rows)  # The reader refuses empty fields.
    usual = usual_fields(rows)
    return sum(len(row) == usual and _fits(row) for row in rows)


def _fits(row: list[str]) -> bool:
    """Return whether fields may be those of an edge: none empty that is read, no other separator at an edge of one."""
    return all(part and not {part[0], part[-1]} & {",", ";"} for part in row[: 3 if len(row) <= 3 else 2])


def _has_empty_fields(texts: list[str]) -> bool:
    """Return whether tabs leave an empty field in some lines, not in all, as aligned columns would."""
    return 0 < sum("\t\t" in text for text in texts) < len(texts)


def _distinct(separators: list[str | None], splits: dict[str | None, Rows]) -> list[str | None]:
    """Return the separators without those that split as an earlier one does."""
    found: list[str | None] = []
    for separator in separators:
        if all(splits[separator] != splits[other] for other in found):
            found.append(separator)
    return found


def _leaves_numbers(splits: dict[str | None, Rows]) -> Callable[[str | None], bool]:
    def preferred(separator: str | None) -> bool:
        rows = splits[separator][1:] or splits[separator]
        return all(len(row) > 1 and is_decimal(row[0]) and is_decimal(row[1]) for row in rows)

    return preferred


def _leaves_few_fields(splits: dict[str | None, Rows]) -> Callable[[str | None], bool]:
    return lambda separator: usual_fields(splits[separator]) in (2, 3)


def _suits_name(label: str) -> Callable[[str | None], bool]:
    found = re.search(r"\.(csv|tsv)$", without_compression(label), re.IGNORECASE)
    return lambda separator: bool(found) and separator == _SUFFIX_SAYS[found[1].lower()]  # type: ignore[index]


def _no_separator(lines: list[tuple[int, str]], splits: dict[str | None, Rows], label: str) -> InputError:
    row = max((rows[0] for rows in splits.values()), key=len)
    return InputError(
        f"{label}, line {lines[0][0]}: {counted_fields(row)} where 2 or 3 belong (source, target, perhaps weight), "
        "with blanks, tabs, commas or semicolons between them; --delimiter names another delimiter, --columns others"
    )
