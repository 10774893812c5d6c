"""NetworkX's PageRank through the backend: NetworkX's own tests, the same ranks, one conversion, a certificate."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from unittest.mock import patch

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import check
from cpms.api import networkx_backend as backend

ROOT = Path(__file__).parents[2]
POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
DISPATCHER = nx.utils.backends._dispatchable
NODES = st.sampled_from([0, 1, "1", 2, "a", (3, 4), 2.5])
WEIGHTS = st.sampled_from([{}, {"weight": 1}, {"weight": 2.5}, {"weight": 0}, {"kg": 3}])
BY_NODE = st.none() | st.dictionaries(NODES, st.integers(1, 9).map(float), min_size=1)


@pytest.fixture
def registered(monkeypatch):
    """Register the backend in this process, whether or not the installation is older than its entry points."""
    point = EntryPoint("cpms", POINTS["networkx.backends"]["cpms"], "networkx.backends")
    monkeypatch.setitem(nx.utils.backends.backends, "cpms", point)
    monkeypatch.setitem(nx.utils.backends.backend_info, "cpms", {})
    monkeypatch.setattr(DISPATCHER, "__call__", DISPATCHER._call_if_any_backends_installed)
    monkeypatch.setattr(nx.config, "warnings_to_ignore", {"cache"})


@pytest.fixture
def installed(tmp_path):
    """Return the environment of a process that finds the entry points of pyproject.toml as those of an installation."""
    folder = tmp_path / "cpms-0.0.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: cpms\nVersion: 0.0.0\n")
    groups = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in POINTS.items()]
    (folder / "entry_points.txt").write_text("\n".join(groups))
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")])}


def test_networkx_tests_of_pagerank_pass_through_the_backend(installed, tmp_path):
    """Other functions that these tests call, such as google_matrix, are NetworkX's own."""
    file = Path(nx.__file__).parent / "algorithms/link_analysis/tests/test_pagerank.py"
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # Not that of this repository, where its environment lies in it.
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", "pytest.ini", "--import-mode=importlib"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-W", "ignore", file],
        env={**installed, "NETWORKX_TEST_BACKEND": "cpms", "NETWORKX_FALLBACK_TO_NX": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout
    assert "xfailed" not in done.stdout


def test_code_that_names_no_backend_uses_the_one_of_the_environment(installed):
    program = (
        "import sys, networkx as nx\n"
        "assert 'cpms.api.pagerank' not in sys.modules\n"
        "ranks = nx.pagerank(nx.path_graph(5, create_using=nx.DiGraph))\n"
        "print(type(ranks).__name__, ranks.result.status.name)\n"
    )
    environment = {**installed, "NETWORKX_BACKEND_PRIORITY": "cpms"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["CertifiedRanks", "CONVERGED"]


@st.composite
def graphs_of_networkx(draw):
    graph = draw(st.sampled_from([nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph]))()
    graph.add_nodes_from(draw(st.lists(NODES, min_size=1)))
    graph.add_edges_from(draw(st.lists(st.tuples(NODES, NODES, WEIGHTS), max_size=15)))
    return graph


@given(graph=graphs_of_networkx(), weight=st.sampled_from(["weight", "kg", None]), data=st.data())
@settings(max_examples=50)
def test_ranks_are_those_of_networkx(graph, weight, data):
    given = {name: data.draw(BY_NODE) for name in ("personalization", "nstart", "dangling")}
    given = {name: value if value and set(value) & set(graph) else None for name, value in given.items()}
    options = {"alpha": data.draw(st.sampled_from([0.85, 0.4])), "tol": 1e-13, "max_iter": 1000, "weight": weight}
    converted = backend.convert_from_nx(graph, edge_attrs=None if weight is None else {weight: 1})
    ranks = backend.pagerank(converted, **given, **options)
    expected = nx.pagerank(graph, **given, **options)
    assert list(ranks) == list(expected)
    assert ranks == pytest.approx(expected, abs=1e-11)
    assert ranks.result.residual_l1 < len(graph) * 1e-13


def test_the_certificate_comes_along_and_the_tolerance_is_that_of_networkx(registered):
    graph = nx.gnp_random_graph(300, 0.02, seed=3, directed=True)
    ranks = nx.pagerank(graph, backend="cpms", tol=1e-5, dangling={4: 1})
    result = ranks.result
    check.answer_is_certified(result, dangling=[4])
    assert result.tol == 300 * 1e-5
    assert result.converged
    assert result.iterations < nx.pagerank(graph, backend="cpms", tol=1e-12).result.iterations
    assert nx.pagerank(graph, backend="cpms", method="refine").result.method == "refine"


def test_a_graph_is_converted_once_until_it_changes(registered):
    graph = nx.DiGraph([(0, 1), (1, 2)])
    with patch.object(backend, "convert_from_nx", wraps=backend.convert_from_nx) as convert:
        first, second = (nx.pagerank(graph, backend="cpms").result.graph for _ in range(2))
        assert convert.call_count == 1
        assert first is second
        assert nx.pagerank(graph, backend="cpms", weight=None).result.graph.weights is None
        assert convert.call_count == 1
        graph.add_edge(2, 0, weight=3.0)
        assert nx.pagerank(graph, backend="cpms").result.graph.edges == 3
        assert convert.call_count == 2


@pytest.mark.parametrize(
    ("edge", "options", "error", "reason"),
    [
        ({}, {"alpha": 1}, NotImplementedError, "pagerank"),
        ({"weight": -1}, {}, NotImplementedError, "negative"),
        ({"weight": float("nan")}, {}, NotImplementedError, "finite"),
        ({"weight": "far"}, {}, NotImplementedError, "no number"),
        ({}, {"weight": lambda *_: 1}, NotImplementedError, "edge attribute"),
        ({}, {"personalization": {0: 0}}, ZeroDivisionError, "distribution"),
        ({}, {"max_iter": 0}, nx.PowerIterationFailedConvergence, "0"),
        ({}, {"tol": 0}, nx.PowerIterationFailedConvergence, "100"),
        ({}, {"tol": 1e-30}, nx.PowerIterationFailedConvergence, "100"),
        ({}, {"nstart": {0: -1}}, NotImplementedError, "pagerank"),
        ({}, {"personalization": {0: -1, 1: 3}}, NotImplementedError, "pagerank"),
        ({}, {"dangling": {0: float("nan")}}, cpms.InputError, "dangling"),
        ({}, {"storage": "fp7"}, cpms.InputError, "fp7"),
    ],
)
def test_what_cannot_be_computed_is_refused(registered, edge, options, error, reason):
    graph = nx.DiGraph([(0, 1, edge), (1, 2), (2, 0), (2, 1)])
    with pytest.raises(error) as raised:
        nx.pagerank(graph, backend="cpms", **options)
    assert reason in f"{raised.value} {raised.value.__cause__}"


@pytest.mark.parametrize("given", [("dangling",), ("personalization", "dangling"), ("nstart",)])
def test_distributions_with_weights_below_0_are_left_to_networkx(given):
    weights = {name: {0: -1.0, 1: 3.0} for name in given}
    assert "below 0" in backend.can_run("pagerank", (nx.path_graph(3),), weights)
    by_place = (
        nx.path_graph(3),
        0.85,
        *(weights.get(name) for name in ("personalization", "max_iter", "tol", "nstart")),
    )
    assert "below 0" in backend.can_run("pagerank", (*by_place, "weight", weights.get("dangling")), {})
    assert backend.can_run("pagerank", (nx.path_graph(3),), {"personalization": {0: 1}, "nstart": None}) is True


def test_a_converted_graph_is_one_of_the_backend_alone():
    converted = backend.convert_from_nx(nx.path_graph(3))
    assert (len(converted), converted.is_directed(), converted.is_multigraph()) == (3, False, False)
    with pytest.raises(NotImplementedError, match="edges alone"):
        backend.convert_to_nx(converted)
    with pytest.raises(NotImplementedError, match="without edge attribute"):
        backend.pagerank(converted)
