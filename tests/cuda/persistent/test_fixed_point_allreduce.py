"""Fixed-point all-reduce fused with the grid barrier: exact for any values and any order of arrival."""

import math
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

few = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MOST_BLOCKS = 255

ADDED = """
namespace cpms {
// What the words of a sum, and of a largest value, count and say after each block; they were used before.
void added(const double* parts, unsigned blocks, double size, double expected, u64* words, unsigned* counted,
           double* said) {
    said[0] = 0.0;
    unsigned highest = 0;
    for (int w = 0; w < 3; ++w) {
        const FixedPointSum sum{exponent_of(size), w};
        const FixedPointMax largest{exponent_of(expected), w};
        u64 *const of_sum = words + w, *const of_largest = words + 3 + w;
        const u64 before_sum = *of_sum, before_largest = *of_largest;
        for (unsigned block = 0; block < blocks; ++block) {
            *of_sum += sum.encode(parts[block]);
            *of_largest += largest.encode(fabs(parts[block]));
            counted[6 * block + w] = FixedPointSum::arrivals(*of_sum - before_sum);
            counted[6 * block + 3 + w] = FixedPointMax::arrivals(*of_largest - before_largest);
        }
        said[0] += sum.decode(*of_sum - before_sum);
        highest = larger(highest, largest.bucket(*of_largest - before_largest));
        said[1] = largest.upper_bound(highest, -1.0);
    }
}
}
extern "C" void launch_added(unsigned blocks, unsigned threads, void** arguments) {
    host::launch(cpms::added, blocks, threads, arguments);
}
"""


@pytest.fixture(scope="session")
def added(device_code):
    """Return a function of parts, what sums are about as large as, what is expected, and words of before."""
    launch = device_code("persistent/fixed_point_allreduce.cuh", "added", ADDED)

    def add(parts, size, expected, before=(0,) * 6):
        words, said = np.array(before, np.uint64), np.empty(2)
        counted = np.empty((len(parts), 6), np.uint32)
        given_numbers = np.array(parts, np.float64), np.uint32(len(parts)), np.float64(size), np.float64(expected)
        launch(1, 1, (*given_numbers, words, counted, said))
        assert (counted == np.arange(1, len(parts) + 1)[:, None]).all()
        return words, *said.tolist()

    return add


sizes = st.floats(-270, 270).map(lambda exponent: 10.0**exponent)
parts_over_size = st.lists(st.floats(-1, 1), min_size=1, max_size=MOST_BLOCKS)
words = st.tuples(*[st.integers(0, 2**64 - 1)] * 6)


@given(shares=parts_over_size, size=sizes, growth=st.one_of(st.floats(-110, -60), st.floats(-60, 35)), before=words)
@example(shares=[1.0] * MOST_BLOCKS, size=1.0, growth=35, before=(0,) * 6)
@example(shares=[-1.0] * MOST_BLOCKS, size=1.0, growth=35, before=(2**64 - 1,) * 6)
@few
def test_sums_are_those_of_float64_and_better(added, shares, size, growth, before):
    parts = [share * size * 2.0**growth for share in shares]
    _, total, _ = added(parts, size, size, before)
    exact = math.fsum(parts)
    # Of each part half of the last bit is lost at most, and float64 rounds each word's sum and the total.
    assert abs(total - exact) <= len(parts) * 2.0**-106 * size + 2 * math.fsum(map(abs, parts)) * sys.float_info.epsilon


@given(shares=parts_over_size, size=sizes, seed=st.integers(0, 9))
@few
def test_words_do_not_depend_on_who_comes_first(added, shares, size, seed):
    parts = np.array(shares) * size
    found, shuffled = added(parts, size, size), added(np.random.default_rng(seed).permutation(parts), size, size)
    np.testing.assert_array_equal(found[0], shuffled[0])
    assert found[1:] == shuffled[1:]


@given(
    parts=st.lists(st.floats(), min_size=1, max_size=MOST_BLOCKS),
    size=st.one_of(st.sampled_from([0.0, 5e-324, 1.7e308]), sizes),
)
@few
def test_blocks_are_counted_whatever_they_bring(added, parts, size):
    _, total, _ = added(parts, size, size)  # counts are looked at there
    assert math.isfinite(total)


def test_a_sum_that_grew_beyond_all_bounds_is_still_large(added):
    assert added([1e300] * 5, 1.0, 1.0)[1] >= 2.0**36


