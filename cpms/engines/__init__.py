"""Engines by name: combinations of a backend's parts, and the registry that finds them.

A module here defines one engine as ``ENGINE``, or several that share a class as ``ENGINES``.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Literal

from cpms.base import plugins
from cpms.base.errors import InputError, UnavailableError
from cpms.base.text.suggestions import unknown
from cpms.contracts.engine import Engine
from cpms.formats.formats import FP64, Format
from cpms.problems.pagerank import Problem

_HOMES = {
    "coo_basic": "coo",
    "coo_streams": "coo",
    "cpu": "cpu",
    "cpu_composed": "composed",
    "cuda": "cuda",
    "cuda_balanced_rows": "cuda",
    "cuda_composed": "composed",
    "cuda_fused": "cuda_fused",
    "cuda_thread_rows": "cuda",
    "cusparse": "cusparse",
    "cusparse_composed": "composed",
    "cusparse_omega": "cusparse_omega",
    "mpi": "mpi",
    "mpi_cuda": "mpi_cuda",
    "opencl": "opencl",
    "reduce_by_key": "coo",
    "reference": "reference",
    "scipy": "scipy",
    "serial": "serial",
}
"""Each engine of the package and the module that defines it; a module loads when its engine is asked for."""
PREFERRED = ("cuda_fused", "cuda", "cpu")
"""Candidates of ``auto``, in this order: a persistent kernel, composed kernels on a GPU, and the processor."""


def names() -> list[str]:
    """Return the names of all engines, installed libraries or not.

    Examples
    --------
    >>> "cpu" in names()
    True
    """
    return sorted({*own_names(), *plugins.offered("engines")})


def own_names() -> list[str]:
    """Return the names of the package's engines."""
    return sorted({*_HOMES, *_others()})


def _others() -> list[str]:
    """Return modules of this folder outside the table: a file ``NAME.py`` with an ``ENGINE`` is an engine."""
    return [name for name in _modules(tuple(__path__)) if name not in _HOMES.values()]


@cache
def _modules(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return the public modules of folders, which are read once: each check of a configuration asks for them."""
    return tuple(module.name for module in iter_modules(folders) if not module.name.startswith("_"))


def get(name: str) -> Engine:
    """Return an engine by name; ``auto`` depends on the problem, see `chosen`.

    Raises
    ------
    InputError
        If there is no engine of that name.
    UnavailableError
        If this machine cannot run it.
    """
    check_name(name)
    engine = get_any(name)
    missing = engine.missing()
    if missing:
        raise UnavailableError(f"engine {name} cannot run here: {missing}")
    return engine


def check_name(name: str) -> None:
    """Raise `InputError` if there is no engine of that name; it names the nearest."""
    is_known = isinstance(name, str) and (name in _HOMES or name in names() or plugins.is_named("engines", name))
    if not is_known:
        raise InputError(unknown("engine", name, names(), ", or auto for solves"))


def get_any(name: str) -> Engine:
    """Return an engine by name, whether this machine can run it or not."""
    plugin: Engine | None = None if name in _HOMES else plugins.load("engines", name, Engine)
    if plugin is not None:
        return plugin
    module = import_module(f"cpms.engines.{_HOMES.get(name, name)}")
    several: tuple[Engine, ...] = getattr(module, "ENGINES", None) or (module.ENGINE,)
    return next(engine for engine in several if engine.name == name)


def finds_device() -> bool:
    """Return whether the preferred engine can run here; without a GPU nothing of it is loaded to find out."""
    return _may_run(PREFERRED[0]) and not get_any(PREFERRED[0]).missing()


def _may_run(name: str) -> bool:
    """Return whether an engine for GPUs is loaded already, or there is a GPU."""
    is_loaded = f"{__name__}.{_HOMES[name]}" in sys.modules
    return is_loaded or not import_module("cpms.backends.cuda.runtime.availability").missing()


def chosen(
    name: str,
    problem: Problem,
    work: Literal["power", "refine", "batch"],
    *,
    storage: Format = FP64,
    layout: str = "pattern",
) -> Engine:
    """Return an engine by name; ``auto`` is the first of `PREFERRED` that can do this work here.

    That is a CUDA engine if there is a device, the engine has the method in this storage and layout, and the graph fits
    into device memory; else ``cpu``.

    Parameters
    ----------
    name : str
    problem : Problem
    work : {"power", "refine", "batch"}
        A method, or many queries at once.
    storage, layout
        Of the iterate and the matrix in ``power``. In ``refine``, ``storage`` is the format of the residual. The matrix
        of ``refine`` and ``batch`` is that of power iteration in fp64, in layout pattern, or csr with weights.

    Raises
    ------
    InputError
        If there is no engine of that name.
    UnavailableError
        If this machine cannot run it.

    Examples
    --------
    >>> from cpms import CPMS2, Graph
    >>> chosen("auto", Problem(Graph.from_edges([0], [1])), "power", storage=CPMS2, layout="csr").name in PREFERRED
    True
    """
    if not isinstance(name, str) or name != "auto":
        return get(name)
    residual = storage if work == "refine" else FP64
    if work != "power":
        storage, layout = FP64, "pattern" if problem.graph.weights is None else "csr"
    for preferred in filter(_may_run, PREFERRED[:-1]):
        engine = get_any(preferred)
        able = engine.supports(work) and not engine.refuses_weights(problem, work) and not engine.missing()
        if able and not (engine.refuses_residual(residual) or engine.unsupported(problem, storage, layout)):
            return engine
    return get(PREFERRED[-1])
