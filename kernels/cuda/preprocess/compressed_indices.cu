// Puts sources into codes, a warp a step; gathers values by them and does nothing else.
#include "base/stores.cuh"
#include "persistent/compressed_indices.cuh"

namespace cpms {

// Calls work(step) for each step of one warp, of all that the grid has.
template <class Work>
CPMS_DEVICE void each_step(u32 steps, Work work) {
    const u32 warps = gridDim.x * (blockDim.x / 32);
    for (u32 step = (blockIdx.x * blockDim.x + threadIdx.x) / 32; step < steps; step += warps) work(step);
}

// The head of each step, but for places in `high`.
CPMS_DEVICE void find_heads(const u32* sources, u32 steps, u32 nowhere, u32* heads) {
    const u32 lane = threadIdx.x % 32;
    each_step(steps, [&](u32 step) {
        u32 least = ~0u, most = 0;
#pragma unroll
        for (int k = 0; k < slots_each; ++k) {
            const u32 source = sources[(u64)step * step_slots + 32 * k + lane];
            least = smaller(least, source == nowhere ? ~0u : source);
            most = larger(most, source == nowhere ? 0 : source);
        }
        least = over_warp(least, smaller);
        most = over_warp(most, larger);
        if (lane == 0) heads[step] = least > most ? 0 : most - least < 1u << 15 ? least : far_step;
    });
}

CPMS_DEVICE void encode_sources(const u32* sources, u32 steps, u32 nowhere, const u32* heads, Quad* low, Quad* high) {
    const u32 lane = threadIdx.x % 32;
    each_step(steps, [&](u32 step) {
        const u32 head = heads[step];
        const bool far = head & far_step;
        Run<16> lows{}, highs{};
#pragma unroll
        for (int k = 0; k < slots_each; ++k) {
            const u32 source = sources[(u64)step * step_slots + 32 * k + lane];
            const u32 code = far ? source : source == nowhere ? ~0u : source - head;
            lows.put<16>(k, code);
            highs.put<16>(k, code >> 16);
        }
        store_run_bytes((u8*)(low + (u64)step * 32 + lane), lows);
        if (far) store_run_bytes((u8*)(high + (u64)(head & ~far_step) * 32 + lane), highs);
    });
}

// sums[t]: of what thread t has gathered.
template <class Word>
CPMS_DEVICE void gather_by_codes(const Coded& coded, u32 steps, const Word* values, u64* sums) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, warps = gridDim.x * (blockDim.x / 32), last = steps - 1;
    Codes codes{coded.heads[smaller(thread / 32, last)]};
    codes.load(coded, smaller(thread / 32, last));
    u32 head = coded.heads[smaller(thread / 32 + warps, last)];
    u64 sum = 0;
    each_step(steps, [&](u32 step) {
        Word found[slots_each];
        const Word* const from = values + codes.base();
        codes.each(coded.nowhere, [&](int k, u32 code) { found[k] = load_word(from + code, ReadOnly{}); });
        codes.head = head;
        codes.load(coded, smaller(step + warps, last));
        head = coded.heads[smaller(step + 2 * warps, last)];
#pragma unroll
        for (int k = 0; k < slots_each; ++k) sum += found[k];
    });
    sums[thread] = sum;
}

}  // namespace cpms

#define CPMS_FIND_HEADS(NAME)                                                                         \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* sources, unsigned steps, unsigned nowhere, unsigned* heads) {            \
        cpms::find_heads(sources, steps, nowhere, heads);                                             \
    }
#define CPMS_ENCODE_SOURCES(NAME)                                                                     \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* sources, unsigned steps, unsigned nowhere, const unsigned* heads,        \
             unsigned short* low, unsigned short* high) {                                             \
        cpms::encode_sources(sources, steps, nowhere, heads, (cpms::Quad*)low, (cpms::Quad*)high);    \
    }
#define CPMS_GATHER_BY_CODES(NAME, WORD)                                                              \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(CPMS_CODED_PARAMETERS, unsigned steps, const WORD* values, unsigned long long* sums) {   \
        cpms::gather_by_codes<WORD>(CPMS_CODED, steps, values, sums);                                 \
    }
