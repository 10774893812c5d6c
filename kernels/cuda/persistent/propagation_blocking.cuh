// Propagation blocking (Beamer, Asanovic and Patterson, 2017), made deterministic: a binning phase scatters values to
// bins by way of shared memory, then rows are summed bin by bin (persistent/sell_slices.cuh).
//
// For graphs whose neighbours lie anywhere, each gather would read a sector for one value. Here a block stages the
// values of a range of nodes in shared memory, and writes, for each bin, the values that the entries of the bin read,
// one an entry, at precomputed places. No atomic operation is needed and results do not depend on order. An entry costs
// two 16-bit indices, one write and one read of its value, wherever its nodes lie in memory.
#pragma once
#include "persistent/sell_slices.cuh"

namespace cpms {

// An octet is eight values that are moved together. Octets of the binning phase lie range by range of nodes; those of
// `binned` lie bin by bin of rows.
struct PropagationBlocking {
    const u16* local_indices;  // of each binned value: its node within the range
    const u32* octet_targets;  // octet of `binned` to which the first of each run of 2^log2_run octets goes
    const u32* range_begins;  // first octet of each range, and the end of the last; multiples of 2^log2_run
    const u32* block_begins;  // first octet of each block, and the end of the last; multiples of 2^log2_run
    const u32* first_ranges;  // range of that octet
    u32 log2_run;             // see octet_targets
    u32 range, values;        // nodes in a range; values of all nodes, including the zeros past them
    SellSlices slices;
    u8* binned;  // the values of all bins
};

// The octets that a thread scatters at a time, or parts of them. The next ones are loaded while these are scattered.
template <class Word>
struct BinningStep {
    static constexpr u32 each = sizeof(Word) == 8 ? 2 : octet_nodes, parts = octet_nodes / each;
    static constexpr u32 in_flight = sizeof(Word) == 8 ? 8 : 4;
    Run<each * 2> local_indices[in_flight];
    u32 target[in_flight];

    // Loads some of the `count` parts that begin with `octet`: the one at `base`, and others at distances of the
    // block's size.
    CPMS_DEVICE void load(const PropagationBlocking& to, u32 octet, u32 base, u32 count) {
#pragma unroll
        for (u32 j = 0; j < in_flight; ++j) {
            const u32 i = smaller(base + j * blockDim.x, count - 1);
            const u64 part = (u64)octet * parts + i;
            local_indices[j] = load_run_bytes<each * 2>((const u8*)(to.local_indices + part * each), Streaming{});
            target[j] = load_word(to.octet_targets + ((octet + i / parts) >> to.log2_run), Streaming{});
        }
    }
    CPMS_DEVICE void scatter(const PropagationBlocking& to, const Word* table, u32 base, u32 count) const {
        const u32 within_run = (1u << to.log2_run) - 1;
        const FractionalL2 hint;
#pragma unroll
        for (u32 j = 0; j < in_flight; ++j) {
            const u32 i = base + j * blockDim.x;
            Run<each * sizeof(Word)> run{};
#pragma unroll
            for (u32 k = 0; k < each; ++k) {
                const Word word = table[local_indices[j].template field<16>(k)];
                if constexpr (sizeof(Word) == 8) {
                    run.template put<64>(k, bits_of(word));
                } else {
                    run.template put<8 * sizeof(Word)>(k, word);
                }
            }
            const u32 into = target[j] + (i / parts & within_run);
            const u64 part = (u64)into * parts + i % parts;
            if (i < count) store_run_bytes<each * sizeof(Word)>(to.binned + part * each * sizeof(Word), run, hint);
        }
    }
};

// The binning phase: each block scatters its octets, one range of nodes after the other in shared memory.
template <class Word>
CPMS_DEVICE void bin_values(const PropagationBlocking& to, const u8* x) {
    const u32 stride = BinningStep<Word>::in_flight * blockDim.x;
    const Word* const table = (const Word*)stage_bytes();
    u32 octet = to.block_begins[blockIdx.x];
    const u32 last = to.block_begins[blockIdx.x + 1];
    for (u32 range = to.first_ranges[blockIdx.x]; octet < last; ++range) {
        const u32 end = smaller(last, to.range_begins[range + 1]), first_node = range * to.range;
        if (end == octet) continue;
        const u32 count = (end - octet) * BinningStep<Word>::parts;
        BinningStep<Word> next;
        next.load(to, octet, threadIdx.x, count);
        fill_stage(x + (u64)first_node * sizeof(Word), smaller(to.range, to.values - first_node) * sizeof(Word));
        for (u32 base = threadIdx.x; base < count; base += stride) {
            const BinningStep<Word> now = next;
            next.load(to, octet, base + stride, count);
            now.scatter(to, table, base, count);
        }
        __syncthreads();
        octet = end;
    }
}

}  // namespace cpms
