"""The time that is left of a phase falls to zero and is never negative; readers and generators count all their work."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import cpms
from cpms.base import threads
from cpms.base.text import phases
from cpms.graph import csr_build
from cpms.sources import generators, matrices
from cpms.sources.readers import npz

TIMES = st.floats(0.0, 1e6)


def at(moment):
    """Return a stand-in for the work clock, which shows a moment."""
    return SimpleNamespace(now=lambda: moment)


@given(
    counts=st.lists(st.floats(-10.0, 1e6), min_size=1, max_size=8),
    seconds=st.lists(TIMES, min_size=8, max_size=8),
    total=st.one_of(st.none(), st.floats(0.0, 1e6)),
    later=TIMES,
)
def test_the_time_left_is_never_negative_and_falls_until_the_next_part(counts, seconds, total, later):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(phases, "work_clock", at(0.0))
        phase, now = phases.Phase("work", total), 0.0
        assert phase.left_s(later) is None
        for count, spent in zip(counts, seconds, strict=False):
            now += spent
            patched.setattr(phases, "work_clock", at(now))
            phase.advance(count)
            left = phase.left_s(now)
            assert (left is None) == (not phase.part)
            assert left is None or 0.0 <= phase.left_s(now + later) <= left
            assert phase.part is None or 0.0 <= phase.part <= 1.0


@given(total=st.integers(1, 50), each=st.floats(0.01, 1e3), done=st.floats(0.0, 1.0), waited=st.floats(0.0, 1.0))
def test_parts_of_one_length_tell_the_time_that_is_left_which_ends_at_zero(total, each, done, waited):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(phases, "work_clock", at(3.0))
        phase, first = phases.Phase("work", total), 1 + round(done * (total - 1))
        patched.setattr(phases, "work_clock", at(3.0 + first * each))
        phase.advance(first)
        moment = first * each + waited * (total - first) * each
        assert phase.left_s(3.0 + moment) == pytest.approx(total * each - moment, rel=1e-6, abs=1e-9 * total * each)
        phase.advance(total - first)
        assert phase.left_s(3.0 + total * each) == 0.0


def test_phases_end_with_their_block_also_by_an_error_and_the_innermost_is_current():
    with phases.phase("outer") as outer:
        assert phases.current() is outer
        with pytest.raises(KeyError), phases.phase("inner", 2) as inner:
            {}[phases.current() is inner]
        assert phases.current() is outer
    assert phases.current() is None


def test_parts_of_all_threads_count():
    phase = phases.Phase("work", 1000)
    threads.each(phase.counting(lambda part: part), range(1000), threads=4)
    assert phase.part == 1.0


@pytest.fixture
def stated(monkeypatch):
    """Return the phases that are begun, in their order."""
    found = []

    class Recorded(phases.Phase):
        def __init__(self, *given):
            super().__init__(*given)
            found.append(self)

    monkeypatch.setattr(phases, "Phase", Recorded)
    return found


def files(folder):
    """Write an edge list in each kind of file; return their paths."""
    edges = np.random.default_rng(1).integers(0, 3000, (50_000, 2))
    text = "\n".join(f"{source} {target}" for source, target in edges).encode()
    matrix = b"%%MatrixMarket matrix coordinate pattern general\n3000 3000 3\n1 2\n2 3\n3000 1\n"
    (folder / "plain.txt").write_bytes(text)
    (folder / "packed.txt.gz").write_bytes(gzip.compress(text))
    with zipfile.ZipFile(folder / "packed.txt.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("plain.txt", text)
    with tarfile.open(folder / "g.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("g/g.mtx")
        member.size = len(matrix)
        archive.addfile(member, io.BytesIO(matrix))
    (folder / "g.mtx").write_bytes(matrix)
    graph = cpms.Graph.from_edges(*edges.T)
    npz.save_npz(graph, folder / "graph.npz")
    scipy.sparse.save_npz(folder / "matrix.npz", graph.to_scipy())
    pd.DataFrame(edges, columns=["from", "to"]).to_parquet(folder / "table.parquet")
    return sorted(folder.iterdir())


def test_all_bytes_of_a_file_are_counted_while_it_is_read(tmp_path, stated):
    for path in files(tmp_path):
        stated.clear()
        cpms.load(path)
        reading = [phase.part for phase in stated if phase.name == f"reading {path.name}"]
        assert reading == [1.0], path.name
    stated.clear()
    cpms.matrix(tmp_path / "g.mtx")
    assert [phase.part for phase in stated if phase.name == "reading g.mtx"] == [1.0]


@pytest.mark.parametrize(
    "spec",
    [
        *("rmat:scale=6", "uniform:nodes=9,edges=30", "weblike:nodes=500,edges=2000", "torus:side=5"),
        *("copying:nodes=500", "rgg:scale=6", "stencil:points=7,side=5"),
    ],
)
def test_generators_count_what_they_draw_to_the_end(stated, spec):
    (matrices if matrices.is_name(spec) else generators).generate(spec)
    sized = [phase.part for phase in stated if phase.total]
    assert stated[0].name == f"generating {spec.partition(':')[0]}"
    assert sized
    assert sized == [1.0] * len(sized)


@pytest.mark.parametrize(("edges", "weights"), [(0, None), (1, None), (3000, None), (3000, np.ones(3000))])
def test_passes_of_a_sort_add_up_to_all_of_it(monkeypatch, stated, edges, weights):
    monkeypatch.setattr(csr_build, "_BUCKET", 16)
    monkeypatch.setattr(csr_build, "_PART", 100)
    ends = np.random.default_rng(1).integers(0, 200, (2, edges))
    csr_build._sorted_by_buckets(*ends, weights, 200, np.dtype(np.int32))
    (sorting,) = stated
    assert sorting.part == pytest.approx(1.0 if edges else 1.0 - csr_build._DISTRIBUTED)
