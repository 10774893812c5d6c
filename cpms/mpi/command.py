"""The command ``python -m cpms.mpi``: options, what ranks compare of them, one solve, and its report on rank 0."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from cpms import engines
from cpms.analysis.rankings import top_k
from cpms.api.request import METHODS, requested_storage, resolved_layout
from cpms.backends.mpi.exchange import agreement, world
from cpms.backends.mpi.shares import reading
from cpms.backends.mpi.shares.rows import GraphRows
from cpms.backends.mpi.sweeps.local_product import layout_there
from cpms.base import plugins
from cpms.base.atomic_files import check_writable, replacing
from cpms.base.errors import InputError, UnavailableError
from cpms.base.text.terminal import note, say, say_json
from cpms.base.validation import at_least, finite, shown
from cpms.certify.roundoff import error_bound
from cpms.contracts.status import Status
from cpms.contracts.stopping import Stopping
from cpms.engines.mpi import LOCAL
from cpms.formats.formats import FP16, FP64, Format
from cpms.mpi.solve import Solved, solve
from cpms.problems.pagerank import Problem
from cpms.problems.personalization import dangling_named, dangling_rule, nodes_named, teleport_distribution
from cpms.sources.loading import files_of
from cpms.sources.readers.form_arguments import FORM, add_equation_options, add_form_options
from cpms.sources.readers.options import POSSIBLE


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m cpms.mpi",
        description="Compute PageRank of a graph over MPI ranks, each of which reads and holds its own share.",
        epilog="example: mpiexec -n 2 python -m cpms.mpi uniform:scale=20,edge_factor=8 --top 5",
    )
    parser.add_argument("graph", metavar="GRAPH", help="edge list, .npz, or uniform:nodes=N,edges=M")
    parser.add_argument("--whole", action="store_true", help="let every rank load the whole graph, in any form")
    for option in reading.OF_WHOLE:
        text = "with --whole: see 'cpms rank --help'"
        parser.add_argument(f"--{option}", choices=POSSIBLE[option], default=POSSIBLE[option][0], help=text)
    zeros, text = POSSIBLE["zero_weights"], "entries of weight 0: an error, or no edges"
    parser.add_argument("--zero-weights", choices=zeros, default=zeros[0], help=text)
    add_form_options(parser)
    parser.add_argument(
        *("--local", "--engine"),
        choices=LOCAL,
        default="cpu",
        help="the engine that multiplies a rank's rows; by cuda, vectors stay on devices",
    )
    parser.add_argument("--method", choices=METHODS, default="power", help="refine needs engine cuda")
    parser.add_argument("--storage", metavar="NAME", default="auto", help="of inner sweeps of refine (default: fp16)")
    parser.add_argument("--threads", type=int, metavar="N", help="of a rank (default: its share of the processors)")
    parser.add_argument(
        "--layout", choices=("auto", "csr", "pattern"), default="auto", help="engines without it take their first"
    )
    add_equation_options(parser)
    parser.add_argument("--top", type=int, default=10, metavar="K", help="how many of the highest ranks to list")
    parser.add_argument("--output", type=Path, metavar="FILE.npy", help="write all ranks")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="number of solves, to time them")
    parser.add_argument("--no-plugins", action="store_true", help="refuse plug-ins: run no code but that of cpms")
    return parser


def call() -> int:
    """Run this rank and return its exit code; rank 0 alone prints and writes."""
    missing, refused = world.missing(), None
    arguments = argparse.Namespace()
    try:
        arguments = parser().parse_args()
    except SystemExit as end:
        if missing or world.world().size == 1:
            raise
        refused = end
    if missing:
        raise UnavailableError(f"ranks cannot run here: {missing}")
    agreement.require_same(world.world(), _compared(arguments, refused))
    if refused:
        raise refused
    with plugins.allowed(not arguments.no_plugins, announce=note if world.world().rank == 0 else None):
        return _ranked(arguments)


def _compared(arguments: argparse.Namespace, refused: SystemExit | None) -> dict[str, Any]:
    """Return what ranks must agree in: all options but the number of threads, and how large the graph's files are."""
    if refused:
        return {"command line": "for help" if refused.code == 0 else "wrong"}
    given = {name: str(value) if isinstance(value, Path) else value for name, value in vars(arguments).items()}
    names = {"graph": "GRAPH", "local": "--engine"}
    options = {names.get(name, f"--{name.replace('_', '-')}"): given[name] for name in given if name != "threads"}
    sizes = [f"{path.stat().st_size:,} bytes" for path in files_of(arguments.graph)]
    return {"command line": "right", **options, "files of GRAPH": ", ".join(sizes) or "none"}


