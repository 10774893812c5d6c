// Sums across the lanes of a warp, in an order that never changes.
#pragma once
#include "memory.cuh"

namespace cpms {

constexpr u32 all_lanes = 0xFFFFFFFFu;
constexpr int block_threads = 256;
constexpr int block_warps = block_threads / 32;

// In a loop that waits for another warp.
CPMS_DEVICE void wait_a_little() {
#if defined(__CUDA_ARCH__)
    __nanosleep(32);
#else
    host::pass();
#endif
}

struct Add {
    CPMS_DEVICE double operator()(double a, double b) const { return a + b; }
};
struct Larger {  // not fmax: a NaN must stay
    CPMS_DEVICE double operator()(double a, double b) const { return a >= b || a != a ? a : b; }
};

template <class Join>
CPMS_DEVICE double over_warp(double value, Join join) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value = join(value, __shfl_xor_sync(all_lanes, value, distance));
    }
    return value;
}

}  // namespace cpms
