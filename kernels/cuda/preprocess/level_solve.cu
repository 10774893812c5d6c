// Level-scheduled substitution (Anderson and Saad, 1989; Naumov, 2011) over the nodes outside the trimmed core, where
// the matrix is triangular: y = damping P y + v with teleport v, of which x is a multiple.
//
// Levels upstream of the core come first, then their inflow to the core; downstream, the levels after the core, then
// x. Each edge is read once in float64, in place of once a sweep. A level costs a grid barrier, or a block barrier if
// it is narrow.
#include "base/loads.cuh"
#include "pagerank/sweep_log.cuh"

namespace cpms {

// Rows are positions: the core's first, then those of each level in sequence. `indptr` and `begins` count from the
// first row outside the core; sources, degrees and teleport belong to positions.
struct Levels {
    const u32 *indptr, *sources;
    const u32* begins;   // first row of each level, and the end of the last
    const u32* degrees;  // out-degrees
    const double* teleport;
    u32 teleport_stride;  // 0 where one number serves all
    u32 core, count;      // rows of the core; levels
    double damping;

    CPMS_DEVICE double inflow(u32 row) const { return load_double(teleport + row * teleport_stride); }
};

// rows of a level that one block solves alone, sooner than a grid barrier
constexpr u32 narrow_level = 2 * persistent_threads;
constexpr u32 lane_entries_limit = 32;  // entries of a row above which the whole warp sums it
constexpr u32 lumped = 0xFFFFFFFF;      // not a node: a lumped position, whose nodes lie downstream

// A lane's row, loaded before the values that it reads exist.
struct RowPrefetch {
    static constexpr u32 together = 8;
    u32 begin = 0, end = 0, degree = 0, source[together];

    CPMS_DEVICE void bounds(const u32* indptr, const u32* degrees, u32 row, u32 limit) {
        begin = end = 0;
        if (row < limit) {
            begin = load_word(indptr + row, ReadOnly{});
            end = load_word(indptr + row + 1, ReadOnly{});
            degree = load_word(degrees + row, ReadOnly{});
        }
    }
    CPMS_DEVICE void entries(const u32* sources) {
#pragma unroll
        for (u32 j = 0; j < together; ++j) source[j] = begin + j < end ? load_word(sources + begin + j, ReadOnly{}) : 0;
    }
};

CPMS_DEVICE double sum_of_eight(const double (&value)[8]) {
    return ((value[0] + value[1]) + (value[2] + value[3])) + ((value[4] + value[5]) + (value[6] + value[7]));
}

// The row sum of a lane; the whole warp sums long rows, one after another. All lanes take part.
CPMS_DEVICE double row_sum(const RowPrefetch& row, const u32* sources, const double* contributions) {
    constexpr u32 together = RowPrefetch::together;
    const u32 lane = threadIdx.x % 32;
    const bool is_long = row.end - row.begin > lane_entries_limit;
    double sum = 0.0;
    if (!is_long && row.begin < row.end) {
        double value[together];
#pragma unroll
        for (u32 j = 0; j < together; ++j) value[j] = row.begin + j < row.end ? contributions[row.source[j]] : 0.0;
        sum = sum_of_eight(value);
        for (u32 k = row.begin + together; k < row.end; k += together) {
#pragma unroll
            for (u32 j = 0; j < together; ++j) value[j] = k + j < row.end ? contributions[sources[k + j]] : 0.0;
            sum += sum_of_eight(value);
        }
    }
    for (u32 long_rows = __ballot_sync(all_lanes, is_long); long_rows; long_rows &= long_rows - 1) {
        const int owner = __ffs(long_rows) - 1;
        const u32 begin = __shfl_sync(all_lanes, row.begin, owner), end = __shfl_sync(all_lanes, row.end, owner);
        double part = 0.0;
        u32 source[together];
        const auto load_sources = [&](u32 k) {
#pragma unroll
            for (u32 j = 0; j < together; ++j) source[j] = k + 32 * j < end ? sources[k + 32 * j] : 0;
        };
        load_sources(begin + lane);
        for (u32 k = begin + lane; k < end; k += 32 * together) {
            double value[together];
#pragma unroll
            for (u32 j = 0; j < together; ++j) value[j] = k + 32 * j < end ? contributions[source[j]] : 0.0;
            load_sources(k + 32 * together);
            part += sum_of_eight(value);
        }
        part = warp_reduce(part, Add{});
        if ((int)lane == owner) sum = part;
    }
    return sum;
}

// The rows of [first, limit) of a thread: one block has all rows of a narrow level; else warps take 32 rows at a
// time, the first warps of all blocks first.
struct RowRange {
    u32 row, stride, limit;

