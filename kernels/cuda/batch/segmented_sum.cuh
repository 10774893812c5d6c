// A sweep of many queries over the edges: node by node their values lie side by side, and lanes are queries.
//
// Slots and marks are those of spmv/csr_balanced.cu. A warp walks tasks of slots: a lane loads one source of
// 32, all gather by each in turn, `Each` values a lane, so that an edge is one run of whole sectors that
// serves all queries. The warps of a block take tasks that follow one another, so that they gather near each
// other. Rows that cross tasks are joined in shared memory, and those that cross blocks by pieces.
#pragma once
#include "batch/batch.cuh"
#include "base/float32_view.cuh"
#include "spmv/carry_out.cuh"

namespace cpms {

// The pieces of a row in turns `from` to `turn` - 1, added in their order; takes them away.
template <int Each>
CPMS_DEVICE void collect_pieces(const BatchEdges& edges, u32 from, u32 turn, u32 used, const Lane<Each>& mine,
                                double (&sum)[Each]) {
    constexpr int together = 8 / Each;
    for (u32 base = from; base < turn; base += together) {
        u64 piece[together][Each];
        bool all;
        do {
            all = true;
#pragma unroll
            for (int j = 0; j < together; ++j) {
#pragma unroll
                for (int k = 0; k < Each; ++k) {
                    piece[j][k] = edges.pieces[(u64)smaller(base + j, turn - 1) * used + mine.first + k];
                }
            }
#pragma unroll
            for (int j = 0; j < together; ++j) {
#pragma unroll
                for (int k = 0; k < Each; ++k) all = all && piece[j][k] != TaskPieces::missing;
            }
            if (!all) wait_a_little();
        } while (!all);
#pragma unroll
        for (int j = 0; j < together; ++j) {
#pragma unroll
            for (int k = 0; k < Each; ++k) sum[k] += base + j < turn ? value_of(piece[j][k]) : 0.0;
        }
    }
    __syncwarp();
    for (u32 other = from; other < turn && mine.writes; ++other) {
#pragma unroll
        for (int k = 0; k < Each; ++k) edges.pieces[(u64)other * used + mine.first + k] = TaskPieces::missing;
    }
}

// The end of a turn: tasks have left what they hold of the rows that were open at their ends in `room`, and
// what they found first of the row that was open when they began in `head`.
template <int Each, class Sum, class AtEnd>
CPMS_DEVICE void join_tasks(const BatchEdges& edges, u32 turn, const Sum (*room)[32 * Each], u32 used,
                            const Lane<Each>& mine, bool ended, const Sum* head, AtEnd& at_end) {
    const u32 lane = threadIdx.x % 32, first_task = turn * resident_warps, task = first_task + threadIdx.x / 32;
    const u32 tasks = (edges.steps + edges.task_steps - 1) / edges.task_steps;
    if (task >= tasks) return;
    const u32 began = edges.first_tasks[task];
    const bool goes_on = task + 1 < tasks && edges.first_tasks[task + 1] <= task;
    if (goes_on && task == first_task + resident_warps - 1) {
        const u32 since = ended ? task : began;
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            double piece = 0.0;
            for (u32 t = since > first_task ? since : first_task; t <= task; ++t) {
                piece += (double)room[t - first_task][lane * Each + k];
            }
            const u64 left = bits_of(piece);
            if (mine.writes) {
                edges.pieces[(u64)turn * used + mine.first + k] = left == TaskPieces::missing ? left << 1 : left;
            }
        }
    }
    if (began == task || !ended) return;
    double sum[Each] = {};
    if (began < first_task) collect_pieces<Each>(edges, began / resident_warps, turn, used, mine, sum);
    Sum whole[Each];
#pragma unroll
    for (int k = 0; k < Each; ++k) {
        for (u32 t = began > first_task ? began : first_task; t < task; ++t) {
            sum[k] += (double)room[t - first_task][lane * Each + k];
        }
        whole[k] = (Sum)(sum[k] + (double)head[k]);
    }
    const u32 row = edges.first_rows[task];
    at_end.finish(row, whole, at_end.load(row, mine), mine);
}

