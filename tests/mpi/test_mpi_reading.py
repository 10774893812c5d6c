"""Each rank reads its own share, and what all hold is the graph, bit by bit; corrupt shares are refused."""

from __future__ import annotations

import hashlib
import itertools

import mpi_runs
import numpy as np
import pandas as pd
import pytest

import cpms
from cpms import Graph, InputError
from cpms.backends.mpi.exchange import world
from cpms.backends.mpi.shares import edge_list_share, npz_share, reading, uniform_share, weblike_share
from cpms.sources.readers.npz import save_npz
from cpms.sources.readers.options import ReadOptions

needs_mpi = pytest.mark.skipif(world.missing() is not None, reason=str(world.missing()))

SAME = """
import sys
import cpms
from cpms.backends.mpi.shares.reading import read
from cpms.backends.mpi.shares.rows import of_graph
from cpms.backends.mpi.exchange.world import world

me = world()
for source in sys.argv[1:]:
    source, *given = source.split("|")
    options = dict(each.split("=") for each in given)
    held, right = read(source, me, **options), of_graph(cpms.load(source, **options), me.rank, me.size)
    assert held.read == (right.read if source.endswith((".txt", ".csv", ".el")) else None), (held.read, right.read)
    assert (held.name, held.first_id, held.nodes, held.rank) == (right.name, right.first_id, right.nodes, right.rank)
    assert held.stand_in_for == right.stand_in_for, source
    for name in ("bounds", "indptr", "sources", "weights", "leaving", "out_weight"):
        mine, its = getattr(held, name), getattr(right, name)
        assert (mine is None) == (its is None), (source, name)
        assert mine is None or (mine.dtype == its.dtype and mine.tobytes() == its.tobytes()), (source, name)
"""


@needs_mpi
@pytest.mark.parametrize("ranks", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2)), 3])
def test_shares_are_those_of_the_whole_graph(files, ranks):
    generated = ["uniform:nodes=5000,edges=40000,seed=3", "uniform:scale=12,edge_factor=3", "uniform:nodes=2,edges=0"]
    code, _, errors = mpi_runs.run(ranks, "-c", SAME, *files, *generated)
    assert code == 0, errors


def test_uniform_shares_agree_across_the_chunks_of_the_generator(monkeypatch):
    from cpms.sources.generators import uniform

    monkeypatch.setattr(uniform, "_CHUNK", 700)
    monkeypatch.setattr(uniform, "_DRAWN", 64)
    spec = "uniform:nodes=50,edges=2000,seed=9"
    shares = [uniform_share.make(spec, rank, 3) for rank in range(3)]
    joined = [np.concatenate([getattr(share, end) for share in shares]) for end in ("sources", "targets")]
    whole = cpms.load(spec)
    assert (Graph.from_edges(*joined, nodes=50).sources == whole.sources).all()
    assert max(len(share.sources) for share in shares) <= 2000 / 3 + 3


DRAWN = {
    "weblike:nodes=3000,edges=20000,seed=5": "51a7f9a2dd4a7c80",
    "weblike:nodes=777,edges=9000,top_hub=0.3,site=50,reach=3,hubs=0.4,dangling=0.3": "38794bd619f2086c",
    "uniform:nodes=500,edges=4000,seed=3": "47ba9b414ae98590",
    "uniform:scale=8,edge_factor=3,simple=1": "5125db0284f951fa",
}


def digest(*arrays):
    text = b"".join(str(array.dtype).encode() + array.tobytes() for array in arrays)
    return hashlib.sha256(text).hexdigest()[:16]


@pytest.mark.parametrize("spec", DRAWN)
def test_a_specification_is_the_same_graph_in_every_version(spec):
    graph = cpms.load(spec)
    assert digest(graph.indptr, graph.sources) == DRAWN[spec]


