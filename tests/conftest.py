"""Hypothesis profiles, chosen with ``--hypothesis-profile``; the folder of real graphs; where CUDA kernels run."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import kernel_catalogue
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from cpms import Format, Graph, format_named
from cpms.backends.cuda import device_engine
from cpms.backends.cuda.kernels import source, template
from cpms.backends.cuda.kernels.template import Variant
from cpms.backends.cuda.runtime import current
from cpms.backends.cuda.runtime.backend import Backend
from cpms.backends.cuda.runtime.compile import CudaBackend, missing
from cpms.backends.cuda.runtime.host_emulation import HostBackend, compiler
from cpms.base.errors import CpmsError
from cpms.contracts.engine import Engine
from cpms.engines import cuda_fused
from cpms.problems.pagerank import Problem

# Bytecode of the package is on disk for the processes that tests start, as machine code is.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

settings.register_profile("default", max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)
settings.load_profile("default")


# Where each format costs the compilation of loops or kernels.
_COMPILED = ("api", "check/test_products.py", "cpu", "cuda", "engines", "solvers", "sparse")
# One format of each accessor: native, packed, segments in blocks and in planes; and of each rounding: to nearest,
# towards zero, at random; scaled.
_REPRESENTATIVES = {
    "fp64", "fp32", "fp16", "fp16-zero", "fp16-scaled", "e5m2", "bf16-stochastic", "cpms4", "cpms2-planes",
}  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark cases that representatives stand for as slow, unless a test has no others.

    Those are compiled cases of formats, and cases that a test's marks ``representatives`` leave out.
    """
    compiled = tuple(str(Path(__file__).parent / each) for each in _COMPILED)
    variants = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec"):
            variants[item.nodeid.partition("[")[0]].append(item)
    for cases in variants.values():
        for stood_for in (
            [item for item in cases if str(item.path).startswith(compiled) and _formats_of(item) - _REPRESENTATIVES],
            [item for item in cases if not _is_representative(item)],
        ):
            if len(stood_for) < len(cases):
                for item in stood_for:
                    item.add_marker("slow")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave what collection made out of each later search for garbage, and search seldom.

    What was collected, and what Numba knows of types once it has compiled, is there until the end.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 20)


def _is_representative(item: pytest.Item) -> bool:
    """Return whether all parameters that one of a test's marks ``representatives`` names have a value that it gives."""
    marks, given = list(item.iter_markers("representatives")), item.callspec.params
    return not marks or any(
        all(str(getattr(given[key], "name", given[key])) in kept for key, kept in mark.kwargs.items()) for mark in marks
    )


def _formats_of(item: pytest.Item) -> set[str]:
    """Return the names of formats among a test's parameters."""
    given = item.callspec.params.values()
    names = {str(getattr(each, "name", each)) for each in given if isinstance(each, str | Format)}
    return {name for name in names if _is_format(name)}


@cache
def _is_format(name: str) -> bool:
    try:
        format_named(name)
    except CpmsError:
        return False
    return True


@pytest.fixture(scope="module", autouse=True)
def _figures_are_closed() -> Iterator[None]:
    """Forget the figures that the tests of a module have left open."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture(scope="session")
def cpms_data() -> Path:
    """Folder of the real graphs; the test is skipped where there is none."""
    folder = os.environ.get("CPMS_DATA")
    if not folder:
        pytest.skip("CPMS_DATA names no folder with the real graphs")
    return Path(folder)


@pytest.fixture(scope="session")
def one_that_sends_much() -> Callable[[int], Graph]:
    """Make a graph by a seed, with few edges but those of one node: small parts of it have no way out."""

    def make(seed: int) -> Graph:
        random = np.random.default_rng(seed)
        sources, targets = random.integers(0, 40, 120), random.integers(0, 40, 120)
        return Graph.from_edges(np.where(random.random(120) < 0.5, 0, sources), targets, nodes=40)

    return make


_SMALL = {
    *(*template.PADDED_CSR, *template.CONTRIBUTIONS, template.CONVERGENCE_ESTIMATE, *template.LEVEL_SOLVE),
    *(*template.EQUAL_RANGES, *template.TRIMMING, *template.LUMPING, *template.AFFINE.values()),
    *(*template.CERTIFICATE, *template.CERTIFIED_ROWS.values(), *template.CYCLE_PERMUTATION),
    *(*template.PACKS_OF_EDGES.values(), *template.ROWS_OF_EDGES, *template.EDGE_UPDATES),
}


_FAMILIES = ("fp64", "krylov", "products", "rounding")
"""Groups of the catalogue of which one program takes as long to compile as programs of a few of their kernels."""


@cache
def _families() -> dict[str, tuple[Variant, ...]]:
    """Return the kernels that are compiled with each one, by its symbol."""
    groups = kernel_catalogue.every()
    return {variant.symbol: tuple(groups[name]) for name in reversed(_FAMILIES) for variant in groups[name]}


class Emulation(HostBackend):
    """Compiles no kernel again that another test has needed with others, and with the first of a family the others.

    A program of one small kernel takes a quarter of a second to compile, most of it for the headers, and a whole family
    one to three seconds. A worker finds families that another one has compiled; programs of other kernels it seldom
    does.
    """

    def compile(self, variants: Iterable[Variant]) -> None:
        wanted = {variant for variant in variants if variant.symbol not in self._functions}
        if wanted & _SMALL:
            wanted |= _SMALL
        families = {family for variant in wanted if (family := _families().get(variant.symbol))}
        for family in sorted(families, key=len):
            super().compile(family)
            wanted -= set(family)
        super().compile(sorted(wanted, key=lambda variant: variant.symbol))


@pytest.fixture(scope="session")
def host_backend(tmp_path_factory: pytest.TempPathFactory) -> HostBackend:
    """Where CUDA kernels run on this machine's processor; skipped without a C++ compiler."""
    if compiler() is None:
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.getbasetemp().parent / "cuda-kernels-on-host"
    folder.mkdir(exist_ok=True)
    return Emulation(folder)


@pytest.fixture(scope="session")
def device_code(host_backend: HostBackend) -> Callable[..., Callable[..., None]]:
    """Make ``launch_NAME``, C++ beside a file of device code, a function of blocks, threads and what these take."""

    def make(file: str, name: str, code: str) -> Callable[..., None]:
        library = ctypes.CDLL(str(host_backend._built(source.assemble([file]) + code)))
        host_backend._functions[name] = getattr(library, f"launch_{name}")
        return lambda *given: host_backend._run(Variant(name), *given)

    return make


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def fused_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Engine ``cuda_fused``, emulated on this machine and on a GPU."""
    monkeypatch.setattr(device_engine, "missing", lambda: None)
    with current.using(request.getfixturevalue(f"{request.param}_backend")):
        yield cuda_fused.ENGINE


@pytest.fixture(scope="session")
def gpu_backend() -> CudaBackend:
    """A GPU; skipped where there is none."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    return CudaBackend()


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Where launches go: emulated on this machine, or a GPU."""
    with current.using(request.getfixturevalue(f"{request.param}_backend")) as backend:
        yield backend


@pytest.fixture
def problems() -> Callable[[Graph], tuple[Problem, Problem]]:
    """Make of a graph a plain problem, and one whose nodes differ in what they get."""

    def of(graph: Graph) -> tuple[Problem, Problem]:
        teleport = np.arange(1.0, graph.nodes + 1)
        return Problem(graph), Problem(graph, 0.6, teleport / teleport.sum(), "uniform")

    return of
