// Packs the values that other ranks read into message buffers, one contiguous part a rank. A value costs its index,
// one gather and one store.
#include "base/stores.cuh"

namespace cpms {

// out[k] = values[sent_indices[k]]. `count` is a multiple of 4, and the parts begin at multiples of 16 bytes.
template <class Word>
CPMS_DEVICE void pack(const u32* sent_indices, u32 count, const Word* values, u8* out) {
    constexpr int together = 2, bytes = 4 * sizeof(Word);
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    const u32 quads = count / 4;
    for (u64 base = thread; base < quads; base += (u64)together * threads) {
        Quad four[together];
#pragma unroll
        for (int j = 0; j < together; ++j) {
            const u64 at = base + (u64)j * threads;
            four[j] = load_word((const Quad*)sent_indices + (at < quads ? at : quads - 1), Streaming{});
        }
        Run<bytes> run[together];
#pragma unroll
        for (int j = 0; j < together; ++j) run[j] = gather_run(values, four[j].word, ReadOnly{});
#pragma unroll
        for (int j = 0; j < together; ++j) {
            const u64 at = base + (u64)j * threads;
            if (at < quads) store_run_bytes<bytes>(out + at * bytes, run[j]);
        }
    }
}

}  // namespace cpms

#define CPMS_PACK(NAME, WORD)                                                                                     \
    CPMS_KERNEL(256) NAME(const unsigned* sent_indices, unsigned count, const WORD* values, unsigned char* out) { \
        cpms::pack<WORD>(sent_indices, count, values, out);                                                       \
    }
