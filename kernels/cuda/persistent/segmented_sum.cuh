// A sweep over the edges by warps that stay: each has stretches of steps of 256 slots.
//
// Slots and marks are those of spmv/csr_balanced.cu. Lanes gather slots side by side, so that edges of
// neighbours share a transaction, and turn the words over in shared memory; then a lane sums eight slots
// that follow one another. A value is kept as the bits of a float64 that is the real value times a power
// of two that depends on the format alone, 1 / Raw::unit: sums of these are exact up to 53 bits.
#pragma once
#include "spmv/carry_out.cuh"
#include "persistent/grid_sync.cuh"
#include "base/segmented_storage.cuh"

namespace cpms {

// How values of a format are gathered and summed.
template <class F>
struct Raw;

template <int Width>
struct WordOf {
    using Type = u32;
};
template <>
struct WordOf<16> {
    using Type = u16;
};
template <>
struct WordOf<8> {
    using Type = u8;
};

template <int E, int M, Rounding rounding>
struct Raw<Packed<E, M, rounding>> {
    static constexpr int width = 1 + E + M;
    using Word = typename WordOf<width>::Type;

    // The sign stays on top while the other bits move to where a float64 has them, unless conversions do it: sweeps of webs
    // wait for the unit that does all else with integers, and conversions have another.
    static constexpr u32 kept = 0x80000000u | ((1u << (20 + E)) - (1u << (20 - (M > 20 ? 20 : M))));
    static CPMS_DEVICE double value(u32 word) {
        if constexpr (in_half<E, M>) return doubled(of_half<0>(word << (16 - width)));
        const u32 high = (u32)((int)(word << (32 - width)) >> (11 - E)) & kept;
        const u32 low = M > 20 ? word << (52 - M) : 0;
        const double raw = value_of((u64)high << 32 | low);
        return E == 2 ? raw * 1024.0 : raw;
    }
    template <int Bytes>
    static CPMS_DEVICE double value(const Run<Bytes>& words, int k) {
        if constexpr (in_half<E, M> && Bytes == 2 * slots_each) {
            const u32 both = words.word[k / 2] << (16 - width);
            return doubled(k % 2 ? of_half<1>(both) : of_half<0>(both));
        }
        return value((u32)words.template field<Bytes * 8 / slots_each>(k));
    }
    static CPMS_DEVICE double unit() {
        if constexpr (in_half<E, M>) return 1.0;
        // Small enough to be multiplied by a power of two of a scale.
        constexpr u64 exponent = 1023 + 1023 - ((1 << (E - 1)) - 1) - (E == 2 ? 10 : 0);
        return value_of(exponent << 52);
    }
};

template <>
struct Raw<double> {
    using Word = double;

    static CPMS_DEVICE double value(double word) { return word; }
    template <int Bytes>
    static CPMS_DEVICE double value(const Run<Bytes>& words, int k) {
        return value_of(words.template field<64>(k));
    }
    static CPMS_DEVICE double unit() { return 1.0; }
};

// The edges, and their stretches: warp w walks stretches w, w + warps, … All warps are there and none waits for
// a later stretch, so every wait ends. Where there are fewer stretches than warps, `each` of a block have one, and
// the block's others none. Within a step, sources lie so that a
// lane's eight loads are two wide ones: the four from 128 * half + 4 * lane are slots 32 * (4 * half + k) + lane.
struct Edges {
    const u32* sources;
    const u16* marks;
    const u32* begins;            // first step of each stretch, and behind the last
    const u32* first_rows;        // row of its first slot
    const u32* first_stretches;   // stretch in which that row begins
    u32 stretches, steps, rows, each;
    TaskPieces pieces;            // one a stretch
};

// A step's words in shared memory, put down slot by slot and taken up eight a lane, by 16 bytes, which lie so that
// those of lanes meet different banks.
template <class Word>
struct Turn {
    using Kept = Word;
    static CPMS_DEVICE u32 place(u32 slot) { return slot / slots_each * (slots_each + 4) + slot % slots_each; }
};
template <>
struct Turn<double> {
    using Kept = double;
    static CPMS_DEVICE u32 place(u32 slot) { return slot + slot / 16 * 2; }
};
struct NarrowTurn {
    using Kept = u16;
    static CPMS_DEVICE u32 place(u32 slot) { return slot; }
};
template <>
struct Turn<u8> : NarrowTurn {};
template <>
struct Turn<u16> : NarrowTurn {};

// Where the sums of rows go, one after the other.
struct Sums {
#if defined(__CUDA_ARCH__)
    u32 at;
    CPMS_DEVICE explicit Sums(double* first) : at((u32)__cvta_generic_to_shared(first)) {}
    // One predicate for all that a row's end asks for.
    CPMS_DEVICE void end(u32 ends, double& sum) {
        asm volatile(
            "{.reg .pred p;\n setp.ne.u32 p, %2, 0;\n @p st.shared.f64 [%0], %1;\n @p add.u32 %0, %0, 8;\n"
            " @p mov.f64 %1, 0d0000000000000000;}"
            : "+r"(at), "+d"(sum)
            : "r"(ends)
            : "memory");
    }
#else
    double* at;
    explicit Sums(double* first) : at(first) {}
    void end(u32 ends, double& sum) {
        if (ends) {
            *at++ = sum;
            sum = 0.0;
        }
    }
#endif
};

// Shared memory of warps: the stretch, if any, whose first row waits for what others leave of it, with what the warp found
// of that row. What kernels do not take of it caches values that are gathered: so it is for as many warps as a block has.
constexpr int room_bytes = (step_slots + step_slots / 8 - 2) * sizeof(double);
constexpr u32 none = ~0u;
struct alignas(16) Room {
    double pending_head[resident_warps];
    u32 pending[resident_warps];

