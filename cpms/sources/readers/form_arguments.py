"""Options that commands share: the form of an edge list, and the equation of PageRank with its stopping criteria."""

from __future__ import annotations

import argparse
from typing import Any, get_args

from cpms.base.types import DANGLING_RULES, Norm
from cpms.sources.readers.options import DELIMITERS, POSSIBLE

FORM = ("columns", "header", "comments", "delimiter")
"""Options of `cpms.load` for edge lists."""


class _StoreMark(argparse.Action):
    """Keeps a comment mark; argparse takes ``--`` out of ``--comments=--`` before it gets here."""

    def __call__(self, _parser: Any, namespace: argparse.Namespace, values: Any, _option: str | None = None) -> None:
        setattr(namespace, self.dest, values or "--")


class _Suggested(tuple[str, ...]):
    """Values that a shell completes; any other text is possible."""

    __slots__ = ()

    def __contains__(self, _value: object) -> bool:
        return True


def add_equation_options(parser: argparse.ArgumentParser) -> None:
    """Add damping, stopping criteria and distributions; see `nodes_named` and `dangling_named` in `cpms.problems`."""
    parser.add_argument("--damping", type=float, default=0.85, help="share of rank that follows edges (0.85)")
    parser.add_argument("--tol", type=float, default=1e-10, help="a solve stops when the change is below this (1e-10)")
    parser.add_argument("--norm", choices=get_args(Norm), default="l1", help="norm of the change (l1)")
    parser.add_argument("--max-iterations", type=int, default=1000, metavar="N", help="most iterations (1000)")
    parser.add_argument(
        "--personalize", metavar="NODE[,NODE…]", help="teleport to these nodes only, quotes around one that has commas"
    )
    parser.add_argument(
        "--dangling",
        metavar="RULE|NODE[,NODE…]|FILE.npy",
        choices=_Suggested(DANGLING_RULES),
        default="teleport",
        help="where rank of nodes without out-edges goes: as teleport does (default), to all nodes (uniform), to these "
        "nodes, or by weights, one a node",
    )


def add_form_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `FORM` to a parser, as a group of their own."""
    group = parser.add_argument_group(
        "form of an edge list",
        "By default the first lines show the form of a list. A list that can be understood in more than one way is "
        "refused, and the error names the option that settles it.",
    )
    group.add_argument(
        "--columns",
        metavar="SOURCE,TARGET[,WEIGHT]",
        help="columns by title or by number from 1 (default: 1,2, and 3 as weights)",
    )
    group.add_argument(
        "--header",
        choices=("yes", "no", "auto"),
        default=POSSIBLE["header"][0],
        help="whether the first line holds titles; by default it does if no number is in it and numbers are below it, "
        "or for known pairs such as follower,followee",
    )
    group.add_argument(
        "--comments",
        action=_StoreMark,
        metavar="MARK",
        default="auto",
        help="mark with which comment lines begin, or none (default: #, %% and //, unless such a line may be an edge)",
    )
    group.add_argument(
        "--delimiter",
        metavar="NAME",
        default="auto",
        help=f"what separates fields: {', '.join(DELIMITERS)} (any run of blanks and tabs: space), or a character",
    )