def test_shares_are_the_same_edges_in_every_version():
    parts = [weblike_share.make("weblike-parts:parts=5,nodes=4000,edges=21000,seed=3", rank, 2) for rank in range(2)]
    drawn = [uniform_share.make("uniform:nodes=500,edges=4000,seed=3", rank, 2) for rank in range(2)]
    found = [digest(share.sources, share.targets) for share in parts + drawn]
    assert found == ["8b72e163acc14256", "c24863b021149adc", "d7b0688566c8dde5", "09ee9e3dfe2d7425"]


@pytest.mark.parametrize("ranks", [1, 2, 7, 40])
def test_ranges_of_bytes_cut_an_edge_list_at_lines(tmp_path, ranks):
    path = tmp_path / "x.txt"
    path.write_text("source target\n" + "".join(f"{k} {k * k}\n" for k in range(30)))
    form = edge_list_share.EdgeListForm(separator=None, columns=(0, 1), fields=2, numbered=True, first_line=2)
    ends = [edge_list_share._range(path, form, rank, ranks) for rank in range(ranks)]
    assert [begin for begin, _ in ends[1:]] == [end for _, end in ends[:-1]]
    found = [edge_list_share._edges(path, form, ReadOptions(), *each)[0][0].tolist() for each in ends]
    assert list(itertools.chain(*found)) == list(range(30))


PEAK = """
import sys
import tracemalloc
import pandas
from cpms.backends.mpi.shares.reading import read
from cpms.backends.mpi.exchange.world import world

for warm in ("uniform:nodes=9000,edges=9", *sys.argv[2:]):  # Code that is compiled or loaded now takes memory, too.
    read(warm, world())
tracemalloc.start()
held = read(sys.argv[1], world())
peaks = world().allgather(tracemalloc.get_traced_memory()[1])
if world().rank == 0:
    print(max(peaks))
"""


@needs_mpi
@pytest.mark.parametrize("kind", ["txt", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("uniform", "npz"))])
def test_no_rank_holds_more_than_its_share(tmp_path, kind):
    spec = "uniform:nodes=40000,edges=1000000"
    if kind != "uniform":
        graph = cpms.load(spec)
        spec = str(tmp_path / f"graph.{kind}")
        if kind == "npz":
            save_npz(graph, spec)
        else:
            frame = pd.DataFrame({"source": graph.sources, "target": graph.targets})
            frame.to_csv(spec, sep=" ", header=False, index=False)
    peaks = {}
    (tmp_path / "warm.txt").write_text("0 1\n2 1\n" * 9)
    for ranks in (1, 3):
        code, output, errors = mpi_runs.run(ranks, "-c", PEAK, spec, str(tmp_path / "warm.txt"))
        assert code == 0, errors
        peaks[ranks] = int(output)
    # Vectors, a block of text and the numbers drawn at a time are held whatever the share.
    assert peaks[3] < 0.4 * peaks[1] + 15e6, peaks


# Bad input


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("uniform:nodes=3", "nodes and edges"),
        ("uniform:nodes=3,edges=x", "edges=x"),
        ("uniform:nodes=3,edges=4,simple=1", "simple=1"),
        ("uniform:nodes=3,nodes=3,edges=4", "each once"),
        ("uniform:nodes=0,edges=0", "give 1 or more"),
        ("uniform:nodes=10,edges=999999999999999", "bytes"),
        ("rmat:scale=4", "--whole"),
        ("graph.mtx", "no such file"),
        ("graph.txt.gz", "no such file"),
        ("missing.txt", "no such file"),
        ("missing.npz", "no such file"),
        ("weblike-parts:parts=3,nodes=10", "edges=M"),
        ("weblike-parts:parts=3,nodes=10,edges=5,reach=2", "reach=2"),
        ("weblike-parts:parts=3,parts=3,nodes=10,edges=5", "parts=3"),
        ("weblike-parts:parts=0,nodes=10,edges=5", "0 parts"),
        ("weblike-parts:parts=9,nodes=999999999,edges=5", "2\\^31"),
        ("weblike-parts:parts=1,nodes=10,edges=99999999999999", "bytes"),
    ],
)
def test_what_ranks_cannot_share_is_refused_in_a_sentence(spec, told):
    class Alone:
        rank, size = 0, 1

    with pytest.raises(InputError, match=told):
        reading.share(spec, Alone())