    // A step's words, or the sums of rows that ended in it; where neither are, what the warp found of the row it began with.
    CPMS_DEVICE u8* of_warp(u32 in_block) { return (u8*)(this + 1) + in_block * room_bytes; }
};
template <int Threads>
struct RoomFor : Room {
    alignas(16) u8 of_warps[Threads / 32 * room_bytes];
};
CPMS_DEVICE double& head_in(u8* of_warp) { return ((double*)of_warp)[Turn<double>::place(step_slots - 16) - 1]; }

CPMS_DEVICE u32 first_stretch(u32 each) { return threadIdx.x / 32 < each ? blockIdx.x * each + threadIdx.x / 32 : none; }
CPMS_DEVICE u32 all_warps() { return gridDim.x * (blockDim.x / 32); }

// Where a stretch begins and ends, its first row, and whether that began before it.
struct Stretch {
    u32 begin, end, row;
    bool open;

    Stretch() = default;
    CPMS_DEVICE Stretch(const Edges& edges, u32 stretch)
        : begin(edges.begins[stretch]),
          end(edges.begins[stretch + 1]),
          row(edges.first_rows[stretch]),
          open(edges.first_stretches[stretch] < stretch) {}
};

// A value from caches; Hot values lie elsewhere (persistent/hub_cache.cuh).
template <class F>
CPMS_DEVICE typename Raw<F>::Word value_at(const u8* z, u32 i) {
    return ((const typename Raw<F>::Word*)z)[i];
}

// A lane's sources of a step, 32 bits each.
template <class Policy>
struct NamedIn {
    u32 source[slots_each];

    CPMS_DEVICE void begin(const Edges& edges, u32 step) { load(edges, step); }
    CPMS_DEVICE u32 second(const Edges& edges, u32 step) const { return smaller(step + 1, edges.steps - 1); }
    // The step after the next of a stretch of which `left` are left: stretches have two steps or more, but for the last.
    CPMS_DEVICE u32 third(const Edges& edges, u32 step, u32 stretch, u32 left) const {
        const u32 next = stretch + all_warps();
        if (left == 2 && next < edges.stretches) return edges.begins[next];
        return second(edges, step);
    }
    CPMS_DEVICE void load(const Edges& edges, u32 step) {
        const Quad* const at = (const Quad*)edges.sources + (step * (step_slots / 4) + threadIdx.x % 32);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const Quad four = load_word(at + 32 * half, Policy{});
#pragma unroll
            for (int k = 0; k < 4; ++k) source[4 * half + k] = four.word[k];
        }
    }
    template <class F, class Values, class Word>
    CPMS_DEVICE void gather(const Edges&, Values values, Word (&word)[slots_each]) const {
#pragma unroll
        for (int k = 0; k < slots_each; ++k) word[k] = value_at<F>(values, source[k]);
    }
};
using Named = NamedIn<Streaming>;

// What a warp has read of a step to come, and of its first stretch. The first may be read before the values that it asks
// for are there. Sources are Named, or as in persistent/compressed_gather.cuh.
template <class Sources>
struct AheadBy {
    u32 step, mark;
    Sources sources;
    Stretch first;

    template <class Edges>
    CPMS_DEVICE void begin(const Edges& edges) {
        if (first_stretch(edges.each) >= edges.stretches) return;
        first = Stretch(edges, first_stretch(edges.each));
        step = first.begin;
        load_mark(edges);
        sources.begin(edges, step);
    }
    template <class Edges>
    CPMS_DEVICE void to_second(const Edges& edges) {
        step = sources.second(edges, step);
        sources.load(edges, step);
    }
    template <class Edges>
    CPMS_DEVICE void to_third(const Edges& edges, u32 stretch, u32 left) {
        step = sources.third(edges, step, stretch, left);
        sources.load(edges, step);
    }
    CPMS_DEVICE void load_mark(const cpms::Edges& edges) {
        reload(mark, edges.marks + lane_of(step), Streaming{});
    }
};
using Ahead = AheadBy<Named>;

