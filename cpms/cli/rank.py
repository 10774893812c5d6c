"""``cpms rank``: load a graph, solve, report."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from cpms.api.result import Result
from cpms.base.atomic_files import check_writable, refuse_replacing, replacing
from cpms.base.errors import InputError
from cpms.base.text import escape
from cpms.base.text.iterations import iterations_shown
from cpms.base.text.tables import write_csv
from cpms.base.text.terminal import say, say_json
from cpms.base.text.terminal_table import text_table
from cpms.base.validation import at_least, finite, shown
from cpms.graph.graph import Graph
from cpms.sources.readers.form_arguments import FORM, add_equation_options, add_form_options
from cpms.sources.readers.options import POSSIBLE

_LONGEST_NAME = 100
"""The longest name that is printed in full, in characters."""
_OUTPUTS = (".npy", ".csv", ".parquet")
_READ_OPTIONS = {
    "symmetric": "symmetric Matrix Market files: their lower triangle, as the paper did (default), or both directions; "
    "edge lists: as they are (default), or both directions of each edge",
    "weights": "auto: the file's values, where it has any, are weights (default); ignore: all edges count the same",
    "zero_weights": "entries of weight 0: an error (default), or no edges",
    "duplicates": "repeated edges: each counts (default), the first alone, or one with the sum of their weights",
    "self_loops": "edges from a node to itself: keep them (default), or drop them",
    "ids": "keep: all ids up to the largest are nodes (default); compact: only ids that an edge names, which may be as "
    "large as 2**63 - 1",
}
"""Options of `cpms.load` for every file; their choices are in `cpms.sources.readers.options`."""


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "rank",
        help="compute a certified PageRank",
        description="Compute PageRank, certify it in float64 and print the highest ranks.",
        epilog="example: cpms rank rmat:scale=16,edge_factor=16,seed=1 --storage cpms4 --layout csr --top 5",
    )
    parser.add_argument(
        "graph",
        metavar="GRAPH",
        help="file (Matrix Market, edge list, .npz, …), - for standard input, name ('cpms datasets'), "
        "or generator such as rmat:scale=16",
    )
    parser.add_argument(
        "--method",
        choices=("power", "refine"),
        default="power",
        help="power iteration, or refine: sweeps on the residual in few bits",
    )
    parser.add_argument(
        "--storage", default="auto", metavar="NAME", help="see 'cpms formats' (default: fp64; refine: the fastest)"
    )
    parser.add_argument(
        "--layout",
        default="auto",
        metavar="NAME",
        help="see 'cpms engines' (default: auto)",
    )
    parser.add_argument(
        "--controller",
        metavar="RULE",
        help="rule that chooses the bits. power: threshold (default, the paper's; fp64: fixed), fixed or schedule, "
        "also inside at_most, start_at or write_ahead, such as at_most:read=2,inner=(schedule:0=1,20=2); refine: "
        "adaptive_reduction (default) or fixed_reduction; or file.py:attribute",
    )
    parser.add_argument("--engine", default="auto", metavar="NAME", help="see 'cpms engines' (default: auto)")
    add_equation_options(parser)
    for option, text in _READ_OPTIONS.items():
        possible = POSSIBLE[option]
        parser.add_argument(f"--{option.replace('_', '-')}", choices=possible, default=possible[0], help=text)
    add_form_options(parser)
    parser.add_argument("--top", type=int, default=10, metavar="K", help="how many of the highest ranks to list (10)")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write all ranks: .npy, .csv or .parquet (.csv puts ' before names that spreadsheets take for formulas)",
    )
    parser.add_argument("--trace", type=Path, metavar="FILE.csv", help="write residual, bits and mass an iteration")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def call(arguments: argparse.Namespace) -> int:
    """Run the command; return 0 if the solve converged, else 1."""
    from cpms.api.given_graph import loaded_graph
    from cpms.api.pagerank import pagerank
    from cpms.contracts.stopping import Stopping
    from cpms.problems.personalization import dangling_named, nodes_named
    from cpms.sources.readers.options import ReadOptions

    _check(arguments)
    Stopping(arguments.tol, arguments.norm, arguments.max_iterations)
    began = time.perf_counter()
    options = {option: getattr(arguments, option) for option in (*_READ_OPTIONS, *FORM)}
    graph = loaded_graph(arguments.graph, arguments.engine, ReadOptions(**options, progress=sys.stderr.isatty()))
    load_s = time.perf_counter() - began
    with iterations_shown(arguments.tol) as on_step:
        result = pagerank(
            graph,
            method=arguments.method,
            storage=arguments.storage,
            layout=arguments.layout,
            engine=arguments.engine,
            controller=arguments.controller,
            damping=arguments.damping,
            tol=arguments.tol,
            norm=arguments.norm,
            max_iterations=arguments.max_iterations,
            personalization=None if arguments.personalize is None else nodes_named(arguments.personalize),
            dangling=dangling_named(arguments.dangling),
            on_step=on_step,
        )
    if arguments.output:
        write_ranks(arguments.output, result)
    if arguments.trace:
        with replacing(arguments.trace) as temporary:
            write_csv(result.trace(), temporary)
    report = summary(graph, result, load_s=load_s, top=arguments.top)
    if arguments.json:
        say_json(report)
    else:
        say(*_readable(report, graph))
    return 0 if result.converged else 1


def summary(graph: Graph, result: Result, *, load_s: float, top: int) -> dict[str, Any]:
    """Return the object that ``--json`` prints."""
    return {
        "graph": graph.name,
        "nodes": graph.nodes,
        "edges": graph.edges,
        "dangling": len(graph.dangling_nodes),
        "method": result.method,
        "storage": result.storage,
        "layout": result.layout,
        "engine": result.engine,
        "damping": result.damping,
        "tol": result.tol,
        "converged": result.converged,
        "status": result.status.value,
        "iterations": result.iterations,
        "iterations_by_bits": result.iterations_by_bits,
        "residual_l1": finite(result.residual_l1),
        "error_bound": finite(result.error_bound),
        "mass": finite(result.mass),
        "solve_s": result.solve_s,
        "load_s": load_s,
        "top": [[node, finite(score)] for node, score in result.top(top)],
        "norm": result.norm,
        "weighted": graph.weights is not None,
        "lower_triangle": graph.lower_triangle,
        "prepare_s": result.prepare_s,
        "certify_s": result.certify_s,
        "compile_s": result.compile_s,
        "read": None if graph.read is None else graph.read.as_dict(),
    }


def write_ranks(path: Path, result: Result) -> None:
    """Write all ranks, whole or not at all: ``.npy`` the vector, else columns node and rank.

    In ``.csv``, names are escaped by `cpms.base.text.escape.csv`; ``.parquet`` has them as they are.
    """
    with replacing(path) as temporary:
        if path.suffix == ".npy":
            with temporary.open("wb") as file:
                np.save(file, result.ranks, allow_pickle=False)
            return
        table = result.to_frame()
        if path.suffix == ".csv":
            write_csv(table, temporary, float_format="%.17g")
        else:
            table.to_parquet(temporary, index=False)


def _check(arguments: argparse.Namespace) -> None:
    from cpms.sources.loading import files_of

    read = [*files_of(arguments.graph), arguments.dangling]
    for option, path in (("--output", arguments.output), ("--trace", arguments.trace)):
        if path:
            refuse_replacing(path, option, read)
    at_least(0, "--top", arguments.top)
    if not 0.0 < arguments.damping < 1.0:
        raise InputError(f"damping is {arguments.damping}; it must lie strictly between 0 and 1")
    if arguments.output:
        if arguments.output.suffix not in _OUTPUTS:
            kinds = f"{', '.join(_OUTPUTS[:-1])} or {_OUTPUTS[-1]}"
            raise InputError(f"{arguments.output}: cannot write {arguments.output.suffix!r}; end in {kinds}")
        check_writable(arguments.output)
    if arguments.trace:
        if arguments.trace.suffix != ".csv":
            raise InputError(f"{arguments.trace}: a trace is written as .csv; end in that")
        check_writable(arguments.trace)
        if arguments.output and arguments.output.resolve() == arguments.trace.resolve():
            raise InputError(f"{arguments.trace}: is given for ranks and for the trace; give two file names")


def _readable(report: dict[str, Any], graph: Graph) -> list[str]:
    from cpms.graph.irregularities import irregularities

    bits = ", ".join(f"{count} at {bits} bits" for bits, count in report["iterations_by_bits"].items())
    label = f" (stand-in for {graph.stand_in_for})" if graph.stand_in_for else ""
    if report["lower_triangle"]:
        label += " (the lower triangle of a symmetric file; --symmetric expand reads both directions of such a file)"
    lines = [
        f"{_short(report['graph'])}{label}: {report['nodes']:,} nodes, {report['edges']:,} edges, "
        f"{report['dangling']:,} dangling{', weighted' if report['weighted'] else ''}",
        *([] if graph.read is None else [f"read as {graph.read.sentence()}", *filter(None, [irregularities(graph)])]),
        f"{report['status']}",
        f"{report['iterations']} iterations ({bits}) in {report['solve_s']:.3g} s; loaded in {report['load_s']:.3g} s, "
        f"prepared in {report['prepare_s']:.3g} s, certified in {report['certify_s']:.3g} s, "
        f"compiled in {report['compile_s']:.3g} s",
        f"residual {shown(report['residual_l1'])} in L1, "
        f"so the errors of all ranks sum to at most {shown(report['error_bound'])}",
    ]
    if report["top"]:
        ranks = [[place, _short(node), shown(score, 6)] for place, (node, score) in enumerate(report["top"], 1)]
        lines += ["", *text_table(["place", "node", "rank"], ranks)]
    return lines


def _short(node: int | str) -> int | str:
    """Return a name short enough for a line; ``--json`` and ``--output`` have names in full."""
    return escape.abbreviate(node, _LONGEST_NAME) if isinstance(node, str) else node
