"""What a reader does with what it finds: one frozen record of the choices of `cpms.load`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from cpms.errors import InputError
from cpms.graph import Duplicates, SelfLoops
from cpms.scalars import described

Symmetric = Literal["lower", "expand"]
Weights = Literal["auto", "ignore"]
Ids = Literal["keep", "compact"]

POSSIBLE: dict[str, tuple[object, ...]] = {
    "symmetric": get_args(Symmetric),
    "duplicates": get_args(Duplicates),
    "self_loops": get_args(SelfLoops),
    "weights": get_args(Weights),
    "ids": get_args(Ids),
    "progress": (False, True),
}
"""What may be chosen, what is chosen by default first."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Choices of `cpms.load`, checked when made.

    Parameters
    ----------
    symmetric : {"lower", "expand"}
        A file that declares itself symmetric: its stored lower triangle alone, as the CPMS paper
        does, or both directions of every entry, the diagonal once.
    duplicates, self_loops
        As in `cpms.Graph.from_edges`.
    weights : {"auto", "ignore"}
        Use the values of a file that has them, or its pattern alone.
    ids : {"keep", "compact"}
        Nodes are all ids up to the largest, or only those that an edge touches.
    progress : bool
        Show a progress bar on standard error if that is a terminal.

    Raises
    ------
    InputError
        If a choice does not exist.

    Examples
    --------
    >>> ReadOptions(duplicates="drop").symmetric
    'lower'
    """

    symmetric: Symmetric = "lower"
    duplicates: Duplicates = "keep"
    self_loops: SelfLoops = "keep"
    weights: Weights = "auto"
    ids: Ids = "keep"
    progress: bool = False

    def __post_init__(self) -> None:
        for choice in fields(self):
            given, possible = getattr(self, choice.name), POSSIBLE[choice.name]
            if not isinstance(given, str | bool) or given not in possible:
                listed = " or ".join(map(repr, possible))
                raise InputError(f"{choice.name} is {described(given)}; it can be {listed}")

    @property
    def keeps_all(self) -> bool:
        """Whether every entry of the file becomes exactly one edge."""
        return (self.symmetric, self.duplicates, self.self_loops, self.ids) == (
            "lower",
            "keep",
            "keep",
            "keep",
        )
