"""Generators: the counts they promise, determinism, and refusals."""

import contextlib
import sys

import numpy as np
import pytest
import scipy.sparse.csgraph as csgraph
from hypothesis import given, settings
from hypothesis import strategies as st

from cpms import Graph
from cpms.base.errors import CpmsError, InputError
from cpms.sources import generators
from cpms.sources.generators import _hilbert, copying, generate
from cpms.sources.generators.models import FAMILIES

SPECS = [
    "rmat:scale=8,edge_factor=4,seed=3",
    "uniform:nodes=300,edges=900,seed=3",
    "uniform:scale=8,edge_factor=4,seed=3,simple=1",
    "rgg:nodes=500,seed=3",
    "delaunay:nodes=500,seed=3",
    "grid:rows=7,columns=11",
    "weblike:nodes=900,edges=4000,seed=3",
    "copying:nodes=400,degree=7,seed=3",
    "torus:side=7,seed=3",
    *(f"models:family={family},nodes=300,degree=5,seed=3" for family in FAMILIES),
    "copies:of=(rmat:scale=5,seed=3),count=4",
    "reordered:of=(uniform:nodes=300,edges=900,seed=3),by=chance,seed=3",
    "reordered:of=(weblike:nodes=900,edges=4000,seed=3),by=bandwidth",
    "reordered:of=(weblike:nodes=900,edges=4000,seed=3),by=communities",
    "standin:adaptive,size=3",
    "standin:hugebubbles-00020,size=20",
    "standin:rgg_n_2_24_s0,size=9",
]
LOWER = [spec for spec in SPECS if spec.split(":")[0] in ("rgg", "delaunay", "grid", "standin")]


def components(graph):
    return csgraph.connected_components(graph.to_scipy(), directed=False)[0]


def test_every_generator_is_covered():
    assert {spec.split(":")[0] for spec in SPECS} == set(generators.names())


@pytest.mark.parametrize("spec", SPECS)
def test_same_seed_same_graph(spec):
    first, second = generate(spec), generate(spec)
    assert np.array_equal(first.sources, second.sources)
    assert np.array_equal(first.indptr, second.indptr)


def test_few_edges_of_rmat_descend_as_many_do():
    rmat = sys.modules["cpms.sources.generators.rmat"]
    draws, corner = np.random.default_rng(1).random(500, np.float32), (0.57, 0.19, 0.19)
    draws[:3] = 0.57, 0.76, 0.95
    few, many = (np.arange(1000, dtype=np.int32).reshape(2, 500) for _ in range(2))
    rmat._descend_few(draws, *corner, *few)
    rmat._descend(draws, *corner, *many)
    assert few.tolist() == many.tolist()


@pytest.mark.parametrize("spec", [spec for spec in SPECS if "seed=3" in spec])
def test_other_seed_other_graph(spec):
    first, second = generate(spec), generate(spec.replace("seed=3", "seed=4"))
    assert not np.array_equal(first.sources, second.sources)


@pytest.mark.parametrize("spec", LOWER)
def test_symmetric_kinds_are_simple_and_strictly_lower(spec):
    graph = generate(spec)
    assert (graph.sources > graph.targets).all()
    pairs = graph.sources.astype(np.int64) * graph.nodes + graph.targets
    assert len(np.unique(pairs)) == graph.edges


@pytest.mark.parametrize("spec", SPECS)
def test_rows_are_sorted_and_in_range(spec):
    graph = generate(spec)
    step = np.diff(graph.sources.astype(np.int64))
    begins = graph.indptr[1:-1][np.diff(graph.indptr)[1:] > 0] if graph.edges else []
    within = np.ones(graph.edges - 1, bool)
    within[[b - 1 for b in begins if 0 < b < graph.edges]] = False
    assert (step[within] >= 0).all()
    assert graph.sources.min() >= 0
    assert graph.sources.max() < graph.nodes
    assert graph.indptr[-1] == graph.edges


@given(st.sampled_from(["chance", "bandwidth", "communities"]), st.integers(1, 40), st.integers(0, 99))
def test_another_order_changes_names_of_places_and_nothing_else(by, nodes, seed):
    of = f"uniform:nodes={nodes},edges={3 * nodes},seed={seed}"
    given, moved = generate(of), generate(f"reordered:of=({of}),by={by}")
    there = np.array([moved.node_id(place) for place in range(nodes)])
    assert sorted(there) == list(range(nodes))
    expected = np.sort(given.sources * nodes + given.targets)
    np.testing.assert_array_equal(np.sort(there[moved.sources] * nodes + there[moved.targets]), expected)


