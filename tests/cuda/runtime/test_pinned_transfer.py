"""Large arrays that come and go in parts: by a stream that works only when it is waited for, and on a GPU."""

import ctypes
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpms.backends.cuda.runtime import pinned_transfer
from cpms.backends.cuda.runtime.pinned_transfer import PinnedTransfer

pytestmark = pytest.mark.quick


class LazyStream:
    """Copies nothing before somebody waits for an event behind it."""

    ptr = 0

    def __init__(self):
        self.queue, self.lock = [], threading.RLock()

    def memcpyAsync(self, to, given, size, kind, stream):  # noqa: ARG002, N802  # As CuPy has it.
        with self.lock:
            self.queue.append(lambda: ctypes.memmove(to, given, size))

    def run_until(self, count):
        while count > 0 and self.queue:
            self.queue.pop(0)()
            count -= 1


class Event:
    def __init__(self, stream):
        self.stream, self.behind = stream, None

    def record(self, stream):
        with stream.lock:
            stream.queue.append(lambda: None)
            self.behind = stream.queue[-1]

    def synchronize(self):
        with self.stream.lock:
            if self.behind in self.stream.queue:
                self.stream.run_until(self.stream.queue.index(self.behind) + 1)


class OnDevice:
    """An array whose values only a stream's copies reach."""

    def __init__(self, shape, dtype):
        self.memory = np.empty(shape, dtype)
        self.shape, self.dtype, self.nbytes = shape, np.dtype(dtype), self.memory.nbytes
        self.data = SimpleNamespace(ptr=self.memory.ctypes.data)


def lazy_transfer():
    stream = LazyStream()
    runtime = SimpleNamespace(memcpyAsync=stream.memcpyAsync, memcpyHostToDevice=1, memcpyDeviceToHost=2)
    cuda = SimpleNamespace(
        runtime=runtime, get_current_stream=lambda: stream, Event=lambda **_: Event(stream), Device=nullcontext
    )
    cupy = SimpleNamespace(empty=OnDevice, ascontiguousarray=lambda array: array, cuda=cuda)
    return PinnedTransfer(cupy, np.empty), stream


@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=4),
    dtype=st.sampled_from([np.uint8, np.int32, np.float64]),
    seed=st.integers(0, 99),
)
@settings(deadline=None)
def test_arrays_arrive_whatever_a_stream_has_done_by_then(sizes, dtype, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pinned_transfer, "_BUFFER_BYTES", 64)
        transfer, stream = lazy_transfer()
        random = np.random.default_rng(seed)
        for size in sizes:
            values = random.integers(0, 256, size * np.dtype(dtype).itemsize).astype(np.uint8).view(dtype)
            made = transfer.to_device(values)
            back = transfer.to_host(made)
            assert back.dtype == values.dtype
            assert back.tobytes() == values.tobytes()
            strided = values[::2]
            made = transfer.to_device(strided)
            stream.run_until(len(stream.queue))
            assert made.memory.tobytes() == strided.tobytes()


@pytest.mark.parametrize(("stream_ptr", "one_thread"), [(0, False), (1, False), (2, True)])
def test_a_stream_of_each_thread_is_not_used_from_other_threads(monkeypatch, stream_ptr, one_thread):
    monkeypatch.setattr(pinned_transfer, "_BUFFER_BYTES", 64)
    transfer, stream = lazy_transfer()
    stream.ptr, movers, helped = stream_ptr, set(), threading.Event()
    move = stream.memcpyAsync

    def moved_here(*given):
        movers.add(threading.get_ident())
        if one_thread or len(movers) > 1:
            helped.set()
        assert helped.wait(60)
        move(*given)

    transfer._cupy.cuda.runtime.memcpyAsync = moved_here
    monkeypatch.setattr(pinned_transfer.threads, "available", lambda: 2)
    values = np.arange(1000.0)
    assert transfer.to_host(transfer.to_device(values)).tobytes() == values.tobytes()
    assert (movers == {threading.get_ident()}) == one_thread


@pytest.mark.gpu
@pytest.mark.parametrize(
    "count", [1, 8192, 8193, pinned_transfer.MIN_BYTES // 8 - 1, 1 << 17, (1 << 20) + 1, (1 << 21) - 1, 5_000_011]
)
def test_arrays_are_the_same_on_a_gpu(gpu_backend, count):
    values = np.random.default_rng(count).random(count)
    for given_values in (values, values.astype(np.float32), values.reshape(-1, 1)[::3]):
        made = gpu_backend.upload(given_values)
        assert made.shape == given_values.shape
        np.testing.assert_array_equal(gpu_backend.arrays.asnumpy(made), given_values)
        np.testing.assert_array_equal(gpu_backend.to_host(made), given_values)
        np.testing.assert_array_equal(gpu_backend.to_host((made + 1.0)[::2]), given_values[::2] + 1.0)
        assert gpu_backend.upload(made) is made


@pytest.mark.gpu
@pytest.mark.parametrize("count", [1, 100, 8192, 8193, 1 << 17])
def test_values_on_the_way_to_a_gpu_may_change_after_the_call(gpu_backend, count):
    made = []
    values = np.empty(count)
    for turn in range(50):
        values[:] = turn
        made.append(gpu_backend.upload(values))
    values[:] = -1.0
    assert [set(gpu_backend.arrays.asnumpy(each).tolist()) for each in made] == [{float(turn)} for turn in range(50)]