@given(parts=parts_over_size, expected=sizes, growth=st.integers(-80, 80))
@few
def test_a_largest_value_is_none_that_any_exceeds_and_near_if_it_was_expected(added, parts, expected, growth):
    parts = [part * expected * 2.0**growth for part in parts]
    _, _, found = added(parts, 1.0, expected)
    largest = max(map(abs, parts))
    grown = math.frexp(largest)[1] - math.frexp(expected)[1] if largest else 0
    if found == -1.0:
        assert grown >= 8
        return
    assert grown < 8
    assert largest <= found
    if largest == 0.0:
        assert found == 0.0
    elif grown < -2:
        assert found < 2.0 ** (math.frexp(expected)[1] - 3)
    elif grown < 2:
        assert math.frexp(found)[1] == math.frexp(largest)[1]
        assert found <= 1.25 * largest
    else:
        assert found <= 16 * largest


def test_what_is_no_number_is_not_the_largest(added):
    assert 1.0 <= added([math.nan, 1.0, math.nan], 1.0, 1.0)[2] <= 1.25
    assert added([math.nan, 0.0], 1.0, 1.0)[2] == 0.0


TWO_BLOCKS = """
namespace cpms {
// Block 0 of two, whose thread 0 arrives for the other one, too: fixed point, a barrier, twice fixed point, and
// GridReduce at last.
void two_blocks(const double* values, const double* others, double size, double expected, double* partials,
                u32* arrived, double* said) {
    gridDim.x = 2;
    __shared__ FixedPointAllReduce allreduce;
    const Grid grid(partials, arrived);
    allreduce.begin(grid);
    __syncthreads();
    for (u32 turn = 0; turn < 5; ++turn) {
        const double* const mine = values + (turn * blockDim.x + threadIdx.x) * 4;
        if (threadIdx.x == 0) {
            for (u32 q = 0; q < 4 && turn != 1; ++q) {
                const double other = others[turn * 4 + q];
                partials[grid.parity() * max_partials * gridDim.x + q * gridDim.x + 1] = other;
                for (int w = 0; w < 3 && turn < 4; ++w) {
                    const FixedPointSum sum{exponent_of(size), w};
                    const FixedPointMax largest{exponent_of(expected), w};
                    add_relaxed(grid.words(grid.parity()) + 3 * q + w,
                                q < 3 ? sum.encode(other) : largest.encode(other));
                }
            }
            add_relaxed(arrived, 1);
        }
        __syncthreads();
        GridReduce<4, 1> totals{{mine[0], mine[1], mine[2], mine[3]}};
        if (turn == 1) grid.sync([] {});
        else if (turn == 4) totals.all_reduce(grid);
        else allreduce.all_reduce(grid, totals, size, expected, [] {});
        for (u32 q = 0; q < 4; ++q) said[(turn * blockDim.x + threadIdx.x) * 4 + q] = totals.value[q];
    }
    grid.end();
}
}
extern "C" void launch_two_blocks(unsigned blocks, unsigned threads, void** arguments) {
    host::launch(cpms::two_blocks, blocks, threads, arguments);
}
"""


@pytest.fixture(scope="session")
def two_blocks(device_code):
    """Return a function that runs one block of two, the other one's part being given."""
    return device_code("persistent/fixed_point_allreduce.cuh", "two_blocks", TWO_BLOCKS)


@pytest.mark.parametrize("threads", [384, 512])
@pytest.mark.parametrize("grown", [1.0, 1e-3, 1e6])
def test_blocks_get_the_totals_of_all_in_either_half_and_from_launch_to_launch(two_blocks, threads, grown):
    random = np.random.default_rng(threads)
    partials, came = np.zeros(2 * 45 * 2), np.zeros(96, np.uint32)
    came[:2] = 2**32 - 5
    came[32:].view(np.uint64)[:] = 2**64 - 2**57
    for _ in range(3):
        values = random.random((5, threads, 4)) * [1.0, 1.0, -1.0, grown]
        others = random.random((5, 4)) * [1.0, -1.0, 1.0, grown]
        said = np.full_like(values, np.nan)
        two_blocks(1, threads, (values, others, np.float64(threads), np.float64(1.0), partials, came, said))
        sums = values[:, :, :3].sum(axis=1) + others[:, :3]
        largest = np.maximum(values[:, :, 3].max(axis=1), others[:, 3])
        for turn in (0, 2, 3, 4):
            assert (said[turn] == said[turn, 0]).all()
            np.testing.assert_allclose(said[turn, 0, :3], sums[turn], rtol=1e-13, atol=1e-12)
        assert said[4, 0, 3] == largest[4]
        for turn in (0, 2, 3):
            found = said[turn, 0, 3]
            assert found == (said[turn, 0, 0] if grown > 1 else found) >= min(largest[turn], said[turn, 0, 0])
            assert grown != 1 or found <= 1.25 * largest[turn]
            assert grown >= 1 or found < 0.25