// Adds values to a sum, from number `from` on to the last one of a row, or all that are left. Returns the number
// behind.
template <class F, int Each, int Together, class Values, class Sum>
CPMS_DEVICE u32 add_until_end(const Values (&gathered)[Together], u32 from, u32 ends, Sum (&sum)[Each]) {
    if (!ends) {
#pragma unroll
        for (int j = 0; j < Together; ++j) {
            Sum value[Each];
            Narrow<F>::template values<Each>(gathered[j], value);
#pragma unroll
            for (int k = 0; k < Each; ++k) sum[k] += value[k];
        }
        return Together;
    }
    // A jump: all else that the walk does at the end of a row stands in its code once, not once a number.
#define CPMS_ADD(J)                                              \
    case J:                                                      \
        if constexpr (J < Together) {                            \
            Sum value[Each];                                     \
            Narrow<F>::template values<Each>(gathered[J], value); \
            for (int k = 0; k < Each; ++k) sum[k] += value[k];   \
            if (ends >> J & 1) return J + 1;                     \
        }                                                        \
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

// How many values a lane has on their way: `now`, and while it adds those up as many of the next ones where `ahead`; where
// these are `fetched`, the second-level cache has them by then, which pays where it is not what sweeps wait for.
template <int Bytes, int Each>
struct Gathers {
    static constexpr int now = 8;
    static constexpr bool ahead = Bytes <= 4 && Each <= 2, fetched = Bytes >= 16;
};

// Calls at_end.finish(row, sums, at_end.load(row, lane), lane) once a row, and at_end.turn_done() after a task.
template <class F, int Each, class AtEnd>
CPMS_DEVICE void walk_batch(const BatchEdges& edges, const u8* values, const Columns& columns, AtEnd& at_end) {
    using Sum = typename Narrow<F>::Sum;
    constexpr int number = Narrow<F>::width / 8, together = Gathers<Each * number, Each>::now;
    constexpr bool ahead = Gathers<Each * number, Each>::ahead;
    using Values = Run<Each * number>;
    alignas(16) __shared__ Sum heads[resident_warps][32 * Each];
    auto* const room = (Sum (*)[resident_warps][32 * Each])block_room<Each, Sum>();
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Lane<Each> mine(columns);
    const u32 turn_steps = resident_warps * edges.task_steps, turns = (edges.steps + turn_steps - 1) / turn_steps;
    const u32 last_part = edges.steps * step_slots - 32;  // Slots are fewer than 2^32.
    Sum* const head = heads[warp] + lane * Each;
    const u8* first_values = values + mine.first * number;
    const u32 row_bytes = columns.stride * number;
#if defined(__CUDA_ARCH__)
    asm("" : "+l"(first_values));  // one number: else its parts are added at each gather
#endif
    const auto gather = [&](Values(&into)[together], u32 sources, u32 first) {
#pragma unroll
        for (int j = 0; j < together; ++j) {
            const u32 from = __shfl_sync(all_lanes, sources, first + j);
            into[j] = load_run_bytes<Each * number>(first_values + (u64)from * row_bytes, ReadOnly{});
        }
    };
    const auto fetch_ahead_of = [&](u32 sources, u32 first) {
#pragma unroll
        for (int j = 0; j < together; ++j) {
            fetch_ahead(first_values + (u64)__shfl_sync(all_lanes, sources, first + j) * row_bytes);
        }
    };
    u32 side = 0;
#pragma unroll 1
    for (u32 turn = blockIdx.x; turn < turns; turn += gridDim.x, side ^= 1) {
        const u32 task = turn * resident_warps + warp, begin = smaller(task * edges.task_steps, edges.steps);
        const u32 end = smaller(begin + edges.task_steps, edges.steps);
        u32 row = begin < end ? edges.first_rows[task] : 0;
        bool open = begin < end && edges.first_tasks[task] < task, ended = false;
        Sum sum[Each] = {};
        auto loaded = at_end.load(row, mine);
        u32 at = begin * step_slots, mark = 0;
        const u32 stop = end * step_slots;
        u32 source = load_word(edges.sources + (u64)smaller(at, last_part) + lane, Streaming{});
        Values gathered[together];
        if constexpr (ahead) gather(gathered, source, 0);
#pragma unroll 1
        for (; at < stop; at += 32) {
            if (at % step_slots == 0) mark = load_word(edges.marks + at / 8 + lane, Streaming{});
            const u32 following = load_word(edges.sources + (u64)smaller(at + 32, last_part) + lane, Streaming{});
#pragma unroll 1
            for (u32 chunk = 0; chunk < 32; chunk += together) {
                const u32 marked = __shfl_sync(all_lanes, mark, (at + chunk) / 8 % 32) >> chunk % 8;
                const u32 ends = marked & ((1u << together) - 1);
                Values next[together];
                if constexpr (ahead) {
                    const u32 behind = chunk + together;
                    gather(next, behind < 32 ? source : following, behind % 32);
                } else {
                    gather(gathered, source, chunk);
                    if constexpr (Gathers<Each * number, Each>::fetched) {
                        const u32 behind = chunk + together;
                        fetch_ahead_of(behind < 32 ? source : following, behind % 32);
                    }
                }
                u32 from = 0;
#pragma unroll 1
                do {
                    from = add_until_end<F, Each, together>(gathered, from, ends, sum);
                    if (!(ends >> (from - 1) & 1)) break;
                    if (open) {
#pragma unroll
                        for (int k = 0; k < Each; ++k) head[k] = sum[k];
                    } else {
                        at_end.finish(row, sum, loaded, mine);
                    }
                    open = false;
                    ended = true;
                    row = smaller(row + 1, edges.rows - 1);
                    loaded = at_end.load(row, mine);
#pragma unroll
                    for (int k = 0; k < Each; ++k) sum[k] = 0;
                } while (from < together);
                if constexpr (ahead) {
#pragma unroll
                    for (int j = 0; j < together; ++j) gathered[j] = next[j];
                }
            }
            source = following;
        }
#pragma unroll
        for (int k = 0; k < Each; ++k) room[side][warp][lane * Each + k] = sum[k];
        __syncthreads();
        join_tasks<Each>(edges, turn, room[side], columns.used, mine, ended, head, at_end);
        at_end.turn_done();
    }
}

}  // namespace cpms
