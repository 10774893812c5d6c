// The segmented sum of persistent/segmented_sum.cuh for a graph that fits in the second-level cache, where a warp has
// one range of a few tiles.
//
// There the time of a sweep is the latency of its slowest warp, not bandwidth. So a tile issues no load that is not
// needed, and the warps of a block exchange their carry-out in shared memory; only rows that cross blocks use global
// memory.
#pragma once
#include "persistent/segmented_sum.cuh"

namespace cpms {

constexpr int operand_bytes = 40;  // upper bound of sizeof(Epilogue::Operands)

// A warp's range, the same in every sweep (see WarpRange): its tiles from `begin` to `end`, the row of its first entry,
// and the range in which that row begins. The ranges of this block from `beyond` on hold a row that continues in the
// next block; without one, `beyond` is `none`.
struct WarpTask {
    u32 begin, end, row, first, beyond;
};

// The buffers of WorkspaceFor are free between sweeps; the other members persist.
struct InCacheWorkspace : WorkspaceFor<persistent_threads> {
    double open_sums[persistent_warps];
    alignas(8) u8 operands[persistent_warps][operand_bytes];  // of the first row of each warp's range
    WarpTask task[persistent_warps];

    CPMS_DEVICE WarpTask& mine() { return task[threadIdx.x / 32]; }
    // Whether the warp has no tiles.
    CPMS_DEVICE bool is_idle() { return mine().begin == mine().end; }

    // Once a launch.
    CPMS_DEVICE void begin(const Edges& edges) {
        if (threadIdx.x % 32 == 0) {
            const u32 range = first_range(edges.block_ranges), next = (blockIdx.x + 1) * edges.block_ranges;
            WarpTask& found = mine();
            found = WarpTask{0, 0, 0, 0, next < edges.ranges ? edges.first_ranges[next] : none};
            if (range < edges.ranges) {
                found.begin = edges.range_begins[range], found.end = edges.range_begins[range + 1];
                found.row = edges.first_rows[range], found.first = edges.first_ranges[range];
            }
        }
        __syncwarp();
    }
};

// The software pipeline of a warp, one tile ahead.
struct InCachePrefetch {
    u32 tile, flags;
    IndexLoader<InOrder> sources;

    CPMS_DEVICE void begin(const Edges& edges, InCacheWorkspace& workspace) {
        if (workspace.is_idle()) return;
        tile = workspace.mine().begin;
        load_flags(edges);
        sources.load(edges, tile);
    }
    CPMS_DEVICE void load_flags(const Edges& edges) { reload(flags, edges.row_end_flags + lane_part(tile), InOrder{}); }
    CPMS_DEVICE void advance(const Edges& edges, u32 last) {
        tile = smaller(tile + 1, last);
        sources.load(edges, tile);
    }
};

// Publishes a warp's open row, in shared memory or, for a row that continues in the next block, in global memory;
// returns the partial sum that earlier blocks have of the row with which this range began.
CPMS_DEVICE double publish_in_block(const Edges& edges, InCacheWorkspace& workspace, const SegmentState& rows) {
    const u32 in_block = threadIdx.x / 32, lane = threadIdx.x % 32, first_here = blockIdx.x * edges.block_ranges;
    const u32 first = workspace.mine().first;
    const bool last_open = rows.last_row_open();
    if (last_open && lane == 0) {
        if (first_here + in_block < workspace.mine().beyond) workspace.open_sums[in_block] = rows.carry;
        else edges.carry_out.publish(first_here + in_block, rows.carry);
    }
    return rows.first_row_ended() && first < first_here ? edges.carry_out.gather(first, first_here, lane) : 0.0;
}

// Finishes that row once all warps of the block have published; `sum` is the partial sum of earlier blocks.
template <class Epilogue>
CPMS_DEVICE void finish_in_block(const Edges& edges, InCacheWorkspace& workspace, Epilogue& epilogue, double sum) {
    const u32 in_block = threadIdx.x / 32, first_here = blockIdx.x * edges.block_ranges;
    sum += first_row_sum(workspace.warp_buffer(in_block));
    for (u32 other = larger(workspace.mine().first, first_here); other < first_here + in_block; ++other) {
        sum += workspace.open_sums[other - first_here];
    }
    typename Epilogue::Operands operands;
    memcpy(&operands, workspace.operands[in_block], sizeof(operands));
    epilogue.finish(workspace.mine().row, sum, operands);
}

// One sweep of a warp.
template <class F>
struct InCacheSegmentedSum {
    using Word = typename WideningLoad<F>::Word;

    const Edges& edges;
    InCachePrefetch& upcoming;
    const u8* values;
    InCacheWorkspace& workspace;
    Word word[lane_entries];

    template <bool is_last, class Epilogue>
    CPMS_DEVICE void process_tile(SegmentState& rows, u32 last, Epilogue& epilogue) {
        const u32 in_block = threadIdx.x / 32;
        u8* const buffer = workspace.warp_buffer(in_block);
        transpose_store(buffer, word);
        EpiloguePrefetch<Epilogue, early_rows<Word>> prefetched;
        prefetched.template load<false>(upcoming.flags, rows.row, edges.rows, epilogue);
        if constexpr (!is_last) {
            upcoming.load_flags(edges);
            upcoming.sources.template gather<F>(values, word);
            upcoming.advance(edges, last);
        }
        sum_tile<F>(buffer, prefetched, rows, epilogue, [&](double sum, const typename Epilogue::Operands& operands) {
            first_row_sum(buffer) = sum;
            static_assert(sizeof(operands) <= operand_bytes, "no room for what was loaded");
            memcpy(workspace.operands[in_block], &operands, sizeof(operands));
        });
    }

    template <class Epilogue>
    CPMS_DEVICE void run(Epilogue& epilogue) {
        const bool is_idle = workspace.is_idle();
        const WarpTask& task = workspace.mine();
        SegmentState rows{task.row, task.first < first_range(edges.block_ranges)};
        double sum = 0.0;
        if (!is_idle) {
            const u32 last = task.end - 1;
            upcoming.sources.template gather<F>(values, word);
            if (u32 remaining = last - task.begin) {
                upcoming.advance(edges, last);
                do process_tile<false>(rows, last, epilogue);
                while (--remaining > 0);
            }
            process_tile<true>(rows, last, epilogue);
            sum = publish_in_block(edges, workspace, rows);
        }
        __syncthreads();
        if (!is_idle && rows.first_row_ended() && threadIdx.x % 32 == 0)
            finish_in_block(edges, workspace, epilogue, sum);
    }
};

}  // namespace cpms