// Ends the row that waits, if one does.
template <int Together, class AtEnd>
CPMS_DEVICE void settle(const Edges& edges, Room& room, AtEnd& at_end) {
    const u32 in_block = threadIdx.x / 32, lane = threadIdx.x % 32, stretch = room.pending[in_block];
    if (stretch == none) return;
    const u32 first = edges.first_stretches[stretch], row = edges.first_rows[stretch];
    const auto loaded = at_end.load(row);
    const double sum = room.pending_head[in_block] + edges.pieces.collect<Together>(first, stretch, lane);
    if (lane == 0) at_end.finish(row, sum, loaded);
}

// What is known of a step before its values are there: which rows end, and what at_end.load(row) found for the first.
template <class AtEnd, int early>
struct Met {
    u32 slot_ends, before, ended;
    typename AtEnd::Loaded loaded[early];

    // What is not loaded early is `expected`, unless it is in the cache anyhow; a sector of it at a time.
    template <bool expected = true>
    CPMS_DEVICE void meet(u32 mark, u32 row, u32 rows, const AtEnd& at_end) {
        const u32 lane = threadIdx.x % 32;
        slot_ends = mark & 0xFF, before = mark >> 8;
        ended = __shfl_sync(all_lanes, before + __popc(slot_ends), 31);
#pragma unroll
        for (int j = 0; j < early; ++j) {
            const u32 i = 32 * j + lane;
            // Where a branch ends its loads are waited for; but float64 has no registers for more.
            if (early > 1 || ended > 0) loaded[j] = at_end.load(smaller(row + (i < ended ? i : 0), rows - 1));
        }
        if constexpr (expected) {
            if (ended <= 32 * early) return;
#pragma unroll 1
            for (u32 i = 32 * early + AtEnd::expected_rows * lane; i < ended; i += 32 * AtEnd::expected_rows) {
                at_end.expect(row + i);
            }
        }
    }
};

// The rows of a stretch as its steps pass. The first may have begun before it: `open` until it ends.
struct Passing {
    u32 row;
    bool open;
    const bool began_open = open;
    u32 slot_ends = 0;  // of a lane in the last step
    double carry = 0.0;

    CPMS_DEVICE bool ended_first() const { return began_open && !open; }
    // By all lanes.
    CPMS_DEVICE bool ends_open() const { return __shfl_sync(all_lanes, slot_ends >> (slots_each - 1), 31) == 0; }

    // A lane's eight values, by number. at_end.finish(row, sum, loaded) is called once a row; completed(sum, loaded), by
    // one lane, for the first where it was open.
    template <int later, int early, class AtEnd, class Value, class Completed>
    CPMS_DEVICE void pass(const Met<AtEnd, early>& met, Value value, double* sums, AtEnd& at_end, Completed completed) {
        const u32 lane = threadIdx.x % 32, ended = met.ended;
        slot_ends = met.slot_ends;
        double* const mine = sums + met.before;
        Sums put(mine);
        double sum = lane == 0 ? carry : 0.0;
#pragma unroll
        for (int k = 0; k < slots_each; ++k) {
            sum += value(k);
            put.end(slot_ends & 1u << k, sum);
        }
        sum = joined(sum, lane, slot_ends != 0);
        const double from_left = __shfl_up_sync(all_lanes, sum, 1);
        if (lane > 0 && slot_ends != 0) *mine += from_left;
        carry = __shfl_sync(all_lanes, sum, 31);
        __syncwarp();
        const bool completes = open && ended > 0;
        if (completes && lane == 0) completed(sums[0], met.loaded[0]);
#pragma unroll
        for (int j = 0; j < early; ++j) {
            const u32 i = 32 * j + lane;
            if (i >= completes && i < ended) at_end.finish(row + i, sums[i], met.loaded[j]);
        }
#pragma unroll 1
        for (u32 first = 32 * early; first < ended; first += 32 * later) {
            typename AtEnd::Loaded more[later];
#pragma unroll
            for (int j = 0; j < later; ++j) more[j] = at_end.load(row + smaller(first + 32 * j + lane, ended - 1));
#pragma unroll
            for (int j = 0; j < later; ++j) {
                const u32 i = first + 32 * j + lane;
                if (i < ended) at_end.finish(row + i, sums[i], more[j]);
            }
        }
        __syncwarp();
        open = open && ended == 0;
        row += ended;
    }
};

