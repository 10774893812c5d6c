// The sweep of a persistent kernel: y = epilogue(A x) by segmented sums over ranges of tiles.
//
// The method is load-balanced CSR (merge-based CSR of Merrill and Garland, 2016, with 256-entry tiles in place of
// merge paths) and the segmented sum of Blelloch (1993). Lanes gather adjacent entries, so that edges of neighbouring
// rows share a transaction. A row that crosses ranges is carried out by partial sums in global memory. Three tiles
// are in the pipeline of a warp: one is summed, the next is gathered, the indices of a third are loaded.
#pragma once
#include "persistent/segment_state.cuh"

namespace cpms {

// Finishes the row with which the warp's previous range began, if it waits for others' partial sums.
template <int InFlight, class Epilogue>
CPMS_DEVICE void finish_pending(const Edges& edges, Workspace& workspace, Epilogue& epilogue) {
    const u32 in_block = threadIdx.x / 32, lane = threadIdx.x % 32, range = workspace.pending_range[in_block];
    if (range == none) return;
    const u32 first = edges.first_ranges[range], row = edges.first_rows[range];
    const auto operands = epilogue.load(row);
    const double sum = workspace.pending_sum[in_block] + edges.carry_out.gather<InFlight>(first, range, lane);
    if (lane == 0) epilogue.finish(row, sum, operands);
}

// Transposes a tile and sums it, in the same memory; `completed` as for SegmentState::accumulate.
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

// One sweep. IndexPrefetch::begin has run before, in the barrier before the sweep; `values` gives a node's value: an
// address, or HubValues. InFlight bounds the loads of partial sums that are in flight at once, since they take
// registers from the values gathered meanwhile.
template <class F, int InFlight = 8, class Values, class Epilogue>
CPMS_DEVICE void segmented_sum(const Edges& edges, IndexPrefetch& upcoming, Values values, Workspace& workspace,
                               Epilogue& epilogue) {
    using Word = typename WideningLoad<F>::Word;
    const u32 lane = threadIdx.x % 32, in_block = threadIdx.x / 32;
    if (first_range(edges.block_ranges) >= edges.ranges) return;
    u8* const buffer = workspace.warp_buffer(in_block);
    if (lane == 0) workspace.pending_range[in_block] = none;

    Word word[lane_entries];
    // Always upcoming.flags; ptxas arranges the loop otherwise without this copy, and no such code was measured.
    u32 flags = upcoming.flags;
    upcoming.sources.template gather<F>(values, word);
    upcoming.advance(edges);
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
            upcoming.sources.template gather<F>(values, word);
            upcoming.advance(edges, range, remaining);
            sum_tile<F>(buffer, prefetched, rows, epilogue,
                        [&](double sum, const typename Epilogue::Operands&) { first_row_sum(buffer) = sum; });
        }
        // A warp publishes its own partial sum before it waits for others. It waits one range later, since most others
        // have published by then; gather() polls for the rest. The padding after the last row of all counts as an open
        // row, whose partial sum no range gathers.
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
