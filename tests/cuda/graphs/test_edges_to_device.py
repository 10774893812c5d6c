"""What a file holds makes the same graph, ranks and certificate on the device as in main memory, or the same error."""

import json

import numpy as np
import pytest
import scipy.sparse

import cpms
from cpms import DeviceGraph, Graph, InputError, UnsupportedError
from cpms.api.given_graph import given_graph, loaded_graph
from cpms.backends.cuda.runtime import memory_limits
from cpms.cli import main
from cpms.graph import csr_build
from cpms.sources.readers.npz import save_npz
from cpms.sources.readers.options import ReadOptions

MATRIX = "%%MatrixMarket matrix coordinate pattern {}\n% made by hand\n5 5 7\n{}\n"
FILES = {
    "general.mtx": MATRIX.format("general", "1 2\n2 3\n2 3\n3 3\n% within\n3 1\n4 1\n1 3"),
    "symmetric.mtx": MATRIX.format("symmetric", "2 1\n3 2\n3 2\n3 3\n4 1\n5 4\n5 1"),
    "list.txt": "# sources and targets\n0 1\n1 2\n1 2\n2 2\n2 0\n6 0\n",
    "pairs.csv": "source,target\n7,1\n1,1\n9,7\n9,7\n",
    "names.csv": "ann,bob\nbob,cid\nbob,cid\ncid,cid\ncid,ann\n",
    "out.konect": "% sym unweighted\n1 2\n2 3\n2 3\n3 3\n",
    "square.graph": "4 4\n2 4\n1 3\n2 4\n1 3\n",
}
OPTIONS = [
    {},
    {"duplicates": "drop"},
    {"self_loops": "drop"},
    {"symmetric": "expand"},
    {"ids": "compact", "duplicates": "drop", "self_loops": "drop"},
]


@pytest.fixture(params=FILES)
def path(request, tmp_path):
    found = tmp_path / request.param
    found.write_text(FILES[request.param])
    return found


@pytest.fixture
def no_rows_on_processors(monkeypatch):
    def refuse(*_arguments):
        raise AssertionError("processors made compressed rows")

    monkeypatch.setattr(csr_build, "by_target", refuse)


def alike(made, expected):
    for name in ("indptr", "sources", "out_degree"):
        np.testing.assert_array_equal(getattr(made, name), getattr(expected, name))
    for name in ("nodes", "edges", "weights", "name", "first_id", "read", "lower_triangle", "stand_in_for"):
        assert getattr(made, name) == getattr(expected, name), name
    names = [None if graph.names is None else graph.names.tolist() for graph in (made, expected)]
    assert names[0] == names[1]
    assert [made.node_id(k) for k in range(made.nodes)] == [expected.node_id(k) for k in range(made.nodes)]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options.values()) or "as-is")
def test_a_file_makes_the_graph_on_the_device_that_it_makes_in_main_memory(device, path, options, monkeypatch):
    expected = cpms.load(path, **options)
    monkeypatch.setattr(csr_build, "by_target", lambda *_: pytest.fail("processors made compressed rows"))
    made = DeviceGraph.load(path, **options)
    assert type(made) is DeviceGraph
    alike(made, expected)


@pytest.mark.parametrize("engine", ["cuda_fused", "cuda"])
@pytest.mark.parametrize("name", ["general.mtx", "list.txt", "names.csv"])
def test_ranks_and_certificates_are_those_of_graphs_in_main_memory(fused_engine, tmp_path, engine, name):
    path = tmp_path / name
    path.write_text(FILES[name])
    graph = loaded_graph(str(path), engine, ReadOptions())
    assert isinstance(graph, DeviceGraph)
    for method in ("power", "refine"):
        found, expected = (cpms.pagerank(each, engine=engine, method=method) for each in (graph, cpms.load(path)))
        assert found.ranks.tobytes() == expected.ranks.tobytes()
        for part in ("status", "iterations", "residual_l1", "error_bound", "mass", "engine", "storage", "layout"):
            assert getattr(found, part) == getattr(expected, part), part
        assert found.top(3) == expected.top(3)


