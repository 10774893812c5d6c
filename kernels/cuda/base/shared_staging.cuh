// Shared memory that a launch asks for: values of some nodes.
#pragma once
#include "base/stores.cuh"

namespace cpms {

// Copies to shared memory that go on by themselves until they are awaited, each thread its own. What is read is not kept
// in the first-level cache where 16 bytes are copied at once.
template <int Bytes>
CPMS_DEVICE void copy_ahead(void* to, const void* from) {
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
CPMS_DEVICE void copy_quad_ahead(void* to, const void* from, const SomeKept& kept) {
#if defined(__CUDA_ARCH__)
    const u32 at = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "l"(kept.policy)
                 : "memory");
#else
    copy_ahead<16>(to, from);
#endif
}
CPMS_DEVICE void await_copies() {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

constexpr u32 group_nodes = 8;  // whose values bins take together

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
CPMS_DEVICE Word* values_of(u32 bin, u32 capacity) {
    return (Word*)stage_bytes() + (bin & 1) * capacity * group_nodes;
}

// Copies as many bytes, a multiple of 16, to the stage, and waits for them. By all threads of a block.
CPMS_DEVICE void fill_stage(const u8* from, u32 bytes) {
    for (u32 i = 16 * threadIdx.x; i < bytes; i += 16 * blockDim.x) copy_ahead<16>(stage_bytes() + i, from + i);
    await_copies();
    __syncthreads();
}

}  // namespace cpms
