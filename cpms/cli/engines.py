"""``cpms engines``: lists the engines and whether this machine can run them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from cpms import engines
from cpms.base.errors import InputError
from cpms.base.text.terminal import say
from cpms.base.text.terminal_table import text_table

_STORAGES = {
    "none": "segments, floats",
    "numpy": "all",
    "numba": "all (own: numba_codec)",
    "cuda": "segments, floats (others: cuda_codec)",
}
"""Storages in words, by the codec that a format of the protocol must bring."""


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "engines",
        help="list the engines",
        description="List the engines, or those given, with their methods, the storages of each, their layouts, and "
        "what this machine lacks to run them. Of segments, method refine reads the first, which must have 16 or 32 "
        "bits: cpms2 and cpms4 are possible, fp64 and cpms8 are not.",
        epilog="example: cpms engines cuda",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="engines to list (default: all)")


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    for name in arguments.names:
        engines.check_name(name)
    say(*table(arguments.names or engines.names()))
    return 0


def table(names: Sequence[str]) -> list[str]:
    """Return the lines of a table of engines: name, methods, layouts and whether they run here."""
    lines = []
    for name in names:
        try:
            engine = engines.get_any(name)
        except InputError as error:  # Of a plug-in; it hides no other engine.
            lines.append([name, "", "", "", str(error)])
            continue
        power = ", ".join(engine.stores) or _STORAGES[engine.takes_codecs]
        refine = _STORAGES[engine.residual_codecs] if "refine" in engine.methods else "-"
        lines.append([name, power, refine, ", ".join(engine.layouts), engine.missing() or "yes"])
    return text_table(["engine", "power stores", "refine reads", "layouts", "here"], lines)
