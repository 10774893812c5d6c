"""Suggestions for unknown names: other spellings, synonyms of the field, and near misses.

Near misses are found by the similarity of Ratcliff and Obershelp (``difflib``), after a table of synonyms, and only
when an error is raised.
"""

from __future__ import annotations

from collections.abc import Iterable

from cpms.base.errors import InputError
from cpms.base.validation import described

_LONGEST = 40
_CUTOFF, _CUTOFF_OF_SYNONYMS = 0.6, 0.8
"""Least similarity of a suggestion; synonyms need more, since a word with a meaning is seldom a misspelled name."""
_SYNONYMS = {
    "damping": "alpha beta d c damping-factor teleport-probability",
    "tol": "tolerance eps epsilon accuracy threshold",
    "max-iterations": "max-iter maxiter niter iterations iters n-iter num-iterations",
    "storage": "format dtype precision number-format bits",
    "layout": "matrix-format sparse-format matrix",
    "engine": "backend device executor target",
    "method": "solver algorithm algo",
    "personalize": "personalization personalisation personalise seed seeds restart source nodes",
    "dangling": "sink sinks dangling-nodes",
    "top": "k topk top-k n head limit",
    "output": "out save write results-file outdir",
    "results": "rows input from",
    "trace": "history log residuals",
    "rank": "pagerank page-rank solve compute",
    "run": "bench benchmark experiment measure",
    "show": "plot figure table draw report",
    "convert": "encode decode compress",
    "inspect": "bits dump print",
    "datasets": "data graphs matrices download fetch",
    "formats": "storages types precisions",
    "engines": "backends devices solvers",
    "doctor": "info check diagnose version env",
    "fp64": "float64 double binary64 f64 real64 ieee64",
    "fp32": "float32 float single binary32 f32",
    "fp16": "float16 half binary16 f16",
    "bf16": "bfloat16 bfloat brain-float",
    "e4m3": "float8 fp8 float8-e4m3 float8-e4m3fn",
    "e5m2": "float8-e5m2 bf8",
    "cuda": "gpu nvidia cupy",
    "cpu": "numba host threads openmp omp",
    "opencl": "ocl pyopencl pocl",
    "cusparse": "cublas",
    "reduce_by_key": "thrust",
    "mpi": "mpi4py distributed",
    "serial": "sequential",
    "power": "power-iteration power-method",
    "cg": "conjugate-gradient conjugate-gradients pcg",
    "gmres": "fgmres arnoldi",
    "refine": "iterative-refinement refinement",
    "ell": "ellpack sell",
    "coo": "coordinate triplet",
    "csr": "crs compressed-rows csc",
    "pattern": "boolean binary",
}
_BY_SYNONYM: dict[str, list[str]] = {}
for _name, _words in _SYNONYMS.items():
    for _word in _words.split():
        _BY_SYNONYM.setdefault(_word, []).append(_name)


def nearest(given: object, possible: Iterable[str]) -> str | None:
    """Return the possible name that is nearest to ``given``; None if none is near.

    Examples
    --------
    >>> nearest("bfloat16", ["fp16", "bf16"]), nearest("CPMS-4", ["cpms2", "cpms4"]), nearest("tree", ["fp64"])
    ('bf16', 'cpms4', None)
    """
    if not isinstance(given, str) or len(given) > _LONGEST:
        return None
    normalised = _normalised(given)
    spelled = {_normalised(name): name for name in possible}
    squeezed = {name.replace("-", ""): name for name in spelled}
    for meant in (normalised, squeezed.get(normalised.replace("-", "")), *_BY_SYNONYM.get(normalised, ())):
        if meant and _normalised(meant) in spelled:
            return spelled[_normalised(meant)]
    import difflib

    cutoff = _CUTOFF_OF_SYNONYMS if normalised in _BY_SYNONYM else _CUTOFF
    close = difflib.get_close_matches(normalised, spelled, n=1, cutoff=cutoff)
    return spelled[close[0]] if close else None


def unknown(kind: str, given: object, possible: Iterable[str], more: str = "", *, near: str | None = None) -> str:
    """Return the error sentence for an unknown name, with the nearest name and all possible ones.

    Examples
    --------
    >>> unknown("engine", "gpu", ["cpu", "cuda"])
    "engine 'gpu' is not known; did you mean cuda? It can be one of cpu, cuda"
    """
    names = list(possible)
    near = near or nearest(given, names)
    it = f"did you mean {near}? It" if near else "it"
    return f"{kind} {described(given)} is not known; {it} can be one of {', '.join(names)}{more}"


def require_one_of(kind: str, given: object, possible: Iterable[str]) -> None:
    """Refuse all but one of some names.

    Examples
    --------
    >>> require_one_of("engine", "gpu", ["cpu", "cuda"])
    Traceback (most recent call last):
    cpms.base.errors.InputError: engine 'gpu' is not known; did you mean cuda? It can be one of cpu, cuda
    """
    names = list(possible)
    if not isinstance(given, str) or given not in names:
        raise InputError(unknown(kind, given, names))


def _normalised(name: str) -> str:
    return name.strip().removeprefix("--").lower().replace("_", "-").replace(" ", "-")
