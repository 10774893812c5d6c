// Staging of vector values in dynamic shared memory by asynchronous copies (cp.async).
//
// Shared memory serves random 16-bit accesses in a cycle or a few, where the first-level cache serves one 128-byte
// line at a time. Copies pass no register, so that a block computes while they are in flight.
#pragma once
#include "base/stores.cuh"

namespace cpms {

// Asynchronous copies of a thread to shared memory. Copies of 16 bytes bypass the first-level cache.
template <int Bytes>
CPMS_DEVICE void copy_async(void* to, const void* from) {
#if defined(__CUDA_ARCH__)
    const u32 at = (u32)__cvta_generic_to_shared(to);
    if constexpr (Bytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(Bytes) : "memory");
    }
#else
    __builtin_memcpy(to, from, Bytes);
#endif
}
CPMS_DEVICE void copy_async_hinted(void* to, const void* from, const FractionalL2& hint) {
#if defined(__CUDA_ARCH__)
    const u32 at = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "l"(hint.policy)
                 : "memory");
#else
    copy_async<16>(to, from);
#endif
}
CPMS_DEVICE void wait_for_copies() {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

constexpr u32 octet_nodes = 8;  // nodes whose values are moved together

CPMS_DEVICE u8* stage_bytes() {
#if defined(__CUDA_ARCH__)
    extern __shared__ Quad stage[];
#else
    static Quad stage[1 << 14];
#endif
    return (u8*)stage;
}

// The buffer of a bin or panel. There are two buffers, of `capacity` octets each, used in turn.
template <class Word>
CPMS_DEVICE Word* staged_values(u32 bin, u32 capacity) {
    return (Word*)stage_bytes() + (bin & 1) * capacity * octet_nodes;
}

// Copies `bytes` bytes, a multiple of 16, to the staging buffer and waits for them. All threads of a block take part.
CPMS_DEVICE void fill_stage(const u8* from, u32 bytes) {
    for (u32 i = 16 * threadIdx.x; i < bytes; i += 16 * blockDim.x) copy_async<16>(stage_bytes() + i, from + i);
    wait_for_copies();
    __syncthreads();
}

}  // namespace cpms
