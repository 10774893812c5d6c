// Two reductions over native vectors, dangling mass and distance, by a block reduction of the caller's choice. Each
// reads its vectors once.
#pragma once
#include "base/last_block_reduce.cuh"
#include "base/loads.cuh"

namespace cpms {

// result: the sum of x over the dangling nodes.
template <class OverBlock, class Real>
CPMS_DEVICE void dangling_mass(const Real* x, const u32* dangling, u32 count, double* partials, u32* counter,
                               double* result) {
    LastBlockReduce<1, false> mine{};
    const u32 threads = gridDim.x * blockDim.x;
#pragma unroll 4
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        mine.value[0] += load_native(x + load_word(dangling + i, ReadOnly{}), ReadOnly{});
    }
    reduce_in_last_block<OverBlock>(mine, partials, counter, result);
}

// result: L1 norm of the change, its sum of squares, the mass of the new vector, the largest change.
template <class OverBlock, class Real>
CPMS_DEVICE void distance(const Real* fresh, const Real* old, u32 nodes, double* partials, u32* counter,
                          double* result) {
    LastBlockReduce<4, true> mine{};
    const u32 threads = gridDim.x * blockDim.x;
#pragma unroll 4
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < nodes; i += threads) {
        const double value = load_native(fresh + i, ReadOnly{});
        const double change = fabs(value - load_native(old + i, ReadOnly{}));
        mine = Combine{}(mine, LastBlockReduce<4, true>{{change, change * change, value, change}});
    }
    reduce_in_last_block<OverBlock>(mine, partials, counter, result);
}

}  // namespace cpms

#define CPMS_DANGLING_MASS(NAME, OVER_BLOCK, REAL)                                                   \
    CPMS_KERNEL(256) NAME(const REAL* x, const unsigned* dangling, unsigned count, double* partials, \
                          unsigned* counter, double* result) {                                       \
        cpms::dangling_mass<OVER_BLOCK>(x, dangling, count, partials, counter, result);              \
    }
#define CPMS_DISTANCE(NAME, OVER_BLOCK, REAL)                                                                      \
    CPMS_KERNEL(256) NAME(const REAL* fresh, const REAL* old, unsigned nodes, double* partials, unsigned* counter, \
                          double* result) {                                                                        \
        cpms::distance<OVER_BLOCK>(fresh, old, nodes, partials, counter, result);                                  \
    }