@pytest.mark.usefixtures("fused_engine", "no_rows_on_processors")
@pytest.mark.parametrize("engine", ["cuda_fused", "auto"])
def test_the_command_makes_no_rows_on_processors(tmp_path, capsys, engine):
    path = tmp_path / "general.mtx"
    path.write_text(FILES["general.mtx"])
    assert main.main(["rank", str(path), "--engine", engine, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["edges"], report["engine"], report["dangling"]) == (7, "cuda_fused", 1)
    assert report["read"]["comment_lines"] == 1
    assert main.main(["rank", str(path), "--engine", engine]) == 0
    assert "1 repeated edge and 1 self-loop kept; 1 id without an edge" in capsys.readouterr().out


@pytest.mark.usefixtures("fused_engine")
def test_what_has_no_place_on_the_device_is_read_into_main_memory(tmp_path, monkeypatch):
    weighted, twice, own = tmp_path / "weighted.csv", tmp_path / "twice.txt", tmp_path / "own.npz"
    weighted.write_text("source,target,weight\n0,1,2.5\n1,0,1.5\n")
    twice.write_text("0 1\n0 1\n1 0\n")
    save_npz(Graph.from_edges([0, 1], [1, 0]), own)
    for source, options in [
        (weighted, {}),
        (twice, {"duplicates": "sum"}),
        (own, {}),
        ("rmat:scale=4,edge_factor=2,seed=1", {}),
    ]:
        made, expected = loaded_graph(str(source), "cuda_fused", ReadOptions(**options)), cpms.load(source, **options)
        assert type(made) is Graph
        for name in ("indptr", "sources", "weights"):
            np.testing.assert_array_equal(getattr(made, name), getattr(expected, name))
    assert type(loaded_graph(str(twice), "cpu", ReadOptions())) is Graph
    assert type(loaded_graph(str(weighted), "cuda", ReadOptions(weights="ignore"))) is DeviceGraph
    monkeypatch.setattr(memory_limits, "_ENTRIES_BELOW", 3)
    assert type(loaded_graph(str(twice), "cuda_fused", ReadOptions())) is Graph
    with pytest.raises(UnsupportedError, match="fewer than"):
        DeviceGraph.load(twice)


@pytest.mark.usefixtures("fused_engine", "no_rows_on_processors")
def test_objects_in_memory_go_to_the_device_too(tmp_path):
    import pandas as pd

    matrix = scipy.sparse.coo_array((np.ones(3, bool), ([0, 1, 2], [1, 2, 0])), shape=(4, 4))
    scipy.sparse.save_npz(tmp_path / "matrix.npz", matrix.tocsr())
    for given in (matrix, pd.DataFrame({"from": ["a", "b"], "to": ["b", "a"]})):
        assert type(given_graph(given, "cuda_fused")) is DeviceGraph
    read = DeviceGraph.load(tmp_path / "matrix.npz")
    assert (read.nodes, read.sources.tolist(), read.read.form) == (4, [2, 0, 1], "SciPy .npz, csr")


def test_errors_are_those_of_graphs_in_main_memory(device, tmp_path):
    for name, text in {
        "short.mtx": MATRIX.format("general", "1 2"),
        "word.txt": "0 1\n1 x\n2 0\n" * 40,
        "empty.txt": "",
        "missing.mtx": None,
    }.items():
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
        with pytest.raises(InputError) as expected:
            cpms.load(path)
        with pytest.raises(InputError) as found:
            DeviceGraph.load(path)
        assert str(found.value) == str(expected.value)
    arrays = {"row": [0, 5], "col": [1, 0], "data": [True, True], "shape": [3, 3], "format": np.array(b"coo")}
    np.savez(tmp_path / "outside.npz", **{name: np.asarray(array) for name, array in arrays.items()})
    texts = set()
    for load in (cpms.load, DeviceGraph.load):
        with pytest.raises(InputError) as caught:
            load(tmp_path / "outside.npz")
        texts.add(str(caught.value))
    assert texts == {f"{tmp_path / 'outside.npz'}: an edge names node 5, but the last is 2"}


def test_loads_onto_the_device_refuse_weights_and_unknown_options(device, tmp_path):
    path = tmp_path / "weighted.txt"
    path.write_text("0 1 2.5\n1 0 1.5\n2 0 0.5\n")
    with pytest.raises(UnsupportedError, match="no weights, but weighted has"):
        DeviceGraph.load(path)
    assert DeviceGraph.load(path, weights="ignore").edges == 3
    with pytest.raises(InputError, match="argument 'duplicate' is not known; did you mean duplicates"):
        DeviceGraph.load(path, duplicate="drop")