    CPMS_DEVICE RowRange(u32 first, u32 level_end, bool one_block) : limit(level_end) {
        const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        stride = one_block ? blockDim.x : gridDim.x * blockDim.x;
        row = one_block ? first + threadIdx.x : first + 32 * (warp * gridDim.x + blockIdx.x) + lane;
        if (one_block && blockIdx.x > 0) row = level_end + lane;
    }
    // Equal for all lanes of a warp.
    CPMS_DEVICE bool any() const { return row - threadIdx.x % 32 < limit; }
};

// Calls end(row, sum, out-degree) for the rows of [first, limit); `row_prefetch` holds each thread's first row.
template <class End>
CPMS_DEVICE void for_each_row(const u32* indptr, const u32* sources, const u32* degrees, const double* contributions,
                              RowRange rows, const RowPrefetch& row_prefetch, End end) {
    if (!rows.any()) return;
    double sum = row_sum(row_prefetch, sources, contributions);
    if (rows.row < rows.limit) end(rows.row, sum, row_prefetch.degree);
    for (rows.row += rows.stride; rows.any(); rows.row += rows.stride) {
        RowPrefetch row;
        row.bounds(indptr, degrees, rows.row, rows.limit);
        row.entries(sources);
        sum = row_sum(row, sources, contributions);
        if (rows.row < rows.limit) end(rows.row, sum, row.degree);
    }
}

// Solves levels [from, to) with a barrier between consecutive ones; returns this thread's part of the sum of y.
CPMS_DEVICE double solve_levels(const Levels& levels, u32 from, u32 to, double* contributions, const Grid& grid) {
    if (from == to) return 0.0;
    const u32* const degrees = levels.degrees + levels.core;
    const auto bound = [&](u32 level) { return load_word(levels.begins + (level < to ? level : to), ReadOnly{}); };
    const auto is_narrow = [](u32 first, u32 level_end) { return level_end - first <= narrow_level; };
    double total = 0.0;
    // The ends of the next levels; the last of these is still in flight, as are the bounds of the next level's rows.
    u32 first = bound(from), level_end = bound(from + 1), level_end_next = bound(from + 2),
        level_end_third = bound(from + 3);
    bool one_block = is_narrow(first, level_end);
    RowRange rows(first, level_end, one_block),
        rows_next(level_end, level_end_next, is_narrow(level_end, level_end_next));
    RowPrefetch row_prefetch, row_prefetch_next, row_prefetch_third;
    row_prefetch.bounds(levels.indptr, degrees, rows.row, rows.limit);
    row_prefetch_next.bounds(levels.indptr, degrees, rows_next.row, rows_next.limit);
    row_prefetch.entries(levels.sources);
    for (u32 level = from; level < to; ++level) {
        const bool one_block_next = is_narrow(level_end, level_end_next), block_sync = one_block && one_block_next;
        const RowRange rows_third(level_end_next, level_end_third, is_narrow(level_end_next, level_end_third));
        u32 level_end_fourth;
        // A fence waits for all outstanding loads of a thread, so these loads are issued after it.
        const auto prefetch_rows = [&] {
            row_prefetch_next.entries(levels.sources);
            row_prefetch_third.bounds(levels.indptr, degrees, rows_third.row, rows_third.limit);
            level_end_fourth = bound(level + 4);
        };
        if (block_sync) prefetch_rows();
        for_each_row(levels.indptr, levels.sources, degrees, contributions, rows, row_prefetch,
                     [&](u32 row, double sum, u32 degree) {
                         const u32 position = levels.core + row;
                         const double y = fma(levels.damping, sum, levels.inflow(position));
                         contributions[position] = degree ? y * reciprocal(degree) : y;
                         total += y;
                     });
        if (level + 1 == to) break;
        if (block_sync) {
            __syncthreads();
        } else {
            grid.sync(prefetch_rows);
        }
        rows = rows_next;
        rows_next = rows_third;
        row_prefetch = row_prefetch_next;
        row_prefetch_next = row_prefetch_third;
        one_block = one_block_next;
        level_end = level_end_next;
        level_end_next = level_end_third;
        level_end_third = level_end_fourth;
    }
    return total;
}

// Inflow of the upstream levels to the core: b, normalised to sum 1. report: the sum of y over these levels, and the
// divisor of b.
CPMS_KERNEL(512, 2) solve_upstream(const __grid_constant__ Levels levels, const u32* indptr, const u32* sources,
                                   double* contributions, double* b, double* partials, u32* arrived, double* report) {
    const Grid grid(partials, arrived);
    const double upstream = solve_levels(levels, 0, levels.count, contributions, grid);
    grid.sync([] {});
    double inflow = 0.0;
    const RowRange rows(0, levels.core, false);
    RowPrefetch row_prefetch;
    row_prefetch.bounds(indptr, levels.degrees, rows.row, rows.limit);
    row_prefetch.entries(sources);
    for_each_row(indptr, sources, levels.degrees, contributions, rows, row_prefetch, [&](u32 row, double sum, u32) {
        b[row] = fma(levels.damping, sum, levels.inflow(row));
        inflow += b[row];
    });
    GridReduce<2, 0> totals{{upstream, inflow}};
    totals.all_reduce(grid);
    const double scale = totals.value[1] > 0.0 ? 1.0 / totals.value[1] : 0.0;
    for (u32 row = rows.row; row < levels.core; row += rows.stride) b[row] *= scale;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        for (int q = 0; q < 2; ++q) report[q] = totals.value[q];
    }
    grid.end();
}