@pytest.mark.parametrize(
    ("of", "by"), [("delaunay:nodes=5000", "bandwidth"), ("weblike:nodes=20000,edges=100000", "communities")]
)
def test_an_order_brings_neighbours_together(of, by):
    shuffled = generate(f"reordered:of=({of},seed=3),by=chance")
    near = generate(f"reordered:of=({shuffled.name}),by={by}")
    distances = [np.median(np.abs(graph.sources - graph.targets)) for graph in (near, shuffled)]
    assert distances[0] < distances[1] / 10


def test_orders_and_what_they_need(monkeypatch):
    with pytest.raises(InputError, match=r"by is 'size'; it can be one of chance, bandwidth, communities"):
        generate("reordered:of=(grid:rows=2,columns=3),by=size")
    monkeypatch.setitem(sys.modules, "igraph", None)
    with pytest.raises(CpmsError, match="pip install igraph"):
        generate("reordered:of=(grid:rows=2,columns=3),by=communities")


def test_rmat_is_skewed_and_uniform_is_not():
    rmat, uniform = generate("rmat:scale=12"), generate("uniform:scale=12")
    assert rmat.edges == uniform.edges == 16 * 4096
    assert rmat.in_degree.max() > 20 * 16
    assert uniform.in_degree.max() < 4 * 16
    assert len(rmat.dangling_nodes) > 0.1 * rmat.nodes


def test_a_site_may_be_larger_than_the_web():
    one, larger = (generate(f"weblike:nodes=300,edges=900,site={site}") for site in (300, 10**20))
    assert one.sources.tobytes() == larger.sources.tobytes()


def test_rmat_takes_shares_whose_sum_is_1_but_for_rounding():
    assert generate("rmat:scale=3,a=0.3,b=0.3,c=0.4").edges == 16 * 8
    with pytest.raises(InputError, match=r"1 - a - b - c is -0\.09"):
        generate("rmat:scale=3,a=0.5,b=0.3,c=0.3")


def test_rmat_quadrants_have_their_probabilities():
    graph = generate("rmat:scale=1,edge_factor=50000,permute=0")
    counts = np.bincount(2 * graph.sources + graph.targets, minlength=4) / graph.edges
    assert np.allclose(counts, [0.57, 0.19, 0.19, 0.05], atol=4 * np.sqrt(0.25 / graph.edges))


def test_uniform_simple_drops_loops_and_repeats():
    graph = generate("uniform:nodes=30,edges=2000,simple=1")
    assert (graph.sources != graph.targets).all()
    assert graph.edges == len(np.unique(graph.sources.astype(int) * 30 + graph.targets)) <= 30 * 29


def test_rgg_equals_all_pairs():
    graph = generate("rgg:nodes=400,seed=7")
    points = np.random.default_rng(7).random((2, 400))
    points = points[:, np.argsort(points[0], kind="stable")]
    distance2 = (points[0][:, None] - points[0]) ** 2 + (points[1][:, None] - points[1]) ** 2
    near = np.tril(distance2 < 0.55**2 * np.log(400) / 400, -1)
    assert np.array_equal(graph.to_scipy().toarray() > 0, near)


@pytest.mark.parametrize(("scale", "published"), [(15, 160_240), (16, 342_127)])
def test_rgg_has_the_published_number_of_edges(scale, published):
    assert abs(generate(f"rgg:scale={scale}").edges - published) < 0.005 * published


@pytest.mark.parametrize(("scale", "published"), [(10, None), (15, 98_274)])
def test_delaunay_has_the_number_of_edges_of_a_triangulation(scale, published):
    graph = generate(f"delaunay:scale={scale}")
    hull_at_most = 60
    assert 3 * graph.nodes - 3 - hull_at_most <= graph.edges <= 3 * graph.nodes - 6
    assert components(graph) == 1
    if published:
        assert abs(graph.edges - published) < hull_at_most
        assert len(graph.dangling_nodes) == pytest.approx(4_301, rel=0.05)


