"""What ``auto`` means to `cpms.solve`: method, storage, layout and formats of vectors, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from cpms.api.given_matrix import storage_of
from cpms.base import plugins
from cpms.base.errors import InputError, UnsupportedError
from cpms.base.text.suggestions import unknown
from cpms.base.types import Floats
from cpms.base.validation import described
from cpms.contracts.linear_solve import SolveStatus, SolveTask
from cpms.formats.block_float import BLOCK_FLOATS, BlockFloatFormat
from cpms.formats.codes import CodeFormat, ValueFormat, VectorFormat
from cpms.formats.formats import DOUBLE_BITS, FP32, FP64, FloatFormat, Format, SegmentFormat, format_of
from cpms.formats.magnitude import MagnitudeSplit
from cpms.problems.linear_system import LinearSystem
from cpms.solvers.linear.chebyshev import Spectrum
from cpms.sparse.arrangement import Layout
from cpms.sparse.lossless import lossless_storage, outer_bits
from cpms.storage.array import encode

OwnMethod: TypeAlias = Callable[[SolveTask, Any], SolveStatus]
METHODS = ("cg", "gmres", "jacobi", "chebyshev", "refine")
INNER = ("cg", "gmres", "jacobi", "chebyshev")
PRECONDITIONERS = ("jacobi", "block_jacobi", "chebyshev")
DIAGONAL = ("jacobi", "chebyshev")
"""Methods that divide by the diagonal."""
BYTES = SegmentFormat("seg8x8-nearest", (8,) * 8, None, "nearest")
"""Segments of a byte each, rounded to those that are written, for bases of GMRES whose bits follow the residual."""
BLOCKS: tuple[VectorFormat, ...] = (*BLOCK_FLOATS, BYTES)
"""Shared exponents for bases of GMRES: a basis vector is a sum of vectors in the first of these formats.

Cycles that are too long for that on a GPU take the narrowest format with enough digits, and segments above 32 bits.
"""
_DOMINANT = 0.5
"""Largest sum of a row beside the diagonal, over the diagonal, for ``jacobi``: a sweep then at least halves errors."""
_FAST = 0.8
"""Largest estimated rate of Jacobi's method for ``jacobi``: its sweeps cost far less than iterations of GMRES."""
_SLOW = 0.999
"""Largest estimated rate of Jacobi's method for ``chebyshev``, which takes about the square root of the iterations."""
_NEARLY = 0.2
"""Largest norm of A - A^T over that of A + A^T for which conjugate gradients are tried before GMRES."""
_SPREAD = 5.0
"""Least ratio of diagonal entries for Jacobi's preconditioner, which may reduce the condition number by that."""
_LEAST_BITS = 32
"""Least bits of matrix values that conjugate gradients read rounded: with fewer, a matrix may become indefinite."""
_ROUNDS = ("cg", "jacobi", "chebyshev")
"""Methods that a matrix in float32 does not slow: now and then they compute the residual with the exact matrix."""
_UNEVEN = 32
"""Largest ratio of the longest row to the mean row for layout ``sell``: rows of a slice wait for its longest one."""
_MOST_SINGLE = 60
"""Largest absolute exponent of values for which products in float32 neither overflow nor underflow."""


@dataclass(frozen=True)
class Choice:
    """A method, storage and layout of the matrix, the formats of vectors from the fewest bits on, and why.

    ``own`` is the function of a user's method. ``keeps_values`` says that the storage is known to be exact for every
    value of the matrix, and ``computes_in_single`` that the products of iterations may be computed in float32.
    """

    method: str
    storage: ValueFormat | None
    vectors: tuple[VectorFormat | None, ...]
    reason: str
    own: OwnMethod | None = None
    keeps_values: bool = False
    computes_in_single: bool = False
    layout: str | Layout = "csr"


def own_method(given: object) -> OwnMethod | None:
    """Return a user's function that solves, given by itself or as the name of a plug-in; None for any other.

    Examples
    --------
    >>> own_method("cg") is None, own_method(max) is max
    (True, True)
    """
    if callable(given) and not isinstance(given, type):
        return given
    is_text = isinstance(given, str) and given not in (*METHODS, "auto")
    return plugins.load("solvers", given, Callable) if is_text else None  # type: ignore[arg-type]


