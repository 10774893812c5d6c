"""Other programs' PageRank: right on graphs with sinks, loops and repeated edges, or left out in a sentence."""

from __future__ import annotations

import importlib.util

import numpy as np
import pandas as pd
import pytest

import cpms
from cpms import Graph, UnavailableError
from cpms.base.package_data import folder
from cpms.experiment import external_solvers
from cpms.experiment.pages.numbers import all_numbers
from cpms.experiment.report import show
from cpms.experiment.rows import rows
from cpms.experiment.runner import run

MODULES = {"igraph PRPACK": "igraph", "NetworKit": "networkit", "GraphBLAS": "graphblas"}
CONFIG = """
name = "cpu_peers"
kind = "peers"
graphs = ["weblike:nodes=500,edges=2000", "rmat:scale=8,edge_factor=8,seed=1"]
ours = [{ method = "power", storage = "fp64" }, { method = "refine" }, { method = "refine", storage = "fp64" }]
rounds = 2
"""


def installed(name):
    return name not in MODULES or importlib.util.find_spec(MODULES[name]) is not None


def awkward_graph():
    random = np.random.default_rng(4)
    sources, targets = random.integers(0, 300, 1500), random.integers(0, 400, 1500)
    return Graph.from_edges(np.append(sources, [5, 5, 6]), np.append(targets, [5, 7, 6]), nodes=420)


@pytest.mark.parametrize("name", external_solvers.PEERS)
def test_peers_rank_as_we_do(name):
    if not installed(name):
        pytest.skip(f"{name} is not installed")
    peer, graph = external_solvers.PEERS[name], awkward_graph()
    built = peer.build(graph)
    exact = cpms.pagerank(graph, tol=1e-14).ranks
    for variant in peer.variants:
        ranks, seconds = peer.solve(built, variant, 1e-11)
        assert np.abs(ranks - exact).sum() < 1e-9
        assert seconds > 0


@pytest.mark.parametrize("name", external_solvers.PEERS)
def test_peers_rank_as_we_do_from_edges_in_any_order(name):
    if not installed(name):
        pytest.skip(f"{name} is not installed")
    peer, graph = external_solvers.PEERS[name], awkward_graph()
    order = np.random.default_rng(0).permutation(graph.edges)
    ends = (ids.astype(np.int32)[order] for ids in (graph.sources, graph.targets))
    ranks, _ = peer.solve(peer.build_from_edges(*ends, graph.nodes), peer.variants[0], 1e-11)
    assert np.abs(ranks - cpms.pagerank(graph, tol=1e-14).ranks).sum() < 1e-9


def test_a_peer_that_is_not_installed_says_so():
    with pytest.raises(UnavailableError, match="pip install"):
        external_solvers._imported("no_such_library")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    output = tmp_path_factory.mktemp("rows")
    (output / "cpu_peers.toml").write_text(CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(external_solvers.Networkit, "build", lambda *_: external_solvers._imported("no_such_library"))
        return run(output / "cpu_peers.toml", output=output)


def test_the_clock_may_start_at_edges(tmp_path):
    text = CONFIG.replace("cpu_peers", "cpu_peers_road") + 'clock = "edges"\npeers = ["scipy", "GraphBLAS"]\n'
    (tmp_path / "cpu_peers_road.toml").write_text(text)
    found = rows.read(run(tmp_path / "cpu_peers_road.toml", output=tmp_path))
    for result in (result for row in found for result in row["results"] if result["status"] == "ok"):
        assert result["error_l1"] <= found[0]["error"]
        assert len(result["road_samples_s"]) == 2
        assert "solve_s" not in result
    assert {result["name"] for result in found[0]["results"]} >= {"cpms refine auto", "scipy"}
    written = show.show("cpu_peers_road", results=tmp_path, output=tmp_path / "out")
    means = pd.read_csv(tmp_path / "out" / "cpu_peers_road_means.csv")
    assert "cpu_peers_road.pdf" in {path.name for path in written}
    assert (means.graphs == 2).all()


def test_rows_hold_all_contestants_at_the_error_asked_for(recorded):
    for row in rows.read(recorded):
        assert row["status"] == "ok"
        by_name = {result["name"]: result for result in row["results"]}
        assert set(by_name) == {"cpms power fp64", "cpms refine auto", "cpms refine fp64", *external_solvers.PEERS}
        assert "reads the first segment, 16 or 32 bits" in by_name["cpms refine fp64"]["reason"]
        assert "no_such_library is not installed" in by_name["NetworKit"]["reason"]
        for result in by_name.values():
            if result["status"] == "ok":
                assert result["error_l1"] <= row["error"]
                assert len(result["solve_samples_s"]) == row["rounds"] == 2


def test_rows_are_shown(recorded, tmp_path):
    written = show.show("cpu_peers", results=recorded.parent, output=tmp_path)
    assert {path.name for path in written} >= {"cpu_peers.md", "cpu_peers_means.csv", "cpu_peers.pdf"}
    assert "fastest peer" in (tmp_path / "cpu_peers.md").read_text()
    table, means = (pd.read_csv(tmp_path / f"cpu_peers{suffix}.csv") for suffix in ("", "_means"))
    assert "Gauss-Seidel" not in set(table["fastest peer alone"])
    for column, line in zip(("over refine auto", "over refine auto alone"), (0, 2), strict=True):
        assert means["geometric mean"][line] == pytest.approx(np.exp(np.log(table[column]).mean()))
        assert means.least[line] == table[column].min()
    assert (table["over refine auto"] <= table["over refine auto alone"]).all()


@pytest.mark.slow
def test_numbers_of_pages_are_the_means_that_show_computes(tmp_path):
    numbers = all_numbers(folder("experiments") / "results")
    show.show("cpu_peers", output=tmp_path)
    means = pd.read_csv(tmp_path / "cpu_peers_means.csv").query("ours == 'refine auto'")
    for line, key in enumerate(("peers.loop", "peers.programs")):
        assert numbers[key].value == pytest.approx(means["geometric mean"].iloc[line])
        assert numbers[f"{key}.least"].value == pytest.approx(means.least.iloc[line])
    show.show("refine", output=tmp_path)
    refined = pd.read_csv(tmp_path / "refine_means.csv").set_index("storage").loc["auto"]
    for base, column in (("fp64", "over best own fp64"), ("cusparse", "over cuSPARSE"), ("library", "over CSR or COO")):
        assert numbers[f"refine.{base}.all"].value == pytest.approx(refined[column])
        assert numbers[f"refine.{base}.least"].value == pytest.approx(refined[f"least {column}"])
