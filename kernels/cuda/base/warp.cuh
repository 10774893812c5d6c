// Sums across the lanes of a warp, in an order that never changes.
#pragma once
#include "base/words.cuh"

namespace cpms {

constexpr u32 all_lanes = 0xFFFFFFFFu;
constexpr int block_threads = 256;
constexpr int block_warps = block_threads / 32;

// In a loop that waits for another warp.
CPMS_DEVICE void back_off() {
#if defined(__CUDA_ARCH__)
    __nanosleep(32);
#else
    host::pass();
#endif
}

// What all lanes of a warp have the same of anyhow, so that the compiler knows: one register then serves all of them,
// and a walk has few of its own.
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
// A pointer to global memory: what was put together from words might point anywhere.
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
// One from which others count: added up with what they count, it would take each more.
template <class T>
CPMS_DEVICE T* opaque_base(T* pointer) {
#if defined(__CUDA_ARCH__)
    asm("" : "+l"(pointer));
#endif
    return assume_global(pointer);
}

struct Add {
    CPMS_DEVICE double operator()(double a, double b) const { return a + b; }
};
struct Larger {  // not fmax: a NaN must stay
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
