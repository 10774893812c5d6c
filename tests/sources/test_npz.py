"""Archives of NumPy arrays: our own, those of SciPy, and those that are refused."""

from __future__ import annotations

import threading
import time
import zipfile
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from graph_texts import SMALL, WHOLE, edge_lists, same, write
from hypothesis import given
from hypothesis import strategies as st

from cpms import Graph, InputError
from cpms.base import threads
from cpms.sources import readers
from cpms.sources.readers import npz
from cpms.sources.readers.options import ReadOptions

# --- .npz ------------------------------------------------------------------------------------------------------------


@SMALL
@given(edge_lists(), st.sampled_from(["none", "numbers", "texts", "unicode"]), st.integers(0, 2))
def test_own_npz_round_trip(folder, case, naming, first_id):
    nodes, edges, weights = case
    names = {
        "numbers": np.arange(nodes) * 7,
        "texts": np.array([f"é{'x' * i}" for i in range(nodes)], dtype=object),
        "unicode": np.array([f"site {i}" for i in range(nodes)]),
    }.get(naming)
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2) + first_id
    values = None if weights is None else list(map(float, weights))
    graph = Graph.from_edges(
        ends[:, 0],
        ends[:, 1],
        values,
        nodes=nodes,
        first_id=first_id,
        names=names,
        name="copies of é",
        stand_in_for="europe_osm" if first_id else None,
    )
    path = folder / "own.npz"
    npz.save_npz(graph, path)
    again = readers.read(path)
    same(again, graph)
    assert (again.name, again.stand_in_for, again.first_id) == (graph.name, graph.stand_in_for, graph.first_id)
    assert again.sources.dtype == graph.sources.dtype
    assert [file.name for file in folder.glob("*.part")] == []
    with np.load(path) as arrays:
        assert all(arrays[key].dtype.kind in "iufU" for key in arrays.files)


def test_policies_apply_to_npz_files(folder):
    npz.save_npz(Graph.from_edges([0, 0, 3], [3, 3, 3], [1.0, 2.0, 4.0]), folder / "policies.npz")
    options = ReadOptions(duplicates="sum", self_loops="drop", ids="compact")
    graph = readers.read(folder / "policies.npz", options)
    assert (graph.weights.tolist(), graph.node_id(1)) == ([3.0], 3)
    assert readers.read(folder / "policies.npz", ReadOptions(weights="ignore")).weights is None


@SMALL
@given(edge_lists(), st.sampled_from(["csr", "csc", "coo"]), st.booleans(), st.booleans())
def test_scipy_npz(folder, case, layout, compressed, boolean):
    nodes, edges, weights = case
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    values = np.ones(len(edges)) if weights is None else np.array(list(map(float, weights)))
    matrix = scipy.sparse.coo_array((values, ends.T), shape=(nodes, nodes)).asformat(layout)
    if boolean:
        matrix = matrix.astype(bool)
    scipy.sparse.save_npz(folder / "scipy.npz", matrix, compressed=compressed)
    if np.isfinite(matrix.data).all():  # CSR and CSC add up repeated entries
        same(readers.read(folder / "scipy.npz"), Graph.from_scipy(matrix))


OWN = {"cpms_graph": 1, "indptr": [0, 1, 3], "sources": [1, 0, 1], "name": "own", "first_id": 0}
BAD_OWN = {
    "missing": ({"sources": None}, "there is no array 'sources'"),
    "version": ({"cpms_graph": 2}, "format version 2; this program reads 1"),
    "short rows": ({"indptr": [0, 1, 2]}, "row starts do not ascend from 0 to 3"),
    "falling rows": ({"indptr": [0, 4, 3]}, "row starts do not ascend"),
    "no nodes": ({"indptr": [0], "sources": []}, "it holds float64|1 row starts|array sources"),
    "above": ({"sources": [1, 0, 2]}, "node indices are out of range; the graph has 2 nodes"),
    "below": ({"sources": [-1, 0, 1]}, "node indices are out of range"),
    "order": ({"sources": [1, 1, 0]}, "sources do not ascend within a target"),
    "fractions": ({"sources": [1.0, 0.0, 1.0]}, "array sources holds float64; it needs integers"),
    "few weights": ({"weights": [1.0]}, "weights must be float64, one an edge"),
    "zero weight": ({"weights": [1.0, 0.0, 1.0]}, "weights must be positive and finite"),
    "nan weight": ({"weights": [1.0, np.nan, 1.0]}, "weights must be positive and finite"),
    "names": ({"names": [4, 5, 6]}, "3 names for 2 nodes"),
    "two names": ({"name": ["a", "b"]}, "a field holds 2 values where one belongs"),
}


@pytest.mark.parametrize("case", BAD_OWN)
def test_own_npz_whose_arrays_do_not_fit_together(folder, case):
    changes, message = BAD_OWN[case]
    np.savez(folder / "ownbad.npz", **OWN)
    assert readers.read(folder / "ownbad.npz").edges == 3
    arrays = {key: value for key, value in (OWN | changes).items() if value is not None}
    np.savez(folder / "ownbad.npz", **arrays)
    with pytest.raises(InputError, match=rf"ownbad\.npz: .*({message})"):
        readers.read(folder / "ownbad.npz")


