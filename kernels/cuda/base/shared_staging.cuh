// Shared memory that a launch asks for: values of some nodes.
#pragma once
#include "base/memory.cuh"

namespace cpms {

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