// Rows a lane whose loads do not wait for sums, and of the others, at a time.
template <class Word>
constexpr int early_rows = sizeof(Word) == 8 ? 1 : 2;
template <class Word>
constexpr int later_rows = sizeof(Word) == 8 ? 1 : 3;

// Puts a step's words down in shared memory of a warp.
template <class Word>
CPMS_DEVICE void put_down(u8* of_warp, const Word (&word)[slots_each]) {
    using Kept = typename Turn<Word>::Kept;
#pragma unroll
    for (int k = 0; k < slots_each; ++k) {
        ((Kept*)of_warp)[Turn<Word>::place(32 * k + threadIdx.x % 32)] = (Kept)word[k];
    }
}
template <class Word>
CPMS_DEVICE auto taken_up(const u8* of_warp) {
    using Kept = typename Turn<Word>::Kept;
    constexpr int together = 16 / sizeof(Kept);
    Run<slots_each * sizeof(Kept)> mine;
#pragma unroll
    for (int k = 0; k < slots_each; k += together) {
        const Quad some = *(const Quad*)((const Kept*)of_warp + Turn<Word>::place(threadIdx.x % 32 * slots_each + k));
#pragma unroll
        for (int w = 0; w < 4; ++w) mine.word[k * sizeof(Kept) / 4 + w] = some.word[w];
    }
    return mine;
}
// Takes them up and sums them, in the same memory; `completed` as for Passing::pass.
template <class F, class AtEnd, class Completed>
CPMS_DEVICE void sum_up(u8* of_warp, const Met<AtEnd, early_rows<typename Raw<F>::Word>>& met, Passing& rows, AtEnd& at_end,
                        Completed completed) {
    using Word = typename Raw<F>::Word;
    __syncwarp();
    const auto mine = taken_up<Word>(of_warp);
    __syncwarp();
    rows.template pass<later_rows<Word>>(
        met, [&](int k) { return Raw<F>::value(mine, k); }, (double*)of_warp, at_end, completed);
}

// Three steps are under way: one is summed, the next is gathered, the sources of a third are read.
// `ahead` has begun. Pieces of others that are on their way together take registers from what is gathered meanwhile.
template <class F, int Together = 8, class Edges, class Ahead, class Values, class AtEnd>
CPMS_DEVICE void walk(const Edges& edges, Ahead& ahead, Values values, Room& room, AtEnd& at_end) {
    using Word = typename Raw<F>::Word;
    const u32 lane = threadIdx.x % 32, in_block = threadIdx.x / 32;
    if (first_stretch(edges.each) >= edges.stretches) return;
    u8* const of_warp = room.of_warp(in_block);
    if (lane == 0) room.pending[in_block] = none;

    Word word[slots_each];
    u32 mark = ahead.mark;
    ahead.sources.template gather<F>(edges, values, word);
    ahead.to_second(edges);
    u32 stretch = first_stretch(edges.each);
    for (Stretch now = ahead.first;; now = Stretch(edges, stretch)) {
        u32 left = now.end - now.begin;
        Passing rows{now.row, now.open};
        for (; left > 0; --left) {
            put_down(of_warp, word);
            Met<AtEnd, early_rows<Word>> met;
            met.meet(mark, rows.row, edges.rows, at_end);
            ahead.load_mark(edges);
            mark = ahead.mark;
            ahead.sources.template gather<F>(edges, values, word);
            ahead.to_third(edges, stretch, left);
            sum_up<F>(of_warp, met, rows, at_end,
                      [&](double sum, const typename AtEnd::Loaded&) { head_in(of_warp) = sum; });
        }
        // It leaves its own piece before it waits for others, and waits a stretch late: they are there by then.
        const bool goes_on = rows.ends_open();
        if (goes_on && lane == 0) edges.pieces.leave(stretch, rows.carry);
        settle<Together>(edges, room, at_end);
        __syncwarp();
        if (lane == 0) {
            room.pending[in_block] = rows.ended_first() ? stretch : none;
            room.pending_head[in_block] = head_in(of_warp);
        }
        __syncwarp();
        stretch += all_warps();
        if (stretch >= edges.stretches) break;
    }
    settle<Together>(edges, room, at_end);
}

}  // namespace cpms

#define CPMS_EDGES_PARAMETERS                                                                               \
    const unsigned *sources, const unsigned short *marks, const unsigned *begins,                           \
        const unsigned *first_rows, const unsigned *first_stretches, unsigned stretches,                    \
        unsigned steps, unsigned each, unsigned long long *pieces
#define CPMS_EDGES                                                                                          \
    cpms::Edges { sources, marks, begins, first_rows, first_stretches, stretches, steps, count, each, cpms::TaskPieces{pieces} }
