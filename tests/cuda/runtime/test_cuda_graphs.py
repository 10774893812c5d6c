"""Repeated launches: when a graph is captured, which vectors it holds, and when it is discarded."""

import gc
import weakref

import pytest

from cpms.backends.cuda.runtime import cuda_graphs
from cpms.backends.cuda.runtime.cuda_graphs import CudaGraphs


class Vector:
    """Stands for an array in device memory."""


class Graph:
    def __init__(self, work):
        self.work = work

    def launch(self):
        self.work("replayed")


class Device:
    """A backend that records captures; ``refuses`` makes capture fail, as a library may."""

    def __init__(self, *, refuses=False):
        self.refuses = refuses
        self.captures = 0

    def capture(self, work):
        self.captures += 1
        return None if self.refuses else Graph(work)


@pytest.fixture
def device(monkeypatch):
    made = Device()
    monkeypatch.setattr(cuda_graphs, "current", lambda: made)
    return made


def run(cuda_graphs, vectors, level, log):
    cuda_graphs.run(vectors, level, lambda how="launched": log.append(how))


def test_the_third_time_is_a_graph(device):
    cuda_graphs, log, x, out = CudaGraphs(), [], Vector(), Vector()
    for _ in range(5):
        run(cuda_graphs, (x, out), (1, 1), log)
    assert log == ["launched"] * 2 + ["replayed"] * 3
    assert device.captures == 1


def test_directions_and_levels_have_graphs_of_their_own(device):
    cuda_graphs, log, x, out = CudaGraphs(), [], Vector(), Vector()
    for _ in range(3):
        for vectors in ((x, out), (out, x)):
            for level in ((1, 1), (1, 2)):
                run(cuda_graphs, vectors, level, log)
    assert log == ["launched"] * 8 + ["replayed"] * 4
    assert device.captures == 4


def test_launches_that_cannot_be_captured_are_launched_and_capture_is_tried_once(device):
    device.refuses = True
    cuda_graphs, log, x, out = CudaGraphs(), [], Vector(), Vector()
    for _ in range(6):
        run(cuda_graphs, (x, out), (1, 1), log)
    assert log == ["launched"] * 6
    assert device.captures == 1


def test_vectors_live_as_long_as_graphs_hold_their_addresses(device):
    cuda_graphs, log = CudaGraphs(), []
    x, out = Vector(), Vector()
    seen = weakref.ref(x)
    for _ in range(3):
        run(cuda_graphs, (x, out), (1, 1), log)
    del x, out
    gc.collect()
    assert seen() is not None
    other = Vector(), Vector()
    run(cuda_graphs, other, (1, 1), log)
    gc.collect()
    assert seen() is None
    assert log[-1] == "launched"


def test_one_new_vector_ends_all_graphs(device):
    cuda_graphs, log, x, out = CudaGraphs(), [], Vector(), Vector()
    for _ in range(3):
        run(cuda_graphs, (x, out), (1, 1), log)
    run(cuda_graphs, (x, Vector()), (1, 1), log)
    run(cuda_graphs, (x, out), (1, 1), log)
    assert log == ["launched", "launched", "replayed", "launched", "launched"]


def test_graphs_captured_before_run_nothing_until_they_are_replayed(device):
    cuda_graphs, log, x, out = CudaGraphs(), [], Vector(), Vector()
    made = []
    cuda_graphs.prepare((x, out), lambda vector: vector, (1, 1), lambda *given: made.append(given))
    assert device.captures == 2
    run(cuda_graphs, (x, out), (1, 2), log)
    assert log == ["launched"]
    for vectors in ((x, out), (out, x)):
        run(cuda_graphs, vectors, (1, 1), log)
    assert log == ["launched"]
    assert made == [(x, out, "replayed"), (out, x, "replayed")]


def test_where_no_graph_can_be_captured_before_kernels_are_launched(device):
    device.refuses = True
    cuda_graphs, log, x, out = CudaGraphs(), [], Vector(), Vector()
    cuda_graphs.prepare((x, out), lambda vector: vector, (1, 1), lambda *_: None)
    device.refuses = False
    for _ in range(4):
        run(cuda_graphs, (x, out), (1, 1), log)
    assert log == ["launched", "launched", "replayed", "replayed"]


def test_clearing_releases_vectors_and_graphs(device):
    cuda_graphs, log, x, out = CudaGraphs(), [], Vector(), Vector()
    for _ in range(3):
        run(cuda_graphs, (x, out), (1, 1), log)
    seen = weakref.ref(x)
    del x, out
    cuda_graphs.clear()
    gc.collect()
    assert seen() is None


def test_a_graph_that_not_all_agree_on_is_discarded(device):
    asked = []
    cuda_graphs, log, x, out = CudaGraphs(lambda made: asked.append(made)), [], Vector(), Vector()
    for _ in range(5):
        run(cuda_graphs, (x, out), (1, 1), log)
    assert asked == [True]
    assert device.captures == 1
    assert log == ["launched"] * 5
