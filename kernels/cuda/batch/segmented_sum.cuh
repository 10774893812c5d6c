// SpMM of a sparse pattern and a batch of queries: lanes hold columns, and a warp walks through the entries of its
// task in sequence.
//
// Entries and flags are those of spmv/csr_balanced.cu. A lane loads one index of 32; then all lanes gather for each
// index in turn, `Each` columns a lane. The values of an edge are then one run of whole sectors, which serves all
// queries. The warps of a block take consecutive tasks, so that their gathers are near each other. Rows that cross
// tasks are joined in shared memory, and those that cross blocks by carry-out. An edge costs its index once, and its
// values of all queries.
#pragma once
#include "base/float32_view.cuh"
#include "batch/batch.cuh"

namespace cpms {

// Sum of a row's partial sums of task groups `from` to `group` - 1, in their order; marks them absent.
template <int Each>
CPMS_DEVICE void gather_carry_out(const BatchEdges& edges, u32 from, u32 group, u32 used, const LaneColumns<Each>& mine,
                                  double (&sum)[Each]) {
    constexpr int in_flight = 8 / Each;
    for (u32 base = from; base < group; base += in_flight) {
        u64 partial[in_flight][Each];
        bool all;
        do {
            all = true;
#pragma unroll
            for (int j = 0; j < in_flight; ++j) {
#pragma unroll
                for (int k = 0; k < Each; ++k) {
                    partial[j][k] = edges.carry_out.bits[smaller(base + j, group - 1) * used + mine.first + k];
                }
            }
#pragma unroll
            for (int j = 0; j < in_flight; ++j) {
#pragma unroll
                for (int k = 0; k < Each; ++k) all = all && partial[j][k] != CarryOut::missing;
            }
            if (!all) back_off();
        } while (!all);
#pragma unroll
        for (int j = 0; j < in_flight; ++j) {
#pragma unroll
            for (int k = 0; k < Each; ++k) sum[k] += base + j < group ? value_of(partial[j][k]) : 0.0;
        }
    }
    __syncwarp();
    for (u32 other = from; other < group && mine.writes; ++other) {
#pragma unroll
        for (int k = 0; k < Each; ++k) edges.carry_out.bits[other * used + mine.first + k] = CarryOut::missing;
    }
}

// The end of a task group: publishes the partial sum of the row that continues in the next group, and finishes the row
// that was open when the task began, if it ended. `workspace` holds the partial sum of each task's last row, and `head`
// that of the row that was open.
template <int Each, class Sum, class Epilogue>
CPMS_DEVICE void join_tasks(const BatchEdges& edges, u32 group, const Sum (*workspace)[32 * Each], u32 used,
                            const LaneColumns<Each>& mine, bool ended, const Sum* head, Epilogue& epilogue) {
    const u32 lane = threadIdx.x % 32, first_task = group * persistent_warps, task = first_task + threadIdx.x / 32;
    const u32 tasks = (edges.tiles + edges.task_tiles - 1) / edges.task_tiles;
    if (task >= tasks) return;
    const u32 first_task_of_row = edges.first_tasks[task];
    const bool last_open = task + 1 < tasks && edges.first_tasks[task + 1] <= task;
    if (last_open && task == first_task + persistent_warps - 1) {
        const u32 since = ended ? task : first_task_of_row;
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            double partial = 0.0;
            for (u32 t = larger(since, first_task); t <= task; ++t) {
                partial += (double)workspace[t - first_task][lane * Each + k];
            }
            if (mine.writes) edges.carry_out.publish(group * used + mine.first + k, partial);
        }
    }
    if (first_task_of_row == task || !ended) return;
    double sum[Each] = {};
    if (first_task_of_row < first_task)
        gather_carry_out<Each>(edges, first_task_of_row / persistent_warps, group, used, mine, sum);
    Sum whole[Each];
#pragma unroll
    for (int k = 0; k < Each; ++k) {
        for (u32 t = larger(first_task_of_row, first_task); t < task; ++t) {
            sum[k] += (double)workspace[t - first_task][lane * Each + k];
        }
        whole[k] = (Sum)(sum[k] + (double)head[k]);
    }
    const u32 row = edges.first_rows[task];
    epilogue.finish(row, whole, epilogue.load(row, mine), mine);
}

// Adds values to a sum, from number `from` to the last one of a row, or all that remain. Returns the next number.
template <class F, int Each, int Together, class Values, class Sum>
CPMS_DEVICE u32 add_to_row_end(const Values (&gathered)[Together], u32 from, u32 ends, Sum (&sum)[Each]) {
    if (!ends) {
#pragma unroll
        for (int j = 0; j < Together; ++j) {
            Sum value[Each];
            Float32View<F>::template values<Each>(gathered[j], value);
#pragma unroll
            for (int k = 0; k < Each; ++k) sum[k] += value[k];
        }
        return Together;
    }
    // A jump into unrolled code: the code at the end of a row then exists once, not once a number.
#define CPMS_ADD(J)                                                    \
    case J:                                                            \
        if constexpr (J < Together) {                                  \
            Sum value[Each];                                           \
            Float32View<F>::template values<Each>(gathered[J], value); \
            for (int k = 0; k < Each; ++k) sum[k] += value[k];         \
            if (ends >> J & 1) return J + 1;                           \
        }                                                              \
        [[fallthrough]];
    switch (from) {
        CPMS_ADD(0)
        CPMS_ADD(1)
        CPMS_ADD(2)
        CPMS_ADD(3)
        CPMS_ADD(4)
        CPMS_ADD(5)
        CPMS_ADD(6)
        CPMS_ADD(7)
        default:
            return Together;
    }
#undef CPMS_ADD
}

