// Data layout of a batch of queries: the values of all queries of a node are adjacent, and lanes hold queries
// (columns). An edge's index is read once for all queries.
#pragma once
#include "persistent/grid_sync.cuh"
#include "spmv/carry_out.cuh"

namespace cpms {

// A task is a run of `task_tiles` tiles, for one warp; a task group has the tasks of a block's warps.
struct BatchEdges {
    const u32* sources;           // of each entry of padded CSR
    const u16* row_end_flags;     // of each eight entries, as in Edges (persistent/warp_ranges.cuh)
    const u32* first_rows;        // row of each task's first entry
    const u32* first_tasks;       // task in which that row begins
    u32 tiles, task_tiles, rows;  // tiles of 256 entries, in all and of a task
    CarryOut carry_out;           // [task group][column]
};

// The columns of a batch: `stride` numbers a node, of which a launch uses `used`; both are multiples of Each. A row
// of zeros lies past the last node of a gathered matrix.
struct Columns {
    u32 stride, used;
};

// Teleport to single nodes: entries starts[row] to starts[row + 1], one column each, numbered from `first` in this
// launch.
struct TeleportEntries {
    const u32 *starts, *columns;
    const double* weights;
    u32 first;
};

// A lane's `Each` columns. Lanes without a column use the last one's and do not write.
template <int Each>
struct LaneColumns {
    u32 first, stride;
    bool writes;
    CPMS_DEVICE explicit LaneColumns(const Columns& columns) : stride(columns.stride) {
        const u32 mine = threadIdx.x % 32 * Each;
        writes = mine < columns.used;
        first = writes ? mine : columns.used - Each;
    }
    // The address of the lane's numbers of a row, `Bytes` each.
    template <u32 Bytes, class Byte>
    CPMS_DEVICE Byte* at(Byte* numbers, u32 row) const {
        return numbers + first * Bytes + (u64)row * (stride * Bytes);
    }
};

// The column of a number, where the numbers of all lanes lie in sequence.
template <int Each>
CPMS_DEVICE u32 column_at(u32 place, const Columns& columns) {
    return smaller(place / Each * Each, columns.used - Each) + place % Each;
}

// Adds a node's teleport to each query; total(k) is the teleport of the lane's k-th query.
template <int Each, class Number, class Total>
CPMS_DEVICE void add_teleport(const TeleportEntries& teleport, u32 row, u32 first, Number (&value)[Each], Total total) {
    const u32 end = teleport.starts[row + 1];
#pragma unroll 1
    for (u32 i = teleport.starts[row]; i < end; ++i) {
        const u32 column = teleport.columns[i] - teleport.first;
        const double weight = teleport.weights[i];
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            if (column == first + k) value[k] += (Number)(total(k) * weight);
        }
    }
}

// Shared memory of the warps' numbers, two of each column. Sum is the type of row sums of the kernel, so that all its
// uses share one array.
template <int Each, class Sum = float>
CPMS_DEVICE Sum* block_workspace() {
    alignas(16) __shared__ Sum workspace[2 * persistent_warps * 32 * Each];
    return workspace;
}

// Reduces a block's values of each column and stores them for `reduce_partials` at partials[column][block]. Two numbers
// of type Sum hold a float64.
template <int Each, class Sum, class Combine>
CPMS_DEVICE void publish_block(const double (&value)[Each], Combine combine, double* partials, const Columns& columns) {
    auto* const workspace = (double (*)[32 * Each]) block_workspace<Each, Sum>();
    __syncthreads();
#pragma unroll
    for (int k = 0; k < Each; ++k) workspace[threadIdx.x / 32][threadIdx.x % 32 * Each + k] = value[k];
    __syncthreads();
    if (threadIdx.x >= columns.used) return;
    double total = workspace[0][threadIdx.x];
    for (int w = 1; w < persistent_warps; ++w) total = combine(total, workspace[w][threadIdx.x]);
    partials[(u64)threadIdx.x * gridDim.x + blockIdx.x] = total;
}

// Reduction over the grid for each query: `Sums` sums, then maxima of numbers that are not negative.
template <int Each, int Count, int Sums>
struct BatchReduce {
    double value[Count][Each] = {};

    CPMS_DEVICE void add(int q, int k, double number) {
        value[q][k] = q < Sums ? value[q][k] + number : Larger{}(value[q][k], number);
    }
    // partials: [total][column][block]
    template <class Sum = float>
    CPMS_DEVICE void publish(double* partials, const Columns& columns) const {
        const u64 each = (u64)columns.used * gridDim.x;
#pragma unroll  // a loop counter would move the totals out of registers
        for (int q = 0; q < Count; ++q) {
            if (q < Sums) {
                publish_block<Each, Sum>(value[q], Add{}, partials + q * each, columns);
            } else {
                publish_block<Each, Sum>(value[q], Larger{}, partials + q * each, columns);
            }
        }
    }
};

// The total of one column over the blocks, for all lanes of a warp.
CPMS_DEVICE double reduce_partials(const double* partials, u32 index, u32 blocks, bool largest) {
    const double* const mine = partials + (u64)index * blocks;
    double total = 0.0;
    for (u32 block = threadIdx.x % 32; block < blocks; block += 32) {
        total = largest ? Larger{}(total, mine[block]) : total + mine[block];
    }
    return largest ? warp_reduce(total, Larger{}) : warp_reduce(total, Add{});
}

}  // namespace cpms
