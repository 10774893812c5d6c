// Segment state.
#pragma once
#include "base/loads.cuh"
#include "base/tile_layout.cuh"
#include "persistent/warp_ranges.cuh"

namespace cpms {

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

}  // namespace cpms