def test_npz_that_cannot_be_written_leaves_nothing(folder, tmp_path):
    with pytest.raises(InputError, match="cannot write there"):
        npz.save_npz(Graph.from_edges([0], [1]), tmp_path / "missing" / "g.npz")
    assert list(tmp_path.iterdir()) == []


def test_npz_array_sizes_are_checked_before_allocation(folder):
    with zipfile.ZipFile(folder / "claim.npz", "w") as archive, archive.open("indptr.npy", "w") as member:
        header = {"descr": "<i8", "fortran_order": False, "shape": (10**15,)}
        np.lib.format.write_array_header_1_0(member, header)
        member.write(bytes(24))
    with pytest.raises(InputError, match=r"claim\.npz: array indptr\.npy declares 1(,000){5} items, but 24 bytes"):
        readers.read(folder / "claim.npz")


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (scipy.sparse.coo_array((2, 3)), "shape .2, 3.; a graph needs a square one"),
        (scipy.sparse.dia_array(np.eye(2)), "SciPy's csr, csc or coo"),
        (scipy.sparse.coo_array(np.array([[1j]])), "complex128"),
        (scipy.sparse.coo_array(np.array([[-1.0]])), "weight -1.0; weights must be positive"),
    ],
)
def test_scipy_matrices_that_are_no_graphs(folder, matrix, message):
    scipy.sparse.save_npz(folder / "no.npz", matrix)
    with pytest.raises(InputError, match=rf"no\.npz: .*{message}"):
        readers.read(folder / "no.npz")


# --- all -------------------------------------------------------------------------------------------------------------


def test_no_archive_is_read_by_two_threads(folder, monkeypatch):
    # Newer versions of Python take one that is for a file whose members overlap, if both read at once.
    path = folder / "graph.npz"
    npz.save_npz(Graph.from_edges([0, 1, 2], [1, 2, 0]), path)
    readers_of = {}
    given_open = zipfile.ZipFile.open

    def opened(archive, *arguments, **options):
        readers_of.setdefault(archive, set()).add(threading.get_ident())
        return given_open(archive, *arguments, **options)

    monkeypatch.setattr(zipfile.ZipFile, "open", opened)
    with threads.limited(4):
        npz.arrays_of(path)
    assert len(readers_of) > 1
    assert all(len(those) == 1 for those in readers_of.values())


def test_threads_parse_one_header_at_a_time(folder, monkeypatch):
    now, most = [], []
    plain = dict(npz._HEADER_READERS)

    def watched(version, file):
        now.append(file)
        most.append(len(now))
        time.sleep(0.01)
        try:
            return plain[version](file)
        finally:
            now.remove(file)

    monkeypatch.setattr(npz, "_HEADER_READERS", {version: partial(watched, version) for version in plain})
    path = folder / "headers.npz"
    np.savez(path, **{f"a{k}": np.arange(3) for k in range(8)})
    with threads.limited(4):
        assert len(npz.arrays_of(path)) == 8
    assert set(most) == {1}


def test_kinds_of_files_are_known_by_their_endings(folder):
    with pytest.raises(InputError, match=r"g\.pdf: unknown kind of file; its name can end in \.mtx, "):
        readers.read(folder / "g.pdf")
    with pytest.raises(InputError, match=r"g\.mtx: there is no such file"):
        readers.read(folder / "g.mtx")
    upper = write(folder / "UPPER.MTX", WHOLE)
    assert readers.read(upper).edges == 3


@pytest.mark.parametrize("choice", ["symmetric", "duplicates", "self_loops", "weights", "ids", "progress"])
def test_choices_that_do_not_exist(choice):
    with pytest.raises(InputError, match=f"{choice} is 'some'; it can be .* or "):
        ReadOptions(**{choice: "some"})


@pytest.mark.parametrize("name", ["g.mtx", "g.mtx.gz", "g.txt"])
def test_progress_is_silent_without_a_terminal(folder, capfd, name):
    text = "1 2\n2 3\n3 1\n" if name.endswith("txt") else WHOLE
    assert readers.read(write(folder / name, text), ReadOptions(progress=True)).edges == 3
    assert capfd.readouterr() == ("", "")


def test_own_npz_keeps_what_the_graph_says_of_itself(folder):
    text = "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n"
    graph = readers.read(write(folder / "half.mtx", text))
    for each in (graph, readers.read(folder / "half.mtx", ReadOptions(symmetric="expand"))):
        npz.save_npz(each, folder / "half.npz")
        assert readers.read(folder / "half.npz").lower_triangle is each.lower_triangle
    assert graph.lower_triangle
    large = Graph.from_edges([0], [1], names=np.array([2**64 - 1, 5], np.uint64))
    npz.save_npz(large, folder / "large.npz")
    assert readers.read(folder / "large.npz").names.tolist() == large.names.tolist() == [str(2**64 - 1), "5"]
