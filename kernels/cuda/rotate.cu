// Chunks of memory moved along cycles, in place: the chunk at path[i] goes to path[i + 1].
// The path is cut into stretches; each keeps the chunk it begins with aside before any is moved.
#include "memory.cuh"

namespace cpms {

template <class Word>
CPMS_DEVICE void keep_first(const Word* memory, const u32* path, const u32* begins, u32 chunk, Word* kept) {
    const Word* from = memory + (u64)path[begins[blockIdx.x]] * chunk;
    for (u32 i = threadIdx.x; i < chunk; i += blockDim.x) kept[(u64)blockIdx.x * chunk + i] = from[i];
}

// Stretch s is path[begins[s]] to path[begins[s] + counts[s]], the last of them only written.
template <class Word>
CPMS_DEVICE void rotate(Word* memory, const u32* path, const u32* begins, const u32* counts, u32 chunk,
                        const Word* kept) {
    const u32 begin = begins[blockIdx.x];
    for (u32 step = counts[blockIdx.x]; step > 0; --step) {
        const Word* from = step == 1 ? kept + (u64)blockIdx.x * chunk : memory + (u64)path[begin + step - 1] * chunk;
        Word* to = memory + (u64)path[begin + step] * chunk;
        for (u32 i = threadIdx.x; i < chunk; i += blockDim.x) to[i] = from[i];
    }
}

}  // namespace cpms

#define CPMS_KEEP_FIRST(NAME, WORD)                                                                   \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const WORD* memory, const unsigned* path, const unsigned* begins, unsigned chunk,        \
             WORD* kept) {                                                                            \
        cpms::keep_first<WORD>(memory, path, begins, chunk, kept);                                    \
    }
#define CPMS_ROTATE(NAME, WORD)                                                                       \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(WORD* memory, const unsigned* path, const unsigned* begins, const unsigned* counts,      \
             unsigned chunk, const WORD* kept) {                                                      \
        cpms::rotate<WORD>(memory, path, begins, counts, chunk, kept);                                \
    }
