// A sweep over the edges by warps that stay: each has stretches of steps of 256 slots.
//
// Slots and marks are those of spmv/csr_balanced.cu. Lanes gather slots side by side, so that edges of
// neighbours share a transaction, and turn the words over in shared memory; then a lane sums eight slots
// that follow one another. A value is kept as the bits of a float64 that is the real value times a power
// of two that depends on the format alone, 1 / Raw::unit: sums of these are exact up to 53 bits.
#pragma once
#include "persistent/segment_state.cuh"

namespace cpms {

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