// The core's solution for teleport b.
struct CoreSolution {
    const double *first, *other;  // contributions, in one of these as the report of its launch says
    const double* report;         // null where `first` holds them
    const u32* internal_degree;

    CPMS_DEVICE const double* contributions() const {
        return report ? final_contributions(first, other, report) : first;
    }
};

// Given levels [0, from), and the core's solution for teleport b: solves all downstream levels and stores x of the
// nodes at these positions. Flow along core edges that internal_degree does not count leaves the core.
CPMS_KERNEL(512, 2) solve_downstream(const __grid_constant__ Levels levels, u32 from,
                                     const __grid_constant__ CoreSolution core, const double* upstream_report,
                                     const u32* order, u32 positions, double* contributions, double* x,
                                     double* partials, u32* arrived) {
    const Grid grid(partials, arrived);
    const double* const core_contributions = core.contributions();
    const u32 threads = gridDim.x * blockDim.x, mine = blockIdx.x * blockDim.x + threadIdx.x;
    // its mass, the part that leaves it, and the mass at positions of single nodes
    GridReduce<3, 0> of_core{{0.0, 0.0, 0.0}};
    for (u32 i = mine; i < levels.core; i += threads) {
        const u32 degree = load_word(levels.degrees + i, ReadOnly{});
        const double value = core_contributions[i] * (degree ? degree : 1u);
        of_core.value[0] += value;
        of_core.value[1] +=
            core_contributions[i] * (degree ? degree - load_word(core.internal_degree + i, ReadOnly{}) : 1u);
        of_core.value[2] += load_word(order + i, ReadOnly{}) == lumped ? 0.0 : value;
    }
    of_core.all_reduce(grid);
    const double returned = levels.damping * of_core.value[1] + (1.0 - levels.damping) * of_core.value[0];
    const double factor = returned > 0.0 ? upstream_report[1] / returned : 0.0;
    for (u32 i = mine; i < levels.core; i += threads) contributions[i] = core_contributions[i] * factor;
    grid.sync([] {});
    GridReduce<1, 0> limit{{solve_levels(levels, from, levels.count, contributions, grid)}};
    limit.all_reduce(grid);
    const double to_mass_one = 1.0 / (upstream_report[0] + factor * of_core.value[2] + limit.value[0]);
    for (u32 i = mine; i < positions; i += threads) {
        const u32 node = load_word(order + i, ReadOnly{}), degree = load_word(levels.degrees + i, ReadOnly{});
        if (node != lumped) x[node] = contributions[i] * (degree ? degree : 1u) * to_mass_one;
    }
    grid.end();
}

}  // namespace cpms