def own_name(given: str | OwnMethod) -> str:
    """Return the name of a user's method in reports.

    Examples
    --------
    >>> own_name("mine.py:landweber"), own_name(max)
    ('mine.py:landweber', 'own method max')
    """
    return given if isinstance(given, str) else f"own method {getattr(given, '__name__', type(given).__name__)}"


def require_method(given: object, known: Sequence[str], what: str = "method") -> None:
    """Refuse what is not the name of a method.

    Raises
    ------
    InputError

    Examples
    --------
    >>> require_method("cg", METHODS)
    """
    if not isinstance(given, str) or given not in known:
        raise InputError(unknown(what, given, [*known, *plugins.offered("solvers")], ", or file.py:function"))


def require_inner(given: object, is_preconditioned: bool) -> None:
    """Refuse what is not the name of a method inside ``refine``, or one that does not apply the given preconditioner.

    Raises
    ------
    InputError

    Examples
    --------
    >>> require_inner("cg", True)
    """
    require_method(given, (*INNER, "auto"), "inner method")
    _refuse_preconditioner(given, is_preconditioned, "inner")


def _refuse_preconditioner(method: object, is_preconditioned: bool, what: str) -> None:
    if is_preconditioned and method in DIAGONAL:
        raise InputError(
            f"{what}={method!r} takes no preconditioner: it divides by the diagonal; leave the preconditioner out, or "
            f"give {what}='cg', 'gmres' or 'auto'"
        )


def checked_method(own: OwnMethod) -> OwnMethod:
    """Return a user's function as a method; its errors, and answers that are no status, are reported with its name.

    So is an x of another shape or type, of which compiled loops would read memory that is not its own.
    """

    def method(task: SolveTask, x: Any) -> SolveStatus:
        shape, dtype = x.shape, x.dtype
        with plugins.running(own):
            status = own(task, x)
        if x.shape != shape or x.dtype != dtype:
            raise InputError(
                f"{plugins.described_plugin(own)} made x an array of shape {x.shape} and type {x.dtype}; a method must "
                f"write its answer into the {shape[0]} values of type {dtype}, as x[...] = answer does"
            )
        if not isinstance(status, SolveStatus):
            raise InputError(
                f"{plugins.described_plugin(own)} returned {described(status)}; a method must return a "
                "cpms.SolveStatus, such as cpms.SolveStatus.CONVERGED"
            )
        return status

    return method


def chosen(
    system: LinearSystem,
    method: str | OwnMethod,
    storage: Any,
    vectors: Any,
    engine: str,
    layout: str | Layout = "auto",
    is_preconditioned: bool = False,
) -> Choice:
    """Return what a solve uses, resolving ``auto``, which takes a method with preconditioners if one is given.

    Raises
    ------
    InputError
        If an argument is not known, or a preconditioner is given for a method that divides by the diagonal.

    Examples
    --------
    >>> from cpms.sparse.matrix import Matrix
    >>> chosen(LinearSystem(Matrix.from_dense([[2.0, -1.0], [-1.0, 2.0]])), "auto", "auto", "auto", "cpu").method
    'cg'
    """
    own = own_method(method)
    if own is not None:
        method = own_name(method)
    else:
        require_method(method, (*METHODS, "auto"))
    assert isinstance(method, str)  # noqa: S101  # Just refused, if not.
    reasons: list[str] = []
    if method == "auto":
        method, why = _method(system, is_preconditioned)
        reasons.append(why)
    _refuse_preconditioner(method, is_preconditioned, "method")
    if own is not None and isinstance(vectors, str) and vectors == "auto":
        vectors = None
    of_vectors: list[str] = []
    formats = _vectors(method, vectors, engine, of_vectors)
    values, exact = None, True
    narrow = method in _ROUNDS and all(each is not None and each.bits() <= _LEAST_BITS for each in formats)
    if system.matrix.values is not None:
        narrow = narrow and _within_single(system.matrix.given_values())
        values, exact = _storage(system, method, storage, narrow, reasons)
    if isinstance(layout, str) and layout == "auto":
        layout = _layout(system, values, engine, reasons)
    reason = "; ".join(reasons + of_vectors) or "as asked for"
    return Choice(method, values, formats, reason, own, exact, narrow, layout)


