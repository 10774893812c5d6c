"""The backend of a GPU and its calls of CuPy: devices, threads, captures and grids; in CuPy's place is a look-alike."""

from __future__ import annotations

import ctypes
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from cpms import UnsupportedError
from cpms.backends.cuda.kernels import persistent
from cpms.backends.cuda.kernels.launch_shape import DEFAULT_SHAPE
from cpms.backends.cuda.runtime import compile as compiling
from cpms.backends.cuda.runtime import current
from cpms.backends.cuda.runtime.backend import MAX_ASYNC_NUMBERS

KERNEL = persistent.persistent_power(DEFAULT_SHAPE, personal=False)


class Stream:
    """A stream that captures, or refuses to."""

    def __init__(self, *, refuses=False, **_):
        self.refuses, self.capturing, self.calls = refuses, False, []

    def __enter__(self):
        self.calls.append("in")

    def __exit__(self, *_):
        self.calls.append("out")

    def begin_capture(self):
        assert not self.capturing, "a capture is under way"
        self.capturing = True

    def end_capture(self):
        valid, self.capturing = self.capturing and not self.refuses, False
        if not valid:
            raise RuntimeError("there is no valid capture")
        return SimpleNamespace(upload=lambda _: None)


@pytest.fixture
def cupy(monkeypatch):
    """A module in CuPy's place, with two devices of which ``now`` is current, that hold two blocks each."""
    made = SimpleNamespace(now=0, asked=[])

    def held(*asked):
        made.asked.append(asked)
        return 2

    made.cuda = SimpleNamespace(
        Stream=Stream,
        Event=lambda **_: object(),
        Device=lambda: SimpleNamespace(attributes={"MultiProcessorCount": 3, "L2CacheSize": made.now}, id=made.now),
        runtime=SimpleNamespace(getDevice=lambda: made.now),
        get_current_stream=lambda: SimpleNamespace(ptr=11),
        driver=SimpleNamespace(occupancyMaxActiveBlocksPerMultiprocessor=held),
        memory=SimpleNamespace(OutOfMemoryError=MemoryError),
        compiler=SimpleNamespace(),
    )
    pinned = SimpleNamespace(empty_pinned=np.empty)
    monkeypatch.setitem(sys.modules, "cupy", made)
    monkeypatch.setitem(sys.modules, "cupyx", pinned)
    monkeypatch.setattr(compiling, "missing", lambda: None)
    monkeypatch.setattr(compiling, "_backends", {})
    monkeypatch.setattr(current, "_stack", [])
    return made


def test_each_device_has_a_backend_of_its_own(cupy):
    first = current.current()
    cupy.now = 1
    second = current.current()
    assert first is not second
    assert (first.cache_bytes, second.cache_bytes) == (0, 1)
    assert current.current() is second
    cupy.now = 0
    assert current.current() is first


def test_threads_share_neither_captures_nor_pinned_buffers(cupy):
    backend, others = current.current(), []
    own = {id(backend._own.capturing), *(id(buffer) for buffer, _ in (next(backend._own.buffers) for _ in range(8)))}

    def of_another():
        others.append(backend._own.capturing)
        others.extend(buffer for buffer, _ in (next(backend._own.buffers) for _ in range(8)))

    thread = threading.Thread(target=of_another)
    thread.start()
    thread.join()
    assert len(others) == 9
    assert not own & {id(other) for other in others}
    assert others[1].shape == (MAX_ASYNC_NUMBERS,)


def test_an_asynchronous_copy_never_exceeds_its_buffer(cupy):
    with pytest.raises(ValueError, match="4,097 numbers exceed the 4,096 of a buffer; use to_host"):
        current.current().fetch_async(np.zeros(MAX_ASYNC_NUMBERS + 1))


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_within_a_capture_ends_it(cupy, error):
    backend = current.current()

    def work():
        raise error

    with pytest.raises(error):
        backend.capture(work)
    assert backend.capture(lambda: None) is not None
    assert backend._own.capturing.calls == ["in", "out"] * 2


def test_a_capture_that_is_refused_is_none(cupy):
    backend = current.current()

    def work():
        raise RuntimeError("a library refuses")

    assert backend.capture(work) is None
    backend._own.capturing.refuses = True
    assert backend.capture(lambda: None) is None
    backend._own.capturing.refuses = False
    assert backend.capture(lambda: None) is not None


def test_more_blocks_than_the_device_holds_are_refused_and_not_left_out(cupy):
    backend, launched = current.current(), []

    def launch(*given):
        *grid, packed = given
        addresses = (ctypes.c_void_p * 2).from_address(packed)
        launched.append((*grid, *(ctypes.c_uint32.from_address(address).value for address in addresses)))

    cupy.cuda.driver.launchCooperativeKernel = launch
    backend._functions[0, KERNEL.symbol] = SimpleNamespace(kernel=SimpleNamespace(ptr=7))
    assert backend.max_blocks(KERNEL) == 6
    backend.run_persistent(KERNEL, 6, (np.uint32(1), np.uint32(2)))
    assert launched == [(7, *(6, 1, 1), *(512, 1, 1), 0, 11, 1, 2)]
    with pytest.raises(UnsupportedError, match="persistent_power is to run in 7 blocks at once, but this GPU holds 6"):
        backend.run_persistent(KERNEL, 7, (1, 2))
    assert len(launched) == 1
    assert cupy.asked == [(7, 512, 0)]
