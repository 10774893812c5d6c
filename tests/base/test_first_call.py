"""The first call of a process on a small graph spares loops, the second loads all, and later ones compile nothing."""

import json
import subprocess
import sys
from unittest.mock import patch

import pytest

import cpms
from cpms.api.prepared import PageRank
from cpms.backends.cpu import refinement
from cpms.base.compilation import first_call
from cpms.experiment import runner

GRAPH = cpms.load("rmat:scale=6,edge_factor=4,seed=2")
CALLS = """
import json, sys
import cpms
from cpms.base import work_clock
graph, ranks = cpms.load("rmat:scale=7,edge_factor=4,seed=1"), []
for _ in range(3):
    names = []
    with work_clock.watched(names.append):
        ranks.append(cpms.pagerank(graph, engine="cpu", method=sys.argv[1]).ranks.tolist())
    print(json.dumps([name for name in names if name]))
assert ranks[0] == ranks[1] == ranks[2]
"""
CERTIFICATE = {"residual_norms", "_added", "divide"}
FIRST = {
    "power": {"sweep", "selected_sum", "_sums", "_largest"},
    "refine": {
        *("_correct", "_corrected", "_find_residual", "_gather", "_contribution", "_residual_sums", "_largest"),
        *("inner", "_quantise", "random_bits", "_sums", "products_of_ranges", "_product", "combine_ranges"),
    },
}
"""What nothing else can replace."""
SECOND = {"power": {"_reorder_rows"}, "refine": {"_reorder", "outer_steps", "substitute", "_trim_upstream", "_enter"}}


@pytest.mark.representatives(method=("power",))
@pytest.mark.parametrize("method", ["power", "refine"])
def test_what_three_calls_of_a_process_without_a_cache_compile(method, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", CALLS, method], check=True, capture_output=True, text=True)
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert set(first) == FIRST[method] | CERTIFICATE
    assert SECOND[method] <= set(second)
    assert not set(second) & (FIRST[method] | CERTIFICATE)
    assert third == []


@pytest.fixture
def fresh(monkeypatch):
    """Let the process have called nothing yet."""
    monkeypatch.setattr(first_call, "_is_over", False)


def spared(call, **options):
    """Return whether a call that takes ``on_step`` spares loops."""
    found = set()
    call(**options, on_step=lambda _: found.add(first_call.spares_loops()))
    (each,) = found
    return each


def test_a_second_call_loads_all_that_the_first_spared(fresh):
    calls = [spared(cpms.pagerank, graph=GRAPH, engine="cpu", method=method) for method in ("power", "refine", "power")]
    assert calls == [True, False, False]
    assert not first_call.spares_loops()


def test_a_prepared_graph_spares_loops_until_its_first_solve_has_ended(fresh):
    prepared = PageRank(GRAPH, engine="cpu")
    for _ in range(2):
        prepared.prepare()
        assert not first_call.spares_loops()
    assert [spared(prepared.solve), spared(prepared.solve)] == [True, False]


def test_a_large_graph_loads_all_and_ends_the_first_call(fresh, monkeypatch):
    monkeypatch.setattr(first_call, "MOST_ENTRIES", GRAPH.edges)
    larger = cpms.Graph.from_edges([*GRAPH.sources, 0], [*GRAPH.targets, 1])
    calls = [spared(cpms.pagerank, graph=graph, engine="cpu") for graph in (larger, GRAPH)]
    assert calls == [False, False]


@pytest.mark.parametrize(("queries", "expected"), [(2, True), (3, False)])
def test_queries_count_as_often_as_there_are(fresh, monkeypatch, queries, expected):
    monkeypatch.setattr(first_call, "MOST_ENTRIES", 2 * GRAPH.edges)
    found, decided = set(), first_call.spares_loops
    monkeypatch.setattr(first_call, "spares_loops", lambda: found.add(decided()) or decided())
    cpms.personalized_pagerank(GRAPH, list(range(queries)), engine="cpu", method="refine")
    assert found == {expected}


def test_a_call_within_another_decides_for_itself_and_ends_the_first(fresh):
    with first_call.begun(1):
        with first_call.begun(first_call.MOST_ENTRIES + 1):
            assert not first_call.spares_loops()
        assert first_call.spares_loops()
        with first_call.begun(1):
            assert not first_call.spares_loops()


def test_a_call_that_fails_ends_the_first(fresh):
    def stop(_):
        raise KeyError

    with pytest.raises(KeyError):
        cpms.pagerank(GRAPH, engine="cpu", on_step=stop)
    assert not first_call.spares_loops()
    assert not spared(cpms.pagerank, graph=GRAPH, engine="cpu")


def test_a_first_call_of_very_many_sweeps_loads_the_loop_of_passes(fresh, monkeypatch):
    monkeypatch.setattr(refinement, "_MOST_SWEEPS", 5)
    with patch.object(refinement.kernels, "outer_steps", side_effect=refinement.kernels.outer_steps) as loop:
        result = cpms.pagerank(GRAPH, engine="cpu", method="refine", damping=0.99)
    assert result.converged
    assert loop.call_count >= 1


def test_measurements_load_all_from_their_first_run(fresh, tmp_path):
    config = tmp_path / "one.toml"
    config.write_text(
        'name = "one"\nkind = "pagerank"\nwarmup = 0\n'
        'graphs = ["rmat:scale=6,edge_factor=4,seed=2"]\nengines = ["cpu"]\n'
    )
    found, decided = set(), first_call.spares_loops
    with patch.object(first_call, "spares_loops", lambda: found.add(decided()) or decided()):
        runner.run(config, output=tmp_path / "rows")
    assert found == {False}
