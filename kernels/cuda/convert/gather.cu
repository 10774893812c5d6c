// The gathers of a sweep and nothing else: a lower bound of the time of any kernel that reads one value an edge.
#include "base/loads.cuh"

namespace cpms {

// sums[t] is the sum of the values that thread t gathered. `count` is a multiple of 256.
template <class Word>
CPMS_DEVICE void gather(const u32* sources, u64 count, const Word* values, u64* sums) {
    constexpr int together = 2;
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    const u64 quads = count / 4;
    u64 sum = 0;
    for (u64 base = thread; base < quads; base += together * threads) {
        Quad four[together];
#pragma unroll
        for (int j = 0; j < together; ++j) {
            const u64 at = base + j * threads;
            four[j] = load_word((const Quad*)sources + (at < quads ? at : quads - 1), LastUse{});
        }
#pragma unroll
        for (int j = 0; j < together; ++j) {
            u64 found = 0;
#pragma unroll
            for (int k = 0; k < 4; ++k) found += load_word(values + four[j].word[k], ReadOnly{});
            sum += base + j * threads < quads ? found : 0;
        }
    }
    sums[thread] = sum;
}

}  // namespace cpms

#define CPMS_GATHER(NAME, WORD)                                                                  \
    CPMS_KERNEL(256) NAME(const unsigned* sources, unsigned long long count, const WORD* values, \
                          unsigned long long* sums) {                                            \
        cpms::gather<WORD>(sources, count, values, sums);                                        \
    }