@pytest.mark.parametrize("name", ["graph.mtx", "graph.txt.gz"])
def test_files_that_ranks_cannot_share_are_refused_with_advice(tmp_path, name):
    (tmp_path / name).write_text("")

    class Alone:
        rank, size = 0, 1

    with pytest.raises(InputError, match="--whole"):
        reading.share(str(tmp_path / name), Alone())


def test_an_edge_list_that_is_wrong_in_a_later_share_names_the_line(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("0 1\n" * 99 + "0 x\n")

    class Last:
        rank, size = 1, 2

    with pytest.raises(InputError, match=r"x\.txt, line 100"):
        edge_list_share.read(path, Last(), ReadOptions())
    path.write_text("a b\nc d\n")
    with pytest.raises(InputError, match="names"):
        edge_list_share.read(path, Last(), ReadOptions())


COUNTS = """
import sys
from cpms import InputError
from cpms.backends.mpi.shares.reading import read
from cpms.backends.mpi.exchange.world import world

try:
    read(sys.argv[1], world())
except InputError as error:
    assert "may be the numbers of nodes and of edges" in str(error), error
else:
    raise AssertionError
assert read(sys.argv[1], world(), header="yes").nodes == 61
"""


@needs_mpi
@pytest.mark.parametrize("ranks", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3))])
def test_ranks_refuse_a_first_line_that_may_count_edges(tmp_path, ranks):
    (tmp_path / "counted.txt").write_text("60 59\n" + "".join(f"{k} {k + 1}\n" for k in range(1, 60)))
    code, _, errors = mpi_runs.run(ranks, "-c", COUNTS, str(tmp_path / "counted.txt"))
    assert code == 0, errors


def npz(folder, **changed):
    graph = mpi_runs.weighted(cpms.load("uniform:nodes=50,edges=300"))
    arrays = {
        "cpms_graph": np.int64(1),
        "indptr": graph.indptr,
        "sources": graph.sources,
        "name": np.str_("g"),
        "first_id": np.int64(0),
        "weights": graph.weights,
    } | changed
    np.savez(folder / "x.npz", **{name: array for name, array in arrays.items() if array is not None})
    return folder / "x.npz"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"cpms_graph": None}, "did not write it"),
        ({"cpms_graph": np.int64(9)}, "did not write it"),
        ({"cpms_graph": np.array([1, 1])}, "did not write it"),
        ({"names": np.arange(50)}, "names"),
        ({"first_id": np.array([0, 1])}, "a field holds 2 values where one belongs"),
        ({"first_id": np.float64(0.5)}, "array first_id holds float64"),
        ({"name": np.array(["a", "b"])}, "a field holds 2 values where one belongs"),
        ({"name": None}, "corrupt"),
        ({"sources": np.full(300, 50, np.int32)}, "no node"),
        ({"sources": np.full(300, -1, np.int32)}, "no node"),
        ({"sources": np.zeros(299, np.int32)}, "row starts"),
        ({"indptr": np.r_[0, 300, np.zeros(48, int), 300]}, "row starts"),
        ({"indptr": None}, "corrupt"),
        ({"weights": np.zeros(300)}, "weights"),
        ({"weights": np.ones(7)}, "weights"),
        ({"sources": np.array(["a"] * 300)}, "not the numbers"),
    ],
)
def test_corrupt_npz_files_are_refused(tmp_path, changed, told):
    path = npz(tmp_path, **changed)
    with pytest.raises(InputError, match=told):
        [npz_share.read(path, rank, 2) for rank in range(2)]


def test_compressed_and_broken_npz_files_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, cpms_graph=1, indptr=np.zeros(3))
    with pytest.raises(InputError, match="compressed"):
        npz_share.read(path, 0, 1)
    whole = npz(tmp_path).read_bytes()
    for length in (0, 10, len(whole) // 2):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"x\.npz"):
            npz_share.read(path, 0, 1)
