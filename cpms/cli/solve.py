"""``cpms solve``: read a matrix and a right-hand side, solve, report the certificate."""

from __future__ import annotations

import argparse
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from cpms.base import plugins
from cpms.base.atomic_files import check_writable, refuse_replacing, replacing
from cpms.base.errors import InputError
from cpms.base.text.iterations import iterations_shown
from cpms.base.text.tables import write_csv
from cpms.base.text.terminal import say, say_json
from cpms.base.validation import finite, shortened, shown


class _Methods(tuple[str, ...]):
    """Names of methods, which has those of plug-ins, too."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and plugins.is_named("solvers", name))


_METHODS = _Methods(("auto", "cg", "gmres", "jacobi", "chebyshev", "refine"))

_PASSED_ON = (
    *("tol", "max_iterations", "method", "storage", "engine", "layout", "read", "preconditioner"),
    *("preconditioner_storage", "block", "inner", "restart", "smallest_eigenvalue"),
)
"""Arguments that `cpms.solve` takes by the same name."""


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "solve",
        help="solve a linear system with a certified answer",
        description="Solve A x = b with few bits in most of the work, and certify b - A x in twice the precision of "
        "float64.",
        epilog="example: cpms solve stencil:points=7,side=32 --tol 1e-12",
    )
    parser.add_argument(
        "matrix",
        metavar="MATRIX",
        help="Matrix Market file, .npz of SciPy, or a generator such as stencil:points=7,side=32 (see docs/solve.md)",
    )
    parser.add_argument(
        "rhs", metavar="RHS", nargs="?", help="one number a line, .npy, or Matrix Market (default: ones)"
    )
    parser.add_argument(
        "--method",
        choices=_METHODS,
        default="auto",
        help="also file.py:function; auto, the default, chooses by the matrix",
    )
    parser.add_argument(
        "--storage", default="auto", metavar="NAME", help="format of the matrix; see 'cpms formats' (default: auto)"
    )
    parser.add_argument(
        "--vectors",
        default="auto",
        metavar="NAME[,NAME…]",
        help="formats of the vectors, fewest bits first; bytes and blocks are for gmres (default: auto)",
    )
    parser.add_argument(
        "--preconditioner",
        choices=("jacobi", "block_jacobi", "chebyshev"),
        help="of cg and gmres (default: none, or jacobi where auto chooses it)",
    )
    parser.add_argument(
        "--preconditioner-storage",
        default="auto",
        metavar="NAME",
        help="format of what the preconditioner reads (auto: as many bits as it needs)",
    )
    parser.add_argument("--block", type=int, default=8, metavar="ROWS", help="rows of a block of block_jacobi (8)")
    parser.add_argument("--inner", choices=_METHODS, default="auto", help="method inside refine (default: auto)")
    parser.add_argument("--restart", type=int, default=100, metavar="N", help="basis vectors of a cycle of gmres (100)")
    parser.add_argument("--layout", default="auto", metavar="NAME", help="csr, ell, sell, coo (default: auto)")
    parser.add_argument("--read", type=int, metavar="N", help="segments of the matrix's values that iterations read")
    parser.add_argument(
        "--engine", default="auto", metavar="NAME", help="cpu, cuda, cusparse, reference (default: auto)"
    )
    parser.add_argument(
        "--start", type=Path, metavar="FILE", help="x to begin at, as RHS, such as what --output wrote (default: zeros)"
    )
    parser.add_argument(
        "--smallest-eigenvalue",
        type=float,
        metavar="X",
        help="positive lower bound of the eigenvalues of a symmetric matrix, for a bound of the error",
    )
    parser.add_argument("--tol", type=float, default=1e-10, help="most certified ||b - A x|| over ||b|| (1e-10)")
    parser.add_argument(
        "--max-iterations",
        type=int,
        metavar="N",
        help="most iterations (10 n, from 1,000 to 100,000)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE.npy", help="write x")
    parser.add_argument("--trace", type=Path, metavar="FILE.csv", help="write residual, bits and bytes an iteration")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def call(arguments: argparse.Namespace) -> int:
    """Run the command; return 0 if the answer is certified, else 1."""
    from cpms.api.given_matrix import given_matrix
    from cpms.api.linear.solve import solve
    from cpms.sources import matrices

    for option, path, ending in (("--output", arguments.output, ".npy"), ("--trace", arguments.trace, ".csv")):
        if path is not None:
            if path.suffix != ending:
                raise InputError(f"{path}: {option} writes {ending}; end in that")
            check_writable(path)
            refuse_replacing(path, option, filter(None, (arguments.matrix, arguments.rhs, arguments.start)))
    is_name = matrices.is_name(arguments.matrix) or (":" in arguments.matrix and not Path(arguments.matrix).exists())
    matrix = given_matrix(matrices.generate(arguments.matrix) if is_name else Path(arguments.matrix), None)
    b = np.ones(matrix.rows) if arguments.rhs is None else _vector(Path(arguments.rhs))
    vectors = arguments.vectors.split(",") if "," in arguments.vectors else arguments.vectors
    with iterations_shown(arguments.tol) as on_step:
        found = solve(
            matrix,
            b,
            x0=None if arguments.start is None else _vector(arguments.start),
            vectors=vectors,
            on_step=on_step,
            **{name: getattr(arguments, name) for name in _PASSED_ON},
        )
    if arguments.output is not None:
        with replacing(arguments.output) as temporary, temporary.open("wb") as file:
            np.save(file, found.x, allow_pickle=False)
    if arguments.trace is not None:
        with replacing(arguments.trace) as temporary:
            write_csv(found.trace(), temporary)
    report = summary(arguments.matrix, found)
    if arguments.json:
        say_json(report)
    else:
        say(*_readable(report))
    return 0 if found.converged else 1


def summary(name: str, found: Any) -> dict[str, Any]:
    """Return the object that ``--json`` prints."""
    certificate = found.certificate
    return {
        "matrix": name,
        "unknowns": len(found.x),
        "method": found.method,
        "storage": found.storage,
        "vectors": list(found.vectors),
        "preconditioner": found.preconditioner,
        "preconditioner_storage": found.preconditioner_storage,
        "engine": found.engine,
        "reason": found.reason,
        "tol": found.tol,
        "converged": found.converged,
        "status": found.status.value,
        "residual": finite(found.residual),
        "residual_of": certificate.of,
        "normwise_backward_error": finite(certificate.normwise_backward_error),
        "componentwise_backward_error": finite(certificate.componentwise_backward_error),
        "error_bound": None if found.error_bound is None else finite(found.error_bound),
        "error_estimate": None if found.error_estimate is None else finite(found.error_estimate),
        "iterations": found.iterations,
        "iterations_by_bits": found.iterations_by_bits,
        "bytes_read": found.bytes_read,
        "prepare_s": found.prepare_s,
        "solve_s": found.solve_s,
        "certify_s": found.certify_s,
        "compile_s": found.compile_s,
    }


def _readable(report: dict[str, Any]) -> list[str]:
    bits = ", ".join(f"{count} at {bits} bits" for bits, count in report["iterations_by_bits"].items())
    preconditioner = (
        f", preconditioner {report['preconditioner']} in {report['preconditioner_storage']}"
        if report["preconditioner"]
        else ""
    )
    error = report["error_bound"]
    bound = "" if error is None else f"; error of x at most {shown(error)} in the 2-norm"
    return [
        f"{shortened(report['matrix'])}: {report['unknowns']:,} unknowns, {report['method']} on {report['engine']}, "
        f"matrix in {report['storage']}{preconditioner}",
        report["status"],
        f"{report['iterations']} iterations ({bits or 'none'}), {report['bytes_read']:,} bytes read, "
        f"in {report['solve_s']:.3g} s; prepared in {report['prepare_s']:.3g} s, certified in "
        f"{report['certify_s']:.3g} s, compiled in {report['compile_s']:.3g} s",
        f"certified residual {shown(report['residual'])} ||b||; backward errors "
        f"{shown(report['normwise_backward_error'])} by norms, "
        f"{shown(report['componentwise_backward_error'])} by entries{bound}",
        f"chosen: {report['reason']}",
    ]


def _vector(path: Path) -> Any:
    try:
        if path.suffix == ".npy":
            found = np.load(path, allow_pickle=False)
        elif path.suffix == ".mtx" or path.name.endswith(".mtx.gz"):
            import scipy.io

            read = scipy.io.mmread(path, spmatrix=False)
            found = read.toarray() if hasattr(read, "toarray") else read
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Of a file without numbers, whose length is refused.
                found = np.loadtxt(path, ndmin=1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or shortened(str(error))}); give a file") from None
    except (EOFError, ValueError, zlib.error) as error:
        raise InputError(f"{path}: holds no vector ({shortened(str(error))}); give one number a line") from None
    if found.ndim == 2 and 1 not in found.shape:
        raise InputError(
            f"{path}: holds {found.shape[1]} columns; cpms solve takes one vector, cpms.solve several right-hand sides"
        )
    return found.reshape(-1) if 1 in found.shape else found
