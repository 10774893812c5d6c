// A sweep whose values go to bins by way of shared memory, so that no gather leaves a multiprocessor.
//
// First a block copies the values of a range of nodes to shared memory, and deals them: to each bin, one after the
// other, the values of those nodes at which its edges begin, an edge each. Then rows are summed bin by bin (persistent/sell_slices.cuh)
// of what they were dealt. An edge costs the same however its nodes lie: two numbers of 16 bits, and its value twice.
#pragma once
#include "persistent/sell_slices.cuh"

namespace cpms {

struct Deal {
    const u16* places;   // in its range, of the node whose value goes to each place of each chunk of eight
    const u32* targets;  // chunk of `dealt` that the first of each 2^same chunks becomes; the others follow it
    const u32* begins;   // first chunk of each range, and behind the last; multiples of 2^same
    const u32* cuts;     // first chunk of each block, and behind the last; such, too
    const u32* firsts;   // range of that chunk
    u32 same;            // see targets
    u32 range, values;   // nodes in a range; values of all nodes, zeros behind them included
    Strands strands;
    u8* dealt;
};

// What a thread deals at a time: a part each of some chunks. It takes up the next while it deals these.
template <class Word>
struct Hand {
    static constexpr u32 each = sizeof(Word) == 8 ? 2 : group_nodes, parts = group_nodes / each;
    static constexpr u32 together = sizeof(Word) == 8 ? 8 : 4;
    Run<each * 2> places[together];
    u32 target[together];

    // Parts behind `chunk`, of which there are `count`: the one at `base`, and each a block's threads further on.
    CPMS_DEVICE void take(const Deal& to, u32 chunk, u32 base, u32 count) {
#pragma unroll
        for (u32 j = 0; j < together; ++j) {
            const u32 i = smaller(base + j * blockDim.x, count - 1);
            const u64 part = (u64)chunk * parts + i;
            places[j] = load_run_bytes<each * 2>((const u8*)(to.places + part * each), Streaming{});
            target[j] = load_word(to.targets + ((chunk + i / parts) >> to.same), Streaming{});
        }
    }
    CPMS_DEVICE void give(const Deal& to, const Word* table, u32 base, u32 count) const {
        const u32 behind_first = (1u << to.same) - 1;
        const SomeKept kept;
#pragma unroll
        for (u32 j = 0; j < together; ++j) {
            const u32 i = base + j * blockDim.x;
            Run<each * sizeof(Word)> run{};
#pragma unroll
            for (u32 k = 0; k < each; ++k) {
                const Word word = table[places[j].template field<16>(k)];
                if constexpr (sizeof(Word) == 8) {
                    run.template put<64>(k, bits_of(word));
                } else {
                    run.template put<8 * sizeof(Word)>(k, word);
                }
            }
            const u32 into = target[j] + (i / parts & behind_first);
            const u64 part = (u64)into * parts + i % parts;
            if (i < count) store_run_bytes<each * sizeof(Word)>(to.dealt + part * each * sizeof(Word), run, kept);
        }
    }
};

template <class Word>
CPMS_DEVICE void deal(const Deal& to, const u8* z) {
    const u32 step = Hand<Word>::together * blockDim.x;
    const Word* const table = (const Word*)stage_bytes();
    u32 chunk = to.cuts[blockIdx.x];
    const u32 last = to.cuts[blockIdx.x + 1];
    for (u32 range = to.firsts[blockIdx.x]; chunk < last; ++range) {
        const u32 end = smaller(last, to.begins[range + 1]), first_node = range * to.range;
        if (end == chunk) continue;
        const u32 count = (end - chunk) * Hand<Word>::parts;
        Hand<Word> next;
        next.take(to, chunk, threadIdx.x, count);
        fill_stage(z + (u64)first_node * sizeof(Word), smaller(to.range, to.values - first_node) * sizeof(Word));
        for (u32 base = threadIdx.x; base < count; base += step) {
            const Hand<Word> now = next;
            next.take(to, chunk, base + step, count);
            now.give(to, table, base, count);
        }
        __syncthreads();
        chunk = end;
    }
}

}  // namespace cpms

#define CPMS_DEAL_PARAMETERS(OF)                                                                            \
    const unsigned short *OF##dealt_places, const unsigned *OF##targets, const unsigned *OF##range_begins,  \
        const unsigned *OF##cuts, const unsigned *OF##first_ranges, unsigned OF##same, unsigned OF##range,  \
        unsigned OF##values, CPMS_STRANDS_PARAMETERS(OF), unsigned char *OF##dealt
#define CPMS_DEAL(OF)                                                                                       \
    cpms::Deal {                                                                                            \
        OF##dealt_places, OF##targets, OF##range_begins, OF##cuts, OF##first_ranges, OF##same, OF##range,   \
            OF##values, CPMS_STRANDS(OF), OF##dealt                                                         \
    }