def _method(system: LinearSystem, is_preconditioned: bool) -> tuple[str, str]:
    if system.is_symmetric and system.has_positive_diagonal:
        if not is_preconditioned and system.diagonal_spread >= _SPREAD and system.jacobi_rate <= _DOMINANT:
            return "jacobi", f"jacobi: the diagonal dominates (estimated rate {system.jacobi_rate:.2g})"
        return "cg", "cg: A is symmetric with a positive diagonal, so it may be positive definite"
    if not is_preconditioned:
        if (interval := spectrum_of(system)) and interval.most - 1.0 <= _SLOW:
            return "chebyshev", (
                "chebyshev: a diagonal similarity makes A symmetric, "
                f"with eigenvalues of D^-1 A from {interval.least:.2g}"
            )
        if system.dominance <= _DOMINANT:
            return "jacobi", f"jacobi: rows are dominated by the diagonal (ratio {system.dominance:.2g})"
        if system.jacobi_rate <= _FAST:
            return "jacobi", f"jacobi: its estimated rate is {system.jacobi_rate:.2g}"
    if not system.is_symmetric and system.has_positive_diagonal and system.asymmetry <= _NEARLY:
        return "cg", f"cg on trial: A is nearly symmetric (A - A^T is {system.asymmetry:.2g} of A + A^T)"
    why = "not symmetric" if not system.is_symmetric else "not positive definite: a diagonal entry is 0 or negative"
    return "gmres", f"gmres: A is {why}"


def is_on_trial(system: LinearSystem, method: str) -> bool:
    """Return whether a method that ``auto`` chose is conjugate gradients for a matrix that is not symmetric.

    Examples
    --------
    >>> from cpms.sparse.matrix import Matrix
    >>> is_on_trial(LinearSystem(Matrix.from_dense([[2.0, -1.0], [-1.1, 2.0]])), "cg")
    True
    """
    return method == "cg" and not system.is_symmetric


def spectrum_of(system: LinearSystem) -> Spectrum | None:
    """Return an interval that holds the eigenvalues of D^-1 A, for A that only a diagonal similarity makes symmetric.

    It follows from Gershgorin's theorem for the symmetric matrix. None is returned for other A, and where it reaches 0.

    Examples
    --------
    >>> from cpms.sparse.matrix import Matrix
    >>> spectrum_of(LinearSystem(Matrix.from_dense([[2.0, -4.0], [-0.25, 2.0]])))
    Spectrum(least=0.5, most=1.5)
    """
    if system.is_symmetric or not system.has_positive_diagonal:
        return None
    rate = system.jacobi_rate
    # The rate costs one product, and the search for a similarity many times as much.
    return Spectrum(1.0 - rate, 1.0 + rate) if 0.0 < rate < 1.0 and system.is_symmetrizable else None


def with_preconditioner(system: LinearSystem, choice: Choice) -> tuple[str | None, Choice]:
    """Return the preconditioner that ``auto`` adds to its choice of a method, and the choice with the reason."""
    spread = system.diagonal_spread
    if choice.method != "cg" or spread < _SPREAD:
        return None, choice
    why = f"preconditioner jacobi: the largest diagonal entry is {spread:.2g} times the smallest"
    return "jacobi", replace(choice, reason=f"{choice.reason}; {why}")


def _storage(
    system: LinearSystem, method: str, storage: Any, narrow: bool, reasons: list[str]
) -> tuple[ValueFormat, bool]:
    """Return the storage of the matrix, and whether it is known to be exact for each value."""
    values = system.matrix.given_values()
    if isinstance(storage, str) and storage == "auto":
        found = lossless_storage(values)
        if narrow and found.bits() > _LEAST_BITS:
            reasons.append("fp32: iterations in few bits read A in fp32, and residuals all of it")
            return FP32, False
        reasons.append(f"{found.name}: all values of A are exact in it")
        return found, True
    given = storage_of(storage, system.matrix)
    if isinstance(given, MagnitudeSplit):
        raise UnsupportedError(f"solvers store a matrix in one format, not {given.name}; give one, or lossless")
    if method == "cg" and given.bits() < _LEAST_BITS and not keeps(values, given):
        reasons.append(
            f"fp32 in place of {given.name}: rounding A to fewer than {_LEAST_BITS} bits may make it indefinite; "
            "method='refine' reads fewer"
        )
        return FP32, False
    return given, False


