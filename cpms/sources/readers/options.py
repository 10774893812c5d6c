"""What a reader does with what it finds: one frozen record of the choices of `cpms.load`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, get_args

from cpms.base.errors import InputError
from cpms.base.text.suggestions import unknown
from cpms.base.validation import described
from cpms.graph.graph import Duplicates, SelfLoops

Symmetric = Literal["lower", "expand"]
Weights = Literal["auto", "ignore"]
Ids = Literal["keep", "compact"]
ZeroWeights = Literal["refuse", "drop"]
Header = Literal["auto", "yes", "no"]
Columns = str | Sequence[str | int] | None

POSSIBLE: dict[str, tuple[object, ...]] = {
    "symmetric": get_args(Symmetric),
    "duplicates": get_args(Duplicates),
    "self_loops": get_args(SelfLoops),
    "weights": get_args(Weights),
    "zero_weights": get_args(ZeroWeights),
    "ids": get_args(Ids),
    "header": get_args(Header),
    "progress": (False, True),
}
"""What may be chosen, what is chosen by default first."""
DELIMITERS: dict[str, str | None] = {"tab": "\t", "comma": ",", "space": None, "semicolon": ";"}
"""Delimiters by name; None stands for any run of blanks and tabs."""
_LONGEST_MARK = 8


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Choices of `cpms.load`, checked when made.

    Parameters
    ----------
    symmetric : {"lower", "expand"}
        A file that declares itself symmetric: its stored lower triangle alone, as the CPMS paper does, or both
        directions of every entry, the diagonal once. An edge list: its edges as they are, or both directions of each,
        self-loops once.
    duplicates, self_loops
        As in `cpms.Graph.from_edges`.
    weights : {"auto", "ignore"}
        Use the values of a file that has them, or its pattern alone.
    zero_weights : {"refuse", "drop"}
        Entries of weight 0: an error, or no edges.
    ids : {"keep", "compact"}
        Nodes are all ids up to the largest, or only those that an edge touches.
    columns : str or sequence of str and int, optional
        Of an edge list: the columns of source, target and perhaps weight, by title or by number from 1.
    header : {"auto", "yes", "no"}
        Of an edge list: whether its first line holds titles.
    comments : str
        Of an edge list: the mark with which comment lines begin, ``"none"``, or ``"auto"``.
    delimiter : str
        Of an edge list: ``"auto"``, ``"tab"``, ``"comma"``, ``"space"``, ``"semicolon"`` or a character.
    progress : bool
        Show a bar of a download on standard error if that is a terminal.

    Raises
    ------
    InputError
        If a choice does not exist.

    Examples
    --------
    >>> ReadOptions(duplicates="drop", columns="from,to").columns
    ('from', 'to')
    """

    symmetric: Symmetric = "lower"
    duplicates: Duplicates = "keep"
    self_loops: SelfLoops = "keep"
    weights: Weights = "auto"
    zero_weights: ZeroWeights = "refuse"
    ids: Ids = "keep"
    columns: Columns = None
    header: Header = "auto"
    comments: str = "auto"
    delimiter: str = "auto"
    progress: bool = False

    def __post_init__(self) -> None:
        for choice in fields(self):
            given, possible = getattr(self, choice.name), POSSIBLE.get(choice.name)
            if possible is not None and (not isinstance(given, str | bool) or given not in possible):
                listed = " or ".join(map(repr, possible))
                raise InputError(f"{choice.name} is {described(given)}; it can be {listed}")
        object.__setattr__(self, "columns", _checked_columns(self.columns))
        _check_mark(self.comments)
        _check_delimiter(self.delimiter)

    @classmethod
    def named(cls, given: Mapping[str, Any]) -> Self:
        """Return the choices of a table by name; `InputError` if a name is not known.

        Examples
        --------
        >>> ReadOptions.named({"ids": "compact"}).ids
        'compact'
        """
        possible = [choice.name for choice in fields(cls)]
        for name in given:
            if name not in possible:
                raise InputError(unknown("argument", name, possible))
        return cls(**given)

    @property
    def keeps_all(self) -> bool:
        """Whether every entry of the file becomes exactly one edge."""
        kept = ("symmetric", "duplicates", "self_loops", "zero_weights", "ids")
        return all(getattr(self, option) == POSSIBLE[option][0] for option in kept)

    @property
    def form(self) -> dict[str, Any]:
        """What is said of the form of an edge list, by option."""
        usual = {"columns": None, "header": "auto", "comments": "auto", "delimiter": "auto"}
        return {option: getattr(self, option) for option, default in usual.items() if getattr(self, option) != default}

    @property
    def separator(self) -> str | None:
        """What separates fields where ``delimiter`` is not auto; None stands for blanks and tabs."""
        return {**DELIMITERS, " ": None}.get(self.delimiter, self.delimiter)

    def refuse_form(self, source: str) -> None:
        """Raise `InputError` if the form of an edge list is described, since ``source`` is none."""
        if self.form:
            raise InputError(f"{source}: {', '.join(self.form)} can be chosen of edge lists alone, and this is none")


def _checked_columns(given: Any) -> tuple[str | int, ...] | None:
    """Return columns as a tuple, whole numbers as integers."""
    if given is None:
        return None
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, (str, int)) for part in parts):
        raise InputError(f"columns is {given!r}; give titles or numbers from 1, such as 'source,target' or '1,3'")
    cleaned = [part.strip() if isinstance(part, str) else part for part in parts]
    columns = tuple(int(part) if isinstance(part, str) and _is_count(part) else part for part in cleaned)
    if len(columns) not in (2, 3) or len(set(columns)) < len(columns):
        raise InputError(f"columns is {given!r}; it names source, target and perhaps weight, two or three columns")
    if any(column == "" or (isinstance(column, int) and not 1 <= column < 10**6) for column in columns):
        raise InputError(f"columns is {given!r}; columns have titles, or numbers from 1")
    return columns


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 7


def _check_mark(mark: Any) -> None:
    wrong = not isinstance(mark, str) or not mark or len(mark) > _LONGEST_MARK
    if wrong or not mark.isprintable() or any(letter in ' "' for letter in mark):
        raise InputError(
            f"comments is {mark!r}; it can be 'auto', 'none' or the mark with which comment lines begin, such as '#'"
        )


def _check_delimiter(given: Any) -> None:
    if isinstance(given, str) and (given == "auto" or given in DELIMITERS or given in ("\t", " ")):
        return
    character = isinstance(given, str) and len(given) == 1 and given.isascii() and given.isprintable()
    if not character or given.isalnum() or given in '".+-':
        raise InputError(
            f"delimiter is {given!r}; it can be 'auto', {', '.join(map(repr, DELIMITERS))} or another character "
            "that is no letter, digit, quote, point or sign"
        )