@pytest.mark.quick
def test_grid_is_a_grid():
    graph = generate("grid:rows=4,columns=5")
    assert graph.edges == 4 * 4 + 3 * 5
    assert graph.dangling_nodes.tolist() == [0]


def test_weblike_has_hubs_locality_and_slow_modes():
    import cpms

    graph = generate("weblike:nodes=20000,edges=100000,top_hub=0.1")
    assert (graph.nodes, graph.edges) == (20_000, 100_000)
    assert graph.in_degree[0] > 0.09 * graph.nodes
    assert np.mean(np.abs(graph.sources - graph.targets) < 200) > 0.5
    assert cpms.pagerank(graph).iterations > 100


@given(count=st.integers(1, 5), seed=st.integers(0, 100))
def test_copies_are_block_diagonal(count, seed):
    one = generate(f"uniform:nodes=20,edges=50,seed={seed}")
    many = generate(f"copies:of=(uniform:nodes=20,edges=50,seed={seed}),count={count}")
    assert np.array_equal(many.to_scipy().toarray(), np.kron(np.eye(count), one.to_scipy().toarray()))


@pytest.mark.parametrize("spec", ["copies:of=({}),count=2", "reordered:of=({}),by=chance"])
@pytest.mark.parametrize("symmetry", ["symmetric", "general"])
def test_what_is_made_of_a_lower_triangle_is_said_to_be(tmp_path, spec, symmetry):
    path = tmp_path / "few.mtx"
    path.write_text(f"%%MatrixMarket matrix coordinate pattern {symmetry}\n3 3 2\n2 1\n3 2\n")
    assert generate(spec.format(path)).lower_triangle is (symmetry == "symmetric")


def test_copies_keep_weights():
    from cpms.sources.generators.copies import of_graph

    graph = of_graph(Graph.from_edges([0], [1], [2.5]), 2, name="two")
    assert graph.weights.tolist() == [2.5, 2.5]


@given(n=st.integers(0, 300), seed=st.integers(0, 9))
def test_insertion_order_is_a_permutation_and_rounds_keep_their_places(n, seed):
    order = _hilbert.insertion_order(np.random.default_rng(seed).random((2, n)))
    assert sorted(order.tolist()) == list(range(n))
    if n >= 16:
        assert order[n // 4 :].min() >= n // 4


def test_curve_visits_neighbours_in_turn():
    y, x = np.divmod(np.arange(256), 16)
    order = np.argsort(_hilbert.curve_index(x, y, 4))
    assert (np.abs(np.diff(x[order])) + np.abs(np.diff(y[order])) == 1).all()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("rmat", "scale"),
        ("rmat:scale=99", "scale"),
        ("rmat:scale=x", "whole number"),
        ("rmat:scale=8,scale=9", "twice"),
        ("rmat:size=8", "scale"),
        ("rmat:scale=8,a=0.9,b=0.9", "d"),
        ("rmat:scale=31,edge_factor=64", "bytes"),
        ("uniform:nodes=5", "edges"),
        ("uniform:nodes=0,edges=0", "node"),
        ("rgg:nodes=1", "2 or more"),
        ("rgg:nodes=10,scale=3", "either"),
        ("delaunay:nodes=3", "4 or more"),
        ("grid:rows=0,columns=5", "node"),
        ("weblike:nodes=10,edges=10,hubs=2", "hubs"),
        ("copies:of=(grid:rows=2,columns=2),count=0", "count"),
        ("copies:of=(grid:rows=2,columns=2,count=2", "parentheses"),
        ("standin:atlantis", "atlantis"),
        ("standin:adaptive,size=0", "size"),
        ("atlantis:scale=3", "atlantis"),
        ("models:family=atlantis,nodes=9", "small-world"),
    ],
)
def test_bad_specifications_say_what_is_possible(spec, says):
    with pytest.raises(InputError, match=says):
        generate(spec)


