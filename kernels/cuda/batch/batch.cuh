// Batch layout.
#pragma once
#include "base/tile_layout.cuh"
#include "persistent/grid_sync.cuh"

namespace cpms {

struct BatchEdges {
    const u32* sources;
    const u16* row_end_flags;
    const u32* first_rows;   // row of each task's first slot
    const u32* first_tasks;  // task in which that row begins
    u32 tiles, task_tiles, rows;
    volatile u64* carry_out;  // one a turn of a block and column; TaskPieces::missing where there is nothing
};

// Where numbers of queries lie: `stride` a node, of which a launch takes `used`; both are multiples of Each.
// Behind the nodes is a row of zeros of what is gathered.
struct Columns {
    u32 stride, used;
};

// What single nodes get of teleport: entries `starts[row]` to `starts[row + 1]`, each of one column, counted
// from `first` on in this launch.
struct TeleportEntries {
    const u32 *starts, *columns_of_entries;
    const double* weights;
    u32 first;
};

// `Each` columns of a lane; lanes without any use the last one's and write nothing.
template <int Each>
struct LaneColumns {
    u32 first, stride;
    bool writes;
    CPMS_DEVICE explicit LaneColumns(const Columns& columns) : stride(columns.stride) {
        const u32 mine = threadIdx.x % 32 * Each;
        writes = mine < columns.used;
        first = writes ? mine : columns.used - Each;
    }
    // Where its numbers of a row lie, of `Bytes` each.
    template <u32 ByteDegrees, class Byte>
    CPMS_DEVICE Byte* at(Byte* numbers, u32 row) const {
        return numbers + first * ByteDegrees + (u64)row * (stride * ByteDegrees);
    }
};

// The column of a number of all lanes, one lane's after another's.
template <int Each>
CPMS_DEVICE u32 column_at(u32 place, const Columns& columns) {
    return smaller(place / Each * Each, columns.used - Each) + place % Each;
}

// Adds what a node gets of teleport to each query.
template <int Each, class Number, class Share>
CPMS_DEVICE void add_teleport(const TeleportEntries& teleport, u32 row, u32 first, Number (&value)[Each], Share share) {
    const u32 end = teleport.starts[row + 1];
#pragma unroll 1
    for (u32 i = teleport.starts[row]; i < end; ++i) {
        const u32 columns_of_entries = teleport.columns_of_entries[i] - teleport.first;
        const double weights = teleport.weights[i];
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            if (columns_of_entries == first + k) value[k] += (Number)(share(k) * weights);
        }
    }
}

// Numbers that the warps of a block leave for each other, two of each column.
template <int Each, class Sum = float>
CPMS_DEVICE Sum* block_workspace() {
    alignas(16) __shared__ Sum workspace[2 * persistent_warps * 32 * Each];
    return workspace;
}

// Leaves a block's total of each column for `joined_totals`, of what its lanes bring, at partials[column][block].
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

// Per query over the grid: `Sums` sums, then largest values.
template <int Each, int Degree, int Sums>
struct BatchReduce {
    double value[Degree][Each] = {};

    CPMS_DEVICE void add(int q, int k, double number) {
        value[q][k] = q < Sums ? value[q][k] + number : Larger{}(value[q][k], number);
    }
    // partials: [total][column][block]
    template <class Sum = float>
    CPMS_DEVICE void publish(double* partials, const Columns& columns) const {
        const u64 each = (u64)columns.used * gridDim.x;
#pragma unroll  // a counter would move the totals out of registers
        for (int q = 0; q < Degree; ++q) {
            if (q < Sums) {
                publish_block<Each, Sum>(value[q], Add{}, partials + q * each, columns);
            } else {
                publish_block<Each, Sum>(value[q], Larger{}, partials + q * each, columns);
            }
        }
    }
};

// The total of one column over the blocks; every lane of the warp gets it.
CPMS_DEVICE double reduce_partials(const double* partials, u32 index, u32 blocks, bool largest) {
    const double* const mine = partials + (u64)index * blocks;
    double total = 0.0;
    for (u32 block = threadIdx.x % 32; block < blocks; block += 32) {
        total = largest ? Larger{}(total, mine[block]) : total + mine[block];
    }
    return largest ? warp_reduce(total, Larger{}) : warp_reduce(total, Add{});
}

}  // namespace cpms

#define CPMS_BATCH_EDGES                                                                      \
    const unsigned *sources, const unsigned short *row_end_flags, const unsigned *first_rows, \
        const unsigned *first_tasks, unsigned tiles, unsigned task_tiles, unsigned long long *carry_out
#define CPMS_BATCH_EDGES_GIVEN \
    cpms::BatchEdges { sources, row_end_flags, first_rows, first_tasks, tiles, task_tiles, count, carry_out }
