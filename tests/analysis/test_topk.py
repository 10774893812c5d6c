"""The k largest values: those of a stable sort, by every way and for any split, emulated and on a GPU."""

from __future__ import annotations

import itertools
from functools import reduce
from unittest.mock import patch

import kernel_catalogue
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import cpms
from cpms import InputError
from cpms.analysis import topk, topk_loops
from cpms.backends.cuda.arrays import launch_topk
from cpms.backends.cuda.kernels import streaming
from cpms.backends.cuda.runtime import current as current_module
from cpms.backends.cuda.runtime import host_emulation
from cpms.backends.cuda.runtime.current import current
from cpms.base import threads

few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 5e-324, -5e-324, 1.5, -1.5, 1.7976931348623157e308]
SPECIAL_32 = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 1.5, -1.5, 3.4028234663852886e38]


@pytest.fixture(scope="session", autouse=True)
def compiled_together(request):
    """Compile what these tests launch on this machine at once: one by one it takes longer."""
    if host_emulation.compiler() is not None:
        request.getfixturevalue("host_backend").compile(kernel_catalogue.every()["topk"])


def by_partition(values, k):
    places = topk._by_partition(values, k)
    return values[places], places


def by_reduction(values, k):
    places = topk._by_reduction(values, k) if k else np.zeros(0, np.int64)
    return values[places], places


def on_host(values, k):
    return launch_topk.topk(values, k)


def on_gpu(values, k):
    # A slice of a larger array may begin anywhere, as the given one does.
    buffer = current().arrays.empty(len(values) + 1, values.dtype)
    begin = values.ctypes.data % 16 // values.itemsize % 2
    buffer[begin : begin + len(values)] = current().arrays.asarray(values)
    found = cpms.topk(buffer[begin : begin + len(values)], k)
    assert all(isinstance(part, current().arrays.ndarray) for part in found)
    return tuple(current().to_host(part) for part in found)


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request):
    with current_module.using(request.getfixturevalue(f"{request.param}_backend")):
        yield {"host": on_host, "gpu": on_gpu}[request.param]


@pytest.fixture(params=["partition", "reduction", "host", pytest.param("gpu", marks=pytest.mark.gpu)])
def way(request):
    if request.param in ("partition", "reduction"):
        yield {"partition": by_partition, "reduction": by_reduction}[request.param]
        return
    with current_module.using(request.getfixturevalue(f"{request.param}_backend")):
        yield {"host": on_host, "gpu": on_gpu}[request.param]


def agree(way, values, k):
    """Hold a way against the stable sort, bit for bit."""
    expected = np.argsort(-values, kind="stable")[:k]
    found, places = way(values, k)
    np.testing.assert_array_equal(places, expected)
    assert places.dtype == np.int64
    assert found.dtype == values.dtype
    assert found.tobytes() == values[expected].tobytes()


def value_lists(most):
    doubles = st.lists(st.sampled_from(SPECIAL) | st.floats(), min_size=1, max_size=most)
    singles = st.lists(st.sampled_from(SPECIAL_32) | st.floats(width=32), min_size=1, max_size=most)
    return doubles.map(np.array) | singles.map(lambda values: np.array(values, np.float32))


@given(values=value_lists(40), data=st.data())
@few
def test_the_largest_of_any_values_are_those_of_a_stable_sort(way, values, data):
    agree(way, values, data.draw(st.integers(0, len(values))))