def _layout(system: LinearSystem, storage: ValueFormat | None, engine: str, reasons: list[str]) -> str:
    """Return csr on processors; on a GPU sell, but csr for patterns, which cannot be padded, and very uneven rows."""
    if storage is None or engine != "cuda":
        return "csr"
    longest, mean = system.matrix.longest, system.matrix.entries / max(system.size, 1)
    if longest > _UNEVEN * mean:
        reasons.append(f"csr: the longest row has {longest:,} entries, {longest / mean:.0f} times the mean")
        return "csr"
    return "sell"


def _within_single(values: Floats) -> bool:
    """Return whether all values, and products with them, are well within the range of float32."""
    tops, _ = outer_bits(values)
    return bool(np.abs(tops).max(initial=0) < _MOST_SINGLE)


def keeps(values: Any, storage: ValueFormat | None) -> bool:
    """Return whether a format that is read whole keeps each of these values.

    Examples
    --------
    >>> import numpy as np
    >>> from cpms.formats.formats import FP16
    >>> keeps(np.array([0.5, -2.0]), FP16), keeps(np.array([0.1]), FP16)
    (True, False)
    """
    if storage is None or isinstance(storage, CodeFormat | SegmentFormat):
        return True
    return isinstance(storage, FloatFormat) and bool((encode(values, storage).decode() == values).all())


def _vectors(method: str, vectors: Any, engine: str, reasons: list[str]) -> tuple[VectorFormat | None, ...]:
    if isinstance(vectors, str) and vectors == "auto":
        if engine == "reference":
            return (None,)
        if method == "gmres" and engine == "cpu":
            reasons.append(
                "basis in fp32, the fastest on processors: decoding fewer bits takes longer than reading fp32"
            )
            return (FP32,)
        if method == "gmres":
            reasons.append("basis of shared exponents: as many bits of each vector as the residual asks for")
            return BLOCKS
        reasons.append("vectors in fp32, x and residuals in fp64")
        return (FP32,)
    vectors = BLOCKS if isinstance(vectors, str) and vectors == "blocks" else vectors
    given = vectors if isinstance(vectors, tuple | list) else (vectors,)
    if not given:
        raise InputError("vectors is empty; give a format, or several from the fewest bits on")
    formats = tuple(vector_format(each, "vectors") for each in given)
    bits = [DOUBLE_BITS if each is None else each.bits() for each in formats]
    if bits != sorted(bits):
        raise InputError(f"vectors have {bits} bits; give formats from the fewest bits on")
    return formats


def vector_format(given: Any, argument: str = "storage") -> VectorFormat | None:
    """Return a format of vectors by itself or by its name; None for float64. Errors name the argument.

    Examples
    --------
    >>> vector_format("bfp16").bits(), vector_format("fp64")
    (16, None)
    """
    if given is None:
        return None
    if isinstance(given, str) and given == "bytes":
        return BYTES
    if isinstance(given, CodeFormat) or given in ("codes8", "lossless"):
        raise InputError(
            f"{argument} cannot be {described(given)}, a format of matrices alone; use fp32, bfp16 or bytes"
        )
    named = {each.name: each for each in BLOCK_FLOATS}
    if isinstance(given, BlockFloatFormat):
        return given
    if not isinstance(given, (str, Format, np.dtype, type)):
        raise InputError(f"{argument} is {described(given)}; give a format such as cpms.FP32, or the name of one")
    found: VectorFormat = named[given] if isinstance(given, str) and given in named else format_of(given)
    return None if found == FP64 else found


def preconditioner_format(given: Any) -> VectorFormat | None:
    """Return the format of a preconditioner by itself or by its name; None for ``auto``.

    Examples
    --------
    >>> preconditioner_format("fp64").name, preconditioner_format("auto")
    ('fp64', None)
    """
    if given is None or (isinstance(given, str) and given == "auto"):
        return None
    return vector_format(given, "preconditioner_storage") or FP64
