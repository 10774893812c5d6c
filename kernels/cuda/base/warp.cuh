// Reductions over the lanes of a warp in a fixed order, and hints that save registers.
#pragma once
#include "base/words.cuh"

namespace cpms {

constexpr u32 all_lanes = 0xFFFFFFFFu;
constexpr int block_threads = 256;  // of every kernel but the persistent ones
constexpr int block_warps = block_threads / 32;

// Pauses a thread in a loop that waits for another warp.
CPMS_DEVICE void back_off() {
#if defined(__CUDA_ARCH__)
    __nanosleep(32);
#else
    host::pass();
#endif
}

// Returns a value that all lanes share anyhow, and lets the compiler know: it then lies in one uniform register
// instead of one register a lane, of which a segmented sum has few.
template <class T>
CPMS_DEVICE T warp_uniform(T value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    u32 words[sizeof(T) / 4];
    memcpy(words, &value, sizeof(T));
#pragma unroll
    for (u32& word : words) word = __reduce_or_sync(all_lanes, word);
    memcpy(&value, words, sizeof(T));
#endif
    return value;
}
// Asserts that a pointer is to global memory; the compiler cannot tell for one that was assembled from words.
template <class T>
CPMS_DEVICE T* assume_global(T* pointer) {
#if defined(__CUDA_ARCH__)
    __builtin_assume(__isGlobal(pointer));
#endif
    return pointer;
}
template <class T>
CPMS_DEVICE T* warp_uniform(T* value) {
    return assume_global((T*)warp_uniform((u64)value));
}
struct Add {
    CPMS_DEVICE double operator()(double a, double b) const { return a + b; }
};
struct Larger {  // unlike fmax, it propagates NaN
    CPMS_DEVICE double operator()(double a, double b) const { return a >= b || a != a ? a : b; }
};

template <class Value, class Combine>
CPMS_DEVICE Value warp_reduce(Value value, Combine combine) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value = combine(value, __shfl_xor_sync(all_lanes, value, distance));
    }
    return value;
}

}  // namespace cpms