def patterns(length):
    random = np.random.default_rng(length)
    yield "random", random.random(length)
    yield "ranks", np.maximum(random.random(length) ** -0.9, 1.5)
    yield "rising", np.arange(length, dtype=np.float64)
    yield "falling", -np.arange(length, dtype=np.float64)
    yield "equal", np.full(length, 0.25)
    yield "few levels", random.integers(0, 3, length).astype(np.float64)
    yield "special", random.choice(SPECIAL_32, length)
    yield "no numbers", np.full(length, np.nan)
    yield "one number", np.where(np.arange(length) == length // 3, -np.inf, np.nan)
    yield "infinities", np.full(length, np.inf)


@pytest.mark.representatives(length=("255", "4097", "41003"))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("length", [255, 2048, 4096, 4097, 41_003])
def test_patterns_that_defeat_thresholds(way, length, dtype):
    for name, doubles in patterns(length):
        values = doubles.astype(dtype)
        for begin in (0, 1):  # as a slice, which is not aligned to 16 bytes
            for k in (1, 5, 100) if name == "random" else (32,):
                agree(way, values[begin:], k)


@pytest.mark.parametrize("size", streaming.TOPK_SIZES)
def test_every_list_length_on_a_device(device, size):
    values = np.random.default_rng(size).integers(0, 9000, 10_000).astype(np.float64)
    for k in {size // 2 + 1, size}:
        agree(device, values, k)
        agree(device, values.astype(np.float32), k)


def test_longer_lists_are_sorted_on_the_device(device):
    values = np.random.default_rng(3).integers(0, 900, 3000).astype(np.float64)
    special = np.random.default_rng(4).choice(SPECIAL_32, 3000)
    for k in (1025, 3000):
        agree(device, values, k)
        agree(device, special, k)
        agree(device, special.astype(np.float32), k)


@pytest.mark.quick
@given(values=value_lists(60), cuts=st.lists(st.integers(0, 60), max_size=6), data=st.data())
@example(values=np.zeros(9), cuts=[3, 3, 6], data=None)
@few
def test_lists_of_any_split_merge_to_that_of_the_whole(values, cuts, data):
    k = 4 if data is None else data.draw(st.integers(1, len(values)))
    edges = sorted({0, len(values), *(cut for cut in cuts if cut < len(values))})
    lists = [topk_loops.select(values, a, b, k) for a, b in itertools.pairwise(edges)]
    if data is not None:
        lists = data.draw(st.permutations(lists))
    _, places = reduce(lambda a, b: topk_loops.merge(*a, *b), lists)
    np.testing.assert_array_equal(places, np.argsort(-values, kind="stable")[:k])


@pytest.mark.quick
@pytest.mark.parametrize("count", [1, 2, 5])
def test_threads_do_not_matter(count):
    for _, values in patterns(30_011):
        with patch.object(topk, "_FEW_VALUES", 1000), threads.limited(count):
            agree(cpms.topk, values, 40)


def test_large_arrays_are_reduced_and_few_values_are_not():
    values = np.random.default_rng(8).random(1 << 17)
    with patch.object(topk, "_by_partition", side_effect=AssertionError):
        agree(cpms.topk, values, 100)
    with patch.object(topk, "_by_reduction", side_effect=AssertionError):
        agree(cpms.topk, values, 1 << 15)
        agree(cpms.topk, values[:1000], 10)


@pytest.mark.parametrize(("blocks", "piece"), [(1, 1 << 31), (3, 1 << 31), (8, 2049), (2, 7000)])
def test_blocks_and_pieces_do_not_matter(device, blocks, piece):
    with patch.object(launch_topk, "_MAX_BLOCKS", blocks), patch.object(launch_topk, "MAX_VALUES", piece):
        for _, values in patterns(20_480):
            agree(device, values, 32)
        agree(device, np.zeros(20_480), 1000)
        agree(device, np.zeros(4098), 30)


def test_order_of_reading_does_not_matter_and_a_room_serves_again(device):
    values = np.random.default_rng(9).integers(0, 5000, 30_000).astype(np.float64)
    given_values = current().arrays.asarray(values)
    workspace = launch_topk.Workspace.make(given_values, 50)
    for in_order in (False, True, False):
        for shown in (values, -values):
            given_values[...] = current().arrays.asarray(shown)
            launch_topk.launch(given_values, 50, workspace, in_order=in_order)
            expected = np.argsort(-shown, kind="stable")[:50]
            np.testing.assert_array_equal(current().to_host(workspace.found), expected)
            np.testing.assert_array_equal(current().to_host(workspace.values), shown[expected])


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_what_is_read_late_is_not_lost(way, blocks):
    tile = np.arange(20_480) // 2048
    with patch.object(launch_topk, "_MAX_BLOCKS", blocks):
        for begin in range(10):
            agree(way, np.where(tile >= begin, 0.25, 0.0), 32)
            agree(way, np.where(tile == begin, -np.inf, np.nan), 32)


@given(st.integers(1, 5000), st.integers(1, 1024))
@example(10, 4)
def test_a_stride_meets_every_tile_once(tiles, blocks):
    for stride in (launch_topk._stride(tiles, blocks), topk_loops._stride.py_func(tiles)):
        assert len({i * stride % tiles for i in range(tiles)}) == tiles


@pytest.mark.parametrize("tiles", [24_414, 48_828])
def test_no_block_reads_tiles_in_an_order_that_rises_or_falls(tiles):
    blocks, each = 528, -(-tiles // 528)
    step = blocks * launch_topk._stride(tiles, blocks) % tiles
    for first in range(0, tiles, 997):
        taken = [(first + i * step) % tiles for i in range(each)]
        records = [sum(taken[i] == best(taken[: i + 1]) for i in range(1, each)) for best in (min, max)]
        assert max(records) <= 2 * np.log2(each)  # 16 and 18 by the golden section of all tiles


@pytest.mark.parametrize(
    ("values", "k", "said"),
    [
        (np.ones(3), 4, "4 largest of 3 values do not exist; k must be 0 to 3"),
        (np.ones(3), -1, "-1 largest"),
        (np.ones(3), 1.5, "k is 1.5; it must be a whole number"),
        (np.ones(0), 1, "k must be 0 to 0"),
        (np.ones(3, int), 1, "int64.*convert them to float64 or float32"),
        (np.ones(3, np.float16), 1, "float16"),
        (np.ones(3, ">f8"), 1, "convert"),
        (np.ones((2, 2)), 1, r"shape \(2, 2\).*one dimension"),
        (np.array(1.0), 1, "one dimension"),
    ],
)
def test_what_has_no_k_largest_is_refused(values, k, said, host_backend):
    with pytest.raises(InputError, match=said):
        cpms.topk(values, k)
    with current_module.using(host_backend), pytest.raises(InputError, match=said):
        launch_topk.topk(values, k)


def test_lists_strides_and_read_only_arrays_are_taken():
    assert cpms.topk([], 0).places.tolist() == []
    assert cpms.topk([0.5, 2.0, 1.0], 2).values.tolist() == [2.0, 1.0]
    values = np.random.default_rng(4).random((1 << 17) + 1)
    agree(cpms.topk, values[::-1], 5)
    agree(cpms.topk, values[::2], 5)
    agree(cpms.topk, np.frombuffer(b"x" + values.tobytes(), np.float64, offset=1), 5)
    values.flags.writeable = False
    agree(cpms.topk, values, 5)


@pytest.mark.parametrize("values", [np.ma.array([9.0, 5.0], mask=[1, 0]), [[1.0], [2.0, 3.0]]])
def test_what_is_no_list_of_numbers_is_refused(values):
    with pytest.raises(InputError):
        cpms.topk(values, 1)


@pytest.mark.gpu
@pytest.mark.usefixtures("gpu_backend")
class TestOnAGpu:
    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_millions_of_values(self, gpu_backend, dtype):
        with current_module.using(gpu_backend):
            for _, doubles in patterns(3_000_017):
                values = doubles.astype(dtype)
                for k in (10, 1000):
                    agree(on_gpu, values, k)

    def test_arrays_of_other_libraries_stay_on_the_device(self):
        torch = pytest.importorskip("torch", reason="torch is not installed")
        values = torch.rand(100_000, dtype=torch.float64, device="cuda")
        found, places = cpms.topk(values, 7)
        expected = torch.topk(values, 7)
        assert found.tolist() == expected.values.tolist()
        assert places.tolist() == expected.indices.tolist()

    def test_strided_arrays_are_copied_on_the_device(self, gpu_backend):
        with current_module.using(gpu_backend):
            values = np.random.default_rng(5).random(10_000)
            found = cpms.topk(current().arrays.asarray(values)[::-2], 9)
            np.testing.assert_array_equal(current().to_host(found.places), np.argsort(-values[::-2], kind="stable")[:9])
