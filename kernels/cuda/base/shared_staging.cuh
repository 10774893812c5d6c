// Shared memory that a launch asks for: values of some nodes.
#pragma once
#include "base/stores.cuh"

namespace cpms {

// Copies to shared memory that go on by themselves until they are awaited, each thread its own. What is read is not kept
// in the first-level cache where 16 bytes are copied at once.
template <int ByteDegrees>
CPMS_DEVICE void copy_async(void* to, const void* from) {
#if defined(__CUDA_ARCH__)
    const u32 at = (u32)__cvta_generic_to_shared(to);
    if constexpr (ByteDegrees == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(ByteDegrees) : "memory");
    }
#else
    __builtin_memcpy(to, from, ByteDegrees);
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

constexpr u32 octet_nodes = 8;  // whose values bins take together

CPMS_DEVICE u8* stage_bytes() {
#if defined(__CUDA_ARCH__)
    extern __shared__ Quad stage[];
#else
    static Quad stage[1 << 14];
#endif
    return (u8*)stage;
}

// Where the values of a bin lie, of two at a time that have room for so many groups each.
template <class Word>
CPMS_DEVICE Word* staged_values(u32 bin, u32 capacity) {
    return (Word*)stage_bytes() + (bin & 1) * capacity * octet_nodes;
}

// Copies as many bytes, a multiple of 16, to the stage, and waits for them. By all threads of a block.
CPMS_DEVICE void fill_stage(const u8* from, u32 bytes) {
    for (u32 i = 16 * threadIdx.x; i < bytes; i += 16 * blockDim.x) copy_async<16>(stage_bytes() + i, from + i);
    wait_for_copies();
    __syncthreads();
}

}  // namespace cpms
