// Batch layout.
#pragma once
#include "base/tile_layout.cuh"
#include "persistent/grid_sync.cuh"

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
// Behind the nodes is a row of zeros of what is gathered.
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

// `Each` columns of a lane; lanes without any use the last one's and write nothing.
template <int Each>
struct Lane {
    u32 first, stride;
    bool writes;
    CPMS_DEVICE explicit Lane(const Columns& columns) : stride(columns.stride) {
        const u32 mine = threadIdx.x % 32 * Each;
        writes = mine < columns.used;
        first = writes ? mine : columns.used - Each;
    }
    // Where its numbers of a row lie, of `Bytes` each.
    template <u32 Bytes, class Byte>
    CPMS_DEVICE Byte* at(Byte* numbers, u32 row) const {
        return numbers + first * Bytes + (u64)row * (stride * Bytes);
    }
};

// The column of a number of all lanes, one lane's after another's.
template <int Each>
CPMS_DEVICE u32 column_at(u32 place, const Columns& columns) {
    return smaller(place / Each * Each, columns.used - Each) + place % Each;
}

// Adds what a node gets of teleport to each query.
template <int Each, class Number, class Share>
CPMS_DEVICE void add_own(const BatchOwn& own, u32 row, u32 first, Number (&value)[Each], Share share) {
    const u32 end = own.starts[row + 1];
#pragma unroll 1
    for (u32 i = own.starts[row]; i < end; ++i) {
        const u32 column = own.column[i] - own.first;
        const double weight = own.weight[i];
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            if (column == first + k) value[k] += (Number)(share(k) * weight);
        }
    }
}

// Numbers that the warps of a block leave for each other, two of each column.
template <int Each, class Sum = float>
CPMS_DEVICE Sum* block_room() {
    alignas(16) __shared__ Sum room[2 * resident_warps * 32 * Each];
    return room;
}

// Leaves a block's total of each column for `joined_totals`, of what its lanes bring, at partials[column][block].
template <int Each, class Sum, class Join>
CPMS_DEVICE void leave_total(const double (&value)[Each], Join join, double* partials, const Columns& columns) {
    auto* const room = (double (*)[32 * Each])block_room<Each, Sum>();
    __syncthreads();
#pragma unroll
    for (int k = 0; k < Each; ++k) room[threadIdx.x / 32][threadIdx.x % 32 * Each + k] = value[k];
    __syncthreads();
    if (threadIdx.x >= columns.used) return;
    double total = room[0][threadIdx.x];
    for (int w = 1; w < resident_warps; ++w) total = join(total, room[w][threadIdx.x]);
    partials[(u64)threadIdx.x * gridDim.x + blockIdx.x] = total;
}

// Per query over the grid: `Sums` sums, then largest values.
template <int Each, int Count, int Sums>
struct BatchTotals {
    double value[Count][Each] = {};

    CPMS_DEVICE void add(int q, int k, double number) {
        value[q][k] = q < Sums ? value[q][k] + number : Larger{}(value[q][k], number);
    }
    // partials: [total][column][block]
    template <class Sum = float>
    CPMS_DEVICE void leave(double* partials, const Columns& columns) const {
        const u64 each = (u64)columns.used * gridDim.x;
#pragma unroll  // a counter would move the totals out of registers
        for (int q = 0; q < Count; ++q) {
            if (q < Sums) {
                leave_total<Each, Sum>(value[q], Add{}, partials + q * each, columns);
            } else {
                leave_total<Each, Sum>(value[q], Larger{}, partials + q * each, columns);
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

}  // namespace cpms

#define CPMS_BATCH_EDGES                                                                              \
    const unsigned *sources, const unsigned short *marks, const unsigned *first_rows,                 \
        const unsigned *first_tasks, unsigned steps, unsigned task_steps, unsigned long long *pieces
#define CPMS_BATCH_EDGES_GIVEN \
    cpms::BatchEdges { sources, marks, first_rows, first_tasks, steps, task_steps, count, pieces }