def _ranked(arguments: argparse.Namespace) -> int:
    communicator = world.world()
    at_least(0, "--top", arguments.top)
    at_least(1, "--repeat", arguments.repeat)
    if arguments.threads is not None:
        at_least(1, "--threads", arguments.threads)
    stopping = Stopping(arguments.tol, arguments.norm, arguments.max_iterations)
    if arguments.output and communicator.rank == 0:
        if arguments.output.suffix != ".npy":
            raise InputError(f"{arguments.output}: ranks are written as .npy; end in that")
        check_writable(arguments.output)
    began = time.perf_counter()
    rows = _rows(arguments, communicator)
    load_s = time.perf_counter() - began
    nodes = arguments.personalize
    teleport = None if nodes is None else teleport_distribution(rows, nodes_named(nodes))
    dangling = dangling_rule(rows, dangling_named(arguments.dangling))
    agreement.require_same(communicator, {"--dangling": dangling})
    problem = Problem(rows, arguments.damping, teleport, dangling)
    storage = _storage(arguments)
    layout = layout_there(engines.get_any(arguments.local), resolved_layout(rows, arguments.layout))
    solved = [
        solve(
            *(problem, rows, communicator, stopping),
            layout=layout,
            local=arguments.local,
            thread_count=arguments.threads,
            method=arguments.method,
            storage=storage,
        )
        for _ in range(arguments.repeat)
    ]
    held = communicator.allgather((rows.edges, solved[-1].matrix_bytes))
    if communicator.rank == 0:
        report = _report(arguments, rows, storage, solved, held)
        report |= {"layout": layout, "load_s": load_s}
        if arguments.output:
            with replacing(arguments.output) as temporary, temporary.open("wb") as file:
                np.save(file, solved[-1].ranks, allow_pickle=False)
        if arguments.json:
            say_json(report)
        else:
            say(*_readable(report, rows))
    communicator.Barrier()
    return 0 if solved[-1].status is Status.CONVERGED else 1


def _rows(arguments: argparse.Namespace, communicator: Any) -> GraphRows:
    """Read this rank's rows of the graph."""
    options = {option: getattr(arguments, option) for option in reading.OF_WHOLE}
    given_options = [f"--{option} {given}" for option, given in options.items() if given != POSSIBLE[option][0]]
    if given_options and not arguments.whole:
        raise InputError(f"{', '.join(given_options)}: ranks that read shares take files as they are; add --whole")
    options |= {option: getattr(arguments, option) for option in (*FORM, "zero_weights")}
    return reading.read(arguments.graph, communicator, whole=arguments.whole, **options)


def _storage(arguments: argparse.Namespace) -> Format:
    """Return the format of the residual, or fp64 of power iteration."""
    given = requested_storage(arguments.storage, arguments.method)
    if arguments.method == "refine":
        return given or FP16
    if given not in (None, FP64):
        raise InputError(f"ranks iterate in fp64, not {given.name}; --method refine stores other formats")
    return FP64


def _report(
    arguments: argparse.Namespace, rows: GraphRows, storage: Format, solved: list[Solved], held: list[tuple[int, int]]
) -> dict[str, Any]:
    last = solved[-1]
    return {
        "graph": rows.name,
        "stand_in_for": rows.stand_in_for,
        "read": None if rows.read is None else rows.read.as_dict(),
        "nodes": rows.nodes,
        "edges": sum(edges for edges, _ in held),
        "dangling": int((rows.leaving == 0).sum()),
        "method": arguments.method,
        "storage": storage.name,
        "engine": "mpi",
        "local": arguments.local,
        "ranks": len(held),
        "edges_by_rank": [edges for edges, _ in held],
        "matrix_bytes_by_rank": [nbytes for _, nbytes in held],
        "damping": arguments.damping,
        "tol": arguments.tol,
        "converged": last.status is Status.CONVERGED,
        "status": last.status.value,
        "iterations": len(last.history),
        "iterations_by_bits": dict(Counter(str(step.bits) for step in last.history)),
        "residual_l1": finite(last.residual_l1),
        "error_bound": finite(error_bound(last.residual_l1, last.residual_roundoff, arguments.damping)),
        "mass": finite(float(last.ranks.sum())),
        "solve_s": min(each.solve_s for each in solved),
        "solve_samples_s": [each.solve_s for each in solved],
        "compile_s": sum(each.compile_s for each in solved),
        "waited_samples_s": [each.waited_s for each in solved],
        "received_bytes": last.received_bytes,
        "top": [
            [rows.node_id(int(node)), finite(float(last.ranks[node]))] for node in top_k(last.ranks, arguments.top)
        ],
    }


def _readable(report: dict[str, Any], rows: GraphRows) -> list[str]:
    label = f" (stand-in for {report['stand_in_for']})" if report["stand_in_for"] else ""
    lines = [
        f"{report['graph']}{label}: {report['nodes']:,} nodes, {report['edges']:,} edges, "
        f"{report['dangling']:,} dangling",
        *([] if rows.read is None else [f"read as {rows.read.sentence()}"]),
        f"{report['ranks']} ranks with {', '.join(f'{edges:,}' for edges in report['edges_by_rank'])} edges",
        f"{report['status']}",
        f"{report['iterations']} iterations in {report['solve_s']:.3g} s, loaded in {report['load_s']:.3g} s",
    ]
    if report["error_bound"] is None:
        lines.append("the answer is no distribution, so nothing bounds its error")
    else:
        lines.append(
            f"residual {report['residual_l1']:.3g}, so the errors of all nodes' ranks sum to at most "
            f"{report['error_bound']:.3g}"
        )
    return [*lines, *(f"{node} {shown(score, 6)}" for node, score in report["top"])]
