// A sweep of many queries over the edges: node by node their values lie side by side, and lanes are queries.
//
// Slots and marks are those of spmv_csr_balanced.cu. A warp walks tasks of slots: a lane loads one source of
// 32, all gather by each in turn, `Each` values a lane, so that an edge is one run of whole sectors that
// serves all queries. The warps of a block take tasks that follow one another, so that they gather near each
// other. Rows that cross tasks are joined in shared memory, and those that cross blocks by pieces.
#pragma once
#include "rounds.cuh"

namespace cpms {

struct BatchEdges {
    const u32* sources;
    const u16* marks;
    const u32* first_rows;   // row of each task's first slot
    const u32* first_tasks;  // task in which that row begins
    u32 steps, task_steps, rows;
    volatile u64* pieces;    // one a turn of a block and column; TaskPieces::missing where there is nothing
};

// Where numbers of queries lie: `stride` a node, of which a launch takes `used`; both are multiples of Each.
// Behind the nodes is a row of zeros.
struct Columns {
    u32 stride, used;
};

// What single nodes get of teleport: entries `starts[row]` to `starts[row + 1]`, each of one column, counted
// from `first` on in this launch.
struct BatchOwn {
    const u32 *starts, *column;
    const double* weight;
    u32 first;
};

// How a number is gathered and summed: values as stored, without a query's scale.
template <class F>
struct Narrow;
template <>
struct Narrow<double> {
    using Sum = double;
    static constexpr int width = 64;
    static CPMS_DEVICE double value(u64 bits) { return value_of(bits); }
};
template <int E, int M, Rounding rounding>
struct Narrow<Packed<E, M, rounding>> {
    using Sum = float;
    static constexpr int width = 1 + E + M;
    static_assert(E <= 8, "float32 has no room for the exponent");
    static CPMS_DEVICE float value(u64 bits) {
        if constexpr (E == 8) return single_of((u32)bits << (32 - width));
#if defined(__CUDA_ARCH__)
        if constexpr (E == 5 && width <= 16) {
            float value;
            asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((u16)(bits << (16 - width))));
            return value;
        }
#endif
        return (float)unpack<E, M>((u32)bits);
    }
};

template <class F, int Each>
CPMS_DEVICE Run<Each * Narrow<F>::width / 8> load_columns(const u8* values, u32 row, u32 stride, u32 column) {
    constexpr int bytes = Narrow<F>::width / 8;
    return load_run_bytes<Each * bytes>(values + ((u64)row * stride + column) * bytes, ReadOnly{});
}

// `Each` columns of a lane; lanes without any use the last one's and write nothing.
template <int Each>
struct Lane {
    u32 first;
    bool writes;
    CPMS_DEVICE explicit Lane(const Columns& columns) {
        const u32 mine = threadIdx.x % 32 * Each;
        writes = mine < columns.used;
        first = writes ? mine : columns.used - Each;
    }
};

// Adds what a node gets of teleport to each query.
template <int Each, class Number, class Share>
CPMS_DEVICE void add_own(const BatchOwn& own, u32 begin, u32 end, u32 first, Number (&value)[Each], Share share) {
#pragma unroll 1
    for (u32 i = begin; i < end; ++i) {
        const u32 column = own.column[i] - own.first;
        const double weight = own.weight[i];
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            if (column == first + k) value[k] += (Number)(share(k) * weight);
        }
    }
}

// Per query over the grid: `Sums` sums, then largest values. A block leaves its own for `joined_totals`.
template <int Each, int Count, int Sums>
struct BatchTotals {
    double value[Count][Each] = {};

    CPMS_DEVICE void add(int q, int k, double number) {
        value[q][k] = q < Sums ? value[q][k] + number : Larger{}(value[q][k], number);
    }
    // partials: [total][column][block]
    CPMS_DEVICE void leave(double* partials, const Columns& columns) const {
        __shared__ double room[resident_warps][32 * Each];
        const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll 1
        for (int q = 0; q < Count; ++q) {
            __syncthreads();
#pragma unroll
            for (int k = 0; k < Each; ++k) room[warp][lane * Each + k] = value[q][k];
            __syncthreads();
            if (threadIdx.x < columns.used) {
                double total = room[0][threadIdx.x];
                for (int w = 1; w < resident_warps; ++w) {
                    const double other = room[w][threadIdx.x];
                    total = q < Sums ? total + other : Larger{}(total, other);
                }
                partials[((u64)q * columns.used + threadIdx.x) * gridDim.x + blockIdx.x] = total;
            }
        }
    }
};