// Gathers in flight: `loads` of a lane, as many of the next ones in registers with `prefetches`, or in the
// second-level cache with `prefetches_l2`, where that cache is not the bottleneck.
template <int Bytes, int Each>
struct GatherPipeline {
    static constexpr int loads = 8;
    static constexpr bool prefetches = Bytes <= 4 && Each <= 2, prefetches_l2 = Bytes >= 16;
};

// Calls epilogue.finish(row, sums, epilogue.load(row, lane), lane) once a row, and epilogue.group_done() after a
// task.
template <class F, int Each, class Epilogue>
CPMS_DEVICE void batch_segmented_sum(const BatchEdges& edges, const u8* values, const Columns& columns,
                                     Epilogue& epilogue) {
    using Sum = typename Float32View<F>::Sum;
    constexpr int number = Float32View<F>::width / 8, in_flight = GatherPipeline<Each * number, Each>::loads;
    constexpr bool prefetches = GatherPipeline<Each * number, Each>::prefetches;
    using Values = Run<Each * number>;
    alignas(16) __shared__ Sum bases[persistent_warps][32 * Each];
    auto* const workspace = (Sum(*)[persistent_warps][32 * Each]) block_workspace<Each, Sum>();
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const LaneColumns<Each> mine(columns);
    const u32 group_tiles = persistent_warps * edges.task_tiles, groups = (edges.tiles + group_tiles - 1) / group_tiles;
    const u32 last_part = edges.tiles * tile_entries - 32;  // Entries are fewer than 2^32.
    Sum* const head = bases[warp] + lane * Each;
    const u8* first_values = values + mine.first * number;
    const u32 row_bytes = columns.stride * number;
#if defined(__CUDA_ARCH__)
    asm("" : "+l"(first_values));  // one register: its parts would be added at each gather
#endif
    const auto gather = [&](Values(&into)[in_flight], u32 sources, u32 first) {
#pragma unroll
        for (int j = 0; j < in_flight; ++j) {
            const u32 from = __shfl_sync(all_lanes, sources, first + j);
            into[j] = load_run_bytes<Each * number>(first_values + (u64)from * row_bytes, ReadOnly{});
        }
    };
    const auto prefetch_values = [&](u32 sources, u32 first) {
#pragma unroll
        for (int j = 0; j < in_flight; ++j) {
            prefetch_l2(first_values + (u64)__shfl_sync(all_lanes, sources, first + j) * row_bytes);
        }
    };
    u32 parity = 0;
#pragma unroll 1
    for (u32 group = blockIdx.x; group < groups; group += gridDim.x, parity ^= 1) {
        const u32 task = group * persistent_warps + warp, begin = smaller(task * edges.task_tiles, edges.tiles);
        const u32 end = smaller(begin + edges.task_tiles, edges.tiles);
        u32 row = begin < end ? edges.first_rows[task] : 0;
        bool open = begin < end && edges.first_tasks[task] < task, ended = false;
        Sum sum[Each] = {};
        auto operands = epilogue.load(row, mine);
        u32 at = begin * tile_entries, flags = 0;
        const u32 stop = end * tile_entries;
        u32 source = load_word(edges.sources + (u64)smaller(at, last_part) + lane, Streaming{});
        Values gathered[in_flight];
        if constexpr (prefetches) gather(gathered, source, 0);
#pragma unroll 1
        for (; at < stop; at += 32) {
            if (at % tile_entries == 0) flags = load_word(edges.row_end_flags + at / 8 + lane, Streaming{});
            const u32 following = load_word(edges.sources + (u64)smaller(at + 32, last_part) + lane, Streaming{});
#pragma unroll 1
            for (u32 chunk = 0; chunk < 32; chunk += in_flight) {
                const u32 chunk_flags = __shfl_sync(all_lanes, flags, (at + chunk) / 8 % 32) >> chunk % 8;
                const u32 ends = chunk_flags & ((1u << in_flight) - 1);
                Values next[in_flight];
                if constexpr (prefetches) {
                    const u32 next_chunk = chunk + in_flight;
                    gather(next, next_chunk < 32 ? source : following, next_chunk % 32);
                } else {
                    gather(gathered, source, chunk);
                    if constexpr (GatherPipeline<Each * number, Each>::prefetches_l2) {
                        const u32 next_chunk = chunk + in_flight;
                        prefetch_values(next_chunk < 32 ? source : following, next_chunk % 32);
                    }
                }
                u32 from = 0;
#pragma unroll 1
                do {
                    from = add_to_row_end<F, Each, in_flight>(gathered, from, ends, sum);
                    if (!(ends >> (from - 1) & 1)) break;
                    if (open) {
#pragma unroll
                        for (int k = 0; k < Each; ++k) head[k] = sum[k];
                    } else {
                        epilogue.finish(row, sum, operands, mine);
                    }
                    open = false;
                    ended = true;
                    row = smaller(row + 1, edges.rows - 1);
                    operands = epilogue.load(row, mine);
#pragma unroll
                    for (int k = 0; k < Each; ++k) sum[k] = 0;
                } while (from < in_flight);
                if constexpr (prefetches) {
#pragma unroll
                    for (int j = 0; j < in_flight; ++j) gathered[j] = next[j];
                }
            }
            source = following;
        }
#pragma unroll
        for (int k = 0; k < Each; ++k) workspace[parity][warp][lane * Each + k] = sum[k];
        __syncthreads();
        join_tasks<Each>(edges, group, workspace[parity], columns.used, mine, ended, head, epilogue);
        epilogue.group_done();
    }
}

}  // namespace cpms
