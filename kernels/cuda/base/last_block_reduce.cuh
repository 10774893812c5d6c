// Numbers that all threads of a grid bring, and what vectors have of them: each block joins its own, the block
// that comes last joins the blocks' in their order. No float atomics: the same input gives the same bits.
#pragma once
#include "base/native_load.cuh"
#include "base/warp.cuh"

namespace cpms {

// Sums, but for the last of them where it is a largest value.
template <int Count, bool Largest>
struct Numbers {
    static constexpr int count = Count;
    double value[Count];

    static CPMS_DEVICE double join(int q, double a, double b) {
        return Largest && q == Count - 1 ? Larger{}(a, b) : a + b;
    }
};

struct Join {
    template <class Some>
    CPMS_DEVICE Some operator()(const Some& a, const Some& b) const {
        Some joined{};
#pragma unroll
        for (int q = 0; q < Some::count; ++q) joined.value[q] = Some::join(q, a.value[q], b.value[q]);
        return joined;
    }
};

// OverBlock::joined(mine) is the block's, in thread 0.
template <class OverBlock, class Some>
CPMS_DEVICE void publish(const Some& mine, double* partials, u32* counter, double* result) {
    __shared__ bool last;
    const Some of_block = OverBlock::joined(mine);
    if (threadIdx.x == 0) {
        for (int q = 0; q < Some::count; ++q) partials[blockIdx.x * Some::count + q] = of_block.value[q];
        __threadfence();
        // The counter comes back to 0 for the next launch.
        last = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    Some all{};
    const volatile double* others = partials;
#pragma unroll 1
    for (u32 block = threadIdx.x; block < gridDim.x; block += blockDim.x) {
        Some other;
        for (int q = 0; q < Some::count; ++q) other.value[q] = others[block * Some::count + q];
        all = Join{}(all, other);
    }
    const Some in_all = OverBlock::joined(all);
    if (threadIdx.x == 0) {
        for (int q = 0; q < Some::count; ++q) result[q] = in_all.value[q];
    }
}

// result: the sum of x over the dangling nodes.
template <class OverBlock, class Real>
CPMS_DEVICE void dangling_mass(const Real* x, const u32* dangling, u32 count, double* partials, u32* counter,
                               double* result) {
    Numbers<1, false> mine{};
    const u32 threads = gridDim.x * blockDim.x;
#pragma unroll 4
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        mine.value[0] += load_plain(x + load_word(dangling + i, ReadOnly{}), ReadOnly{});
    }
    publish<OverBlock>(mine, partials, counter, result);
}

// result: L1 norm of the change, its sum of squares, the mass of the new vector, the largest change.
template <class OverBlock, class Real>
CPMS_DEVICE void distance(const Real* fresh, const Real* old, u32 nodes, double* partials, u32* counter,
                          double* result) {
    Numbers<4, true> mine{};
    const u32 threads = gridDim.x * blockDim.x;
#pragma unroll 4
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < nodes; i += threads) {
        const double value = load_plain(fresh + i, ReadOnly{});
        const double change = fabs(value - load_plain(old + i, ReadOnly{}));
        mine = Join{}(mine, Numbers<4, true>{{change, change * change, value, change}});
    }
    publish<OverBlock>(mine, partials, counter, result);
}

}  // namespace cpms

#define CPMS_DANGLING_MASS(NAME, OVER_BLOCK, REAL)                                                      \
    extern "C" __global__ void __launch_bounds__(256)                                                   \
        NAME(const REAL* x, const unsigned* dangling, unsigned count, double* partials,                 \
             unsigned* counter, double* result) {                                                       \
        cpms::dangling_mass<OVER_BLOCK>(x, dangling, count, partials, counter, result);                 \
    }
#define CPMS_DISTANCE(NAME, OVER_BLOCK, REAL)                                                           \
    extern "C" __global__ void __launch_bounds__(256)                                                   \
        NAME(const REAL* fresh, const REAL* old, unsigned nodes, double* partials, unsigned* counter,   \
             double* result) {                                                                          \
        cpms::distance<OVER_BLOCK>(fresh, old, nodes, partials, counter, result);                       \
    }