// The total of one column over the blocks; every lane of the warp gets it.
CPMS_DEVICE double joined_totals(const double* partials, u32 index, u32 blocks, bool largest) {
    const double* const mine = partials + (u64)index * blocks;
    double total = 0.0;
    for (u32 block = threadIdx.x % 32; block < blocks; block += 32) {
        total = largest ? Larger{}(total, mine[block]) : total + mine[block];
    }
    return largest ? over_warp(total, Larger{}) : over_warp(total, Add{});
}

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

// The end of a turn: tasks have left what they hold of the rows that were open at their ends in `room`.
template <int Each, class Sum, class AtEnd>
CPMS_DEVICE void join_tasks(const BatchEdges& edges, u32 turn, const Sum (*room)[32 * Each], u32 used,
                            const Lane<Each>& mine, bool ended, Sum (&head)[Each], AtEnd& at_end) {
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
#pragma unroll
    for (int k = 0; k < Each; ++k) {
        for (u32 t = began > first_task ? began : first_task; t < task; ++t) {
            sum[k] += (double)room[t - first_task][lane * Each + k];
        }
        head[k] = (Sum)(sum[k] + (double)head[k]);
    }
    const u32 row = edges.first_rows[task];
    at_end.finish(row, head, at_end.load(row, mine), mine);
}

// Calls at_end.finish(row, sums, at_end.load(row, lane), lane) once a row, and at_end.turn_done() after a task.
template <class F, int Each, class AtEnd>
CPMS_DEVICE void walk_batch(const BatchEdges& edges, const u8* values, const Columns& columns, AtEnd& at_end) {
    using Sum = typename Narrow<F>::Sum;
    using Values = Run<Each * Narrow<F>::width / 8>;
    constexpr int together = sizeof(Values) > 8 ? 4 : 8;
    __shared__ Sum room[2][resident_warps][32 * Each];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Lane<Each> mine(columns);
    const u32 turn_steps = resident_warps * edges.task_steps, turns = (edges.steps + turn_steps - 1) / turn_steps;
    const u64 last_part = (u64)edges.steps * step_slots - 32;
    u32 side = 0;
    for (u32 turn = blockIdx.x; turn < turns; turn += gridDim.x, side ^= 1) {
        const u32 task = turn * resident_warps + warp, begin = smaller(task * edges.task_steps, edges.steps);
        const u32 end = smaller(begin + edges.task_steps, edges.steps);
        u32 row = begin < end ? edges.first_rows[task] : 0;
        bool open = begin < end && edges.first_tasks[task] < task, ended = false;
        Sum sum[Each] = {}, head[Each] = {};
        auto loaded = at_end.load(row, mine);
        u64 at = (u64)begin * step_slots;
        u32 source = load_word(edges.sources + (at < last_part ? at : last_part) + lane, Streaming{});
#pragma unroll 1
        for (u32 step = begin; step < end; ++step) {
            const u32 mark = load_word(edges.marks + (u64)step * 32 + lane, Streaming{});
#pragma unroll 1
            for (u32 part = 0; part < slots_each; ++part) {
                at += 32;
                const u32 following = load_word(edges.sources + (at < last_part ? at : last_part) + lane, Streaming{});
#pragma unroll 1
                for (u32 chunk = 0; chunk < 32; chunk += together) {
                    const u32 ends = __shfl_sync(all_lanes, mark, part * 4 + chunk / 8) >> chunk % 8;
                    Values gathered[together];
#pragma unroll
                    for (int j = 0; j < together; ++j) {
                        const u32 from = __shfl_sync(all_lanes, source, chunk + j);
                        gathered[j] = load_columns<F, Each>(values, from, columns.stride, mine.first);
                    }
#pragma unroll
                    for (int j = 0; j < together; ++j) {
#pragma unroll
                        for (int k = 0; k < Each; ++k) {
                            sum[k] += Narrow<F>::value(gathered[j].template field<Narrow<F>::width>(k));
                        }
                        if (ends >> j & 1) {
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
                        }
                    }
                }
                source = following;
            }
        }
#pragma unroll
        for (int k = 0; k < Each; ++k) room[side][warp][lane * Each + k] = sum[k];
        __syncthreads();
        join_tasks<Each>(edges, turn, room[side], columns.used, mine, ended, head, at_end);
        at_end.turn_done();
    }
}

}  // namespace cpms