@settings(max_examples=15)
@given(st.integers(1, 5000), st.integers(1, 12), st.integers(0, 99), st.integers(1, 3000))
def test_a_copying_graph_is_that_of_one_stream(nodes, degree, seed, part):
    """The oracle draws each series whole, by one thread; see `_stream`."""
    random = np.random.default_rng(seed)
    sources = np.repeat(np.arange(nodes), random.poisson(degree, nodes))
    chosen, distances = random.random(len(sources)), random.laplace(0, 200, len(sources))
    hubs = (nodes * random.random(len(sources)) ** 4).astype(int)
    anywhere = random.integers(0, nodes, len(sources))
    near = np.clip(sources + np.rint(distances), 0, nodes - 1).astype(int)
    targets = np.where(chosen < 0.65, near, np.where(chosen < 0.9, hubs, anywhere))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "_LEAST_LINKS", part)
        found = copying.copying(nodes=nodes, degree=degree, seed=seed)
    expected = Graph.from_edges(sources, targets, nodes=nodes)
    assert np.array_equal(found.sources, expected.sources)
    assert np.array_equal(found.indptr, expected.indptr)


@given(st.integers(3, 6), st.integers(1, 4), st.integers(0, 99))
def test_a_torus_joins_each_pair_of_neighbours(side, dimensions, seed):
    graph = generate(f"torus:side={side},dimensions={dimensions},seed={seed}")
    places = np.array(np.unravel_index(np.stack([graph.sources, graph.targets]), (side,) * dimensions))
    apart = (places[:, 0] - places[:, 1]) % side
    assert (np.minimum(apart, side - apart).sum(axis=0) == 1).all()
    either = np.sort(np.stack([graph.sources, graph.targets]), axis=0)
    assert len(np.unique(either, axis=1).T) == dimensions * side**dimensions


@pytest.mark.parametrize("family", FAMILIES)
def test_models_differ_as_their_families_do(family):
    graph = generate(f"models:family={family},nodes=20000,degree=6")
    assert (graph.in_degree.max() > 500) == (family in ("preferential", "bipartite"))
    is_later = graph.sources > graph.targets
    assert (is_later.all()) == (family in ("citations",))
    if family == "communities":
        assert 0.85 < (graph.sources % 20 == graph.targets % 20).mean() < 0.95
    if family == "bipartite":
        assert ((graph.sources < 2000) != (graph.targets < 2000)).all()
    if family == "small-world":
        assert 0.88 < ((graph.targets - graph.sources) % 20000 <= 6).mean() < 0.92


@given(st.text(alphabet="rmatugid:=,()0123456789.scaleo-", max_size=40))
def test_any_text_gives_a_graph_or_a_cpms_error(text):
    with contextlib.suppress(CpmsError):
        generate("grid:" + text)


ABSURD = [
    "uniform:scale=2000",
    "uniform:nodes=99999999999999999999999,edges=3",
    "delaunay:scale=2000",
    "rgg:scale=5000",
    "grid:rows=70000,columns=70000",
    "weblike:nodes=100,edges=300,reach=-1",
    "weblike:nodes=100,edges=300,reach=nan",
    "rmat:scale=4,seed=-1",
    "uniform:scale=4,seed=-1",
    "weblike:nodes=100,edges=300,seed=-1",
    "rgg:scale=4,seed=-1",
    "copying:nodes=10,seed=-1",
    "copying:nodes=10,degree=0",
    "torus:side=2",
    "torus:side=4,dimensions=9",
    "torus:side=2000",
    "models:family=citations,nodes=1",
    "delaunay:scale=4,seed=-1",
    "standin:adaptive,size=600",
]


@pytest.mark.parametrize("spec", ABSURD)
def test_absurd_parameters_are_refused_in_a_sentence(spec):
    with pytest.raises(InputError, match=r"must|would have|needs|free"):
        generate(spec)


def test_tiny_radii_leave_no_edges():
    assert generate("rgg:nodes=50,radius=1e-320").edges == 0


@pytest.mark.parametrize(
    ("spec", "other"),
    [
        ("rgg:scale=8", "rgg:scale=8,radius=0.2"),
        ("rmat:scale=6", "rmat:scale=6,permute=0"),
        ("rmat:scale=6", "rmat:scale=6,a=0.6"),
        ("uniform:scale=6", "uniform:scale=6,simple=1"),
        ("weblike:nodes=300,edges=900", "weblike:nodes=300,edges=900,hubs=0.1"),
        ("weblike:nodes=300,edges=900", "weblike:nodes=300,edges=900,site=50"),
    ],
)
def test_different_graphs_have_different_names(spec, other):
    assert generate(spec).name != generate(other).name


def test_what_is_no_specification_is_a_sentence():
    with pytest.raises(InputError, match="generator is 5; give text"):
        generate(5)
