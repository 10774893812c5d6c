"""Calls of libraries as they are: a library of our own stands for those of CUDA."""

import ctypes
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from cpms.backends.cuda.runtime import host_emulation
from cpms.backends.cuda.runtime.library_calls import Library, loaded
from cpms.base.errors import UnavailableError

pytestmark = pytest.mark.quick

SOURCE = """
#include <unistd.h>
static long streams[8];
static int made, sets, mode;
int standinCreate(void** handle) { static int handles[8]; *handle = &handles[made++]; return 0; }
int standinSetStream(void* handle, void* stream) { ++sets; streams[0] = (long)stream; return 0; }
int standinSetMode(void* handle, int value) { mode = value; return 0; }
int standinSum(void* handle, int count, const double* values, double* result) {
    *result = 0;
    for (int i = 0; i < count; ++i) *result += values[i];
    return 0;
}
int standinTold(void* handle, int* numbers) {
    numbers[0] = made; numbers[1] = sets; numbers[2] = mode; numbers[3] = (int)streams[0]; return 0;
}
int standinStream(void* handle, int* found) { usleep(50000); *found = (int)streams[0]; return 0; }
int standinFails(void* handle) { return 7; }
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A library that this process has loaded."""
    if host_emulation.compiler() is None:
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("library")
    code, library = folder / "standin.c", folder / "libstandin.so.3"
    code.write_text(SOURCE)
    subprocess.run(
        [host_emulation.compiler(), "-x", "c", "-shared", "-fPIC", str(code), "-o", str(library)], check=True
    )
    return library, ctypes.CDLL(str(library))


@pytest.fixture
def device(monkeypatch):
    """CuPy's answers on devices and streams."""
    current = SimpleNamespace(device=0, stream=16)
    cuda = SimpleNamespace(
        runtime=SimpleNamespace(getDevice=lambda: current.device),
        get_current_stream=lambda: SimpleNamespace(ptr=current.stream),
    )
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    return current


def opened():
    return Library(
        "libstandin",
        create="standinCreate",
        set_stream="standinSetStream",
        parameters={
            "standinSum": "ipp",
            "standinTold": "p",
            "standinStream": "p",
            "standinFails": "",
            "standinNone": "i",
        },
        settings={"standinSetMode": 5},
    )


def calls_of(library):
    numbers = np.zeros(4, np.int32)
    library.call("standinTold", numbers.ctypes.data)
    return numbers.tolist()


def test_calls_reach_the_library_with_addresses_whole(built, device):
    values, result = np.arange(5.0), np.zeros(1)
    opened().call("standinSum", 5, values.ctypes.data, result.ctypes.data)
    assert result[0] == 10.0


def test_a_device_has_one_handle_that_follows_the_stream(built, device):
    library = opened()
    made, sets, mode, stream = calls_of(library)
    assert (mode, stream) == (5, 16)
    assert calls_of(library) == [made, sets, 5, 16]
    device.stream = 32
    assert calls_of(library) == [made, sets + 1, 5, 32]
    device.device = 1
    assert calls_of(library) == [made + 1, sets + 2, 5, 32]


def test_a_call_runs_on_the_stream_of_its_own_thread(built, device, monkeypatch):
    own, library, found = threading.local(), opened(), {}
    monkeypatch.setattr(sys.modules["cupy"].cuda, "get_current_stream", lambda: SimpleNamespace(ptr=own.stream))

    def call(stream):
        own.stream, number = stream, np.zeros(1, np.int32)
        library.call("standinStream", number.ctypes.data)
        found[stream] = int(number[0])

    threads = [threading.Thread(target=call, args=(stream,)) for stream in (16, 32, 48)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {16: 16, 32: 32, 48: 48}


def test_a_status_is_an_error_that_names_the_function(built, device):
    with pytest.raises(RuntimeError, match="standinFails returned status 7"):
        opened().call("standinFails")


def test_a_library_says_what_it_has(built, device):
    assert opened().has("standinSum")
    assert not opened().has("standinNone")


def test_libraries_are_found_where_they_were_loaded_from(built, tmp_path):
    library, _ = built
    assert loaded("libstandin") == str(library)
    with pytest.raises(UnavailableError, match="libstandi is not loaded"):
        loaded("libstandi")
    with pytest.raises(UnavailableError, match="not loaded"):
        loaded("libstandin", tmp_path / "none")
