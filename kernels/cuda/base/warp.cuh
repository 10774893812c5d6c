// Sums across the lanes of a warp, in an order that never changes.
#pragma once
#include "base/words.cuh"

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

// What all lanes of a warp have the same of anyhow, so that the compiler knows: one register then serves all of them,
// and a walk has few of its own.
template <class T>
CPMS_DEVICE T uniform(T same) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    u32 words[sizeof(T) / 4];
    memcpy(words, &same, sizeof(T));
#pragma unroll
    for (u32& word : words) word = __reduce_or_sync(all_lanes, word);
    memcpy(&same, words, sizeof(T));
#endif
    return same;
}
// A pointer to global memory: what was put together from words might point anywhere.
template <class T>
CPMS_DEVICE T* in_global(T* pointer) {
#if defined(__CUDA_ARCH__)
    __builtin_assume(__isGlobal(pointer));
#endif
    return pointer;
}
template <class T>
CPMS_DEVICE T* uniform(T* same) {
    return in_global((T*)uniform((u64)same));
}
// One from which others count: added up with what they count, it would take each more.
template <class T>
CPMS_DEVICE T* kept_apart(T* pointer) {
#if defined(__CUDA_ARCH__)
    asm("" : "+l"(pointer));
#endif
    return in_global(pointer);
}

struct Add {
    CPMS_DEVICE double operator()(double a, double b) const { return a + b; }
};
struct Larger {  // not fmax: a NaN must stay
    CPMS_DEVICE double operator()(double a, double b) const { return a >= b || a != a ? a : b; }
};

template <class Value, class Join>
CPMS_DEVICE Value over_warp(Value value, Join join) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value = join(value, __shfl_xor_sync(all_lanes, value, distance));
    }
    return value;
}

}  // namespace cpms
