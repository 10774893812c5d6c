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
template <int InFlight, class Epilogue>
CPMS_DEVICE void finish_pending(const Edges& edges, Workspace& workspace, Epilogue& epilogue) {
    const u32 in_block = threadIdx.x / 32, lane = threadIdx.x % 32, range = workspace.pending_range[in_block];
    if (range == none) return;
    const u32 first = edges.first_ranges[range], row = edges.first_rows[range];
    const auto operands = epilogue.load(row);
    const double sum = workspace.pending_sum[in_block] + edges.carry_out.gather<InFlight>(first, range, lane);
    if (lane == 0) epilogue.finish(row, sum, operands);
}

// Takes them up and sums them, in the same memory; `completed` as for Passing::pass.
template <class F, class Epilogue, class Completed>
CPMS_DEVICE void sum_tile(u8* buffer,
                          const EpiloguePrefetch<Epilogue, early_rows<typename WideningLoad<F>::Word>>& prefetched,
                          SegmentState& rows, Epilogue& epilogue, Completed completed) {
    using Word = typename WideningLoad<F>::Word;
    __syncwarp();
    const auto mine = transpose_load<Word>(buffer);
    __syncwarp();
    rows.template accumulate<later_rows<Word>>(
        prefetched, [&](int k) { return WideningLoad<F>::value(mine, k); }, (double*)buffer, epilogue, completed);
}

// Three steps are under way: one is summed, the next is gathered, the sources of a third are read.
// `ahead` has begun. Pieces of others that are on their way together take registers from what is gathered meanwhile.
template <class F, int InFlight = 8, class Edges, class IndexPrefetch, class Values, class Epilogue>
CPMS_DEVICE void segmented_sum(const Edges& edges, IndexPrefetch& upcoming, Values values, Workspace& workspace,
                               Epilogue& epilogue) {
    using Word = typename WideningLoad<F>::Word;
    const u32 lane = threadIdx.x % 32, in_block = threadIdx.x / 32;
    if (first_range(edges.block_ranges) >= edges.ranges) return;
    u8* const buffer = workspace.warp_buffer(in_block);
    if (lane == 0) workspace.pending_range[in_block] = none;

    Word word[lane_entries];
    u32 flags = upcoming.flags;
    upcoming.sources.template gather<F>(edges, values, word);
    upcoming.advance_to_second(edges);
    u32 range = first_range(edges.block_ranges);
    for (WarpRange now = upcoming.first;; now = WarpRange(edges, range)) {
        u32 remaining = now.end - now.begin;
        SegmentState rows{now.row, now.open};
        for (; remaining > 0; --remaining) {
            transpose_store(buffer, word);
            EpiloguePrefetch<Epilogue, early_rows<Word>> prefetched;
            prefetched.load(flags, rows.row, edges.rows, epilogue);
            upcoming.load_flags(edges);
            flags = upcoming.flags;
            upcoming.sources.template gather<F>(edges, values, word);
            upcoming.advance_to_third(edges, range, remaining);
            sum_tile<F>(buffer, prefetched, rows, epilogue,
                        [&](double sum, const typename Epilogue::Operands&) { first_row_sum(buffer) = sum; });
        }
        // It leaves its own piece before it waits for others, and waits a stretch late: they are there by then.
        const bool last_open = rows.last_row_open();
        if (last_open && lane == 0) edges.carry_out.publish(range, rows.carry);
        finish_pending<InFlight>(edges, workspace, epilogue);
        __syncwarp();
        if (lane == 0) {
            workspace.pending_range[in_block] = rows.first_row_ended() ? range : none;
            workspace.pending_sum[in_block] = first_row_sum(buffer);
        }
        __syncwarp();
        range += grid_warps();
        if (range >= edges.ranges) break;
    }
    finish_pending<InFlight>(edges, workspace, epilogue);
}

}  // namespace cpms
