// In-place permutation by cycles: the chunk of 64-bit words at path[i] moves to path[i + 1].
//
// Cycles are cut into sections, so that blocks work in parallel; each section saves its first chunk before any chunk
// moves. Every word moves once, and each section needs one extra chunk of memory.
#include "base/words.cuh"

namespace cpms {

CPMS_KERNEL(256) save_first(const u64* memory, const u32* path, const u32* begins, u32 chunk, u64* saved) {
    const u64* from = memory + (u64)path[begins[blockIdx.x]] * chunk;
    for (u32 i = threadIdx.x; i < chunk; i += blockDim.x) saved[(u64)blockIdx.x * chunk + i] = from[i];
}

// Section s is path[begins[s]] to path[begins[s] + counts[s]], of which the last chunk is only written. A thread
// always moves the same words of a chunk, so no thread waits for another.
CPMS_KERNEL(256) permute_cycles(u64* memory, const u32* path, const u32* begins, const u32* counts, u32 chunk,
                                const u64* saved) {
    const u32 begin = begins[blockIdx.x];
    for (u32 step = counts[blockIdx.x]; step > 0; --step) {
        const u64* from = step == 1 ? saved + (u64)blockIdx.x * chunk : memory + (u64)path[begin + step - 1] * chunk;
        u64* to = memory + (u64)path[begin + step] * chunk;
#pragma unroll 4
        for (u32 i = threadIdx.x; i < chunk; i += blockDim.x) to[i] = from[i];
    }
}

}  // namespace cpms
