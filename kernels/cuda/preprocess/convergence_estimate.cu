// Estimate of the convergence rate: the changes of a few sweeps of power iteration on the rows as they are, before
// any layout is built. A sweep costs one index and one gather an edge; the host extrapolates the number of sweeps.
#include "persistent/grid_sync.cuh"

namespace cpms {

struct Rows {
    const u32 *indptr, *sources, *degree;  // degree: out-degrees
    u32 nodes;
};

constexpr u32 sampled_entries = 2048;  // of a long row, at most

// The row sum of a lane; the whole warp sums long rows, one after another. Of the longest rows it sums a sample of
// evenly spaced entries and scales it up, so that no warp works much longer than others.
CPMS_DEVICE double row_sum(const Rows& rows, const double* contributions, u32 begin, u32 end) {
    constexpr u32 lane_entries_limit = 32;
    const u32 lane = threadIdx.x % 32;
    const bool is_long = end - begin > lane_entries_limit;
    double sum = 0.0;
    for (u32 k = begin; !is_long && k < end; ++k) sum += contributions[rows.sources[k]];
    for (u32 long_rows = __ballot_sync(all_lanes, is_long); long_rows; long_rows &= long_rows - 1) {
        const u32 of = __ffs((int)long_rows) - 1, first = __shfl_sync(all_lanes, begin, of);
        const u32 last = __shfl_sync(all_lanes, end, of);
        const u32 stride = (last - first + sampled_entries - 1) / sampled_entries;
        const u32 count = (last - first + stride - 1) / stride;
        double part = 0.0;
        for (u32 k = lane; k < count; k += 32) part += contributions[rows.sources[first + k * stride]];
        part = warp_reduce(part, Add{}) * ((double)(last - first) / count);
        if (lane == of) sum = part;
    }
    return sum;
}

// x begins uniform; contributions are x / out-degree, or x itself on dangling nodes. `changes` holds the number of
// sweeps, at most max_sweeps and until a change is below tolerance, and then each change in L1.
CPMS_KERNEL(512, 2) convergence_estimate(const u32* indptr, const u32* sources, const u32* degree, u32 nodes,
                                         double damping, double* contributions, double* next_contributions,
                                         u32 max_sweeps, double tolerance, double* changes, double* partials,
                                         u32* arrived) {
    const Grid grid(partials, arrived);
    const Rows rows{indptr, sources, degree, nodes};
    const bool writes = blockIdx.x == 0 && threadIdx.x == 0;
    const u32 threads = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
    const double each = 1.0 / rows.nodes;
    GridReduce<1, 0> dangling_sum{{0.0}};
    for (u64 row = first; row < rows.nodes; row += threads) {
        const u32 degree = rows.degree[row];
        contributions[row] = degree ? each / degree : each;
        dangling_sum.value[0] += degree ? 0.0 : each;
    }
    dangling_sum.all_reduce(grid);
    double dangling = dangling_sum.value[0], change;
    u32 count = 0;
    do {
        const double inflow = (damping * dangling + (1.0 - damping)) * each;
        GridReduce<2, 0> found{{0.0, 0.0}};
        for (u64 base = first - threadIdx.x % 32; base < rows.nodes; base += threads) {
            const u64 row = base + threadIdx.x % 32;
            const bool is_row = row < rows.nodes;
            const double sum =
                row_sum(rows, contributions, is_row ? rows.indptr[row] : 0, is_row ? rows.indptr[row + 1] : 0);
            if (!is_row) continue;
            const u32 degree = rows.degree[row], out = degree ? degree : 1;
            const double y = fma(damping, sum, inflow);
            next_contributions[row] = y / out;
            found.value[0] += fabs(y - contributions[row] * out);
            found.value[1] += degree ? 0.0 : y;
        }
        found.all_reduce(grid);
        change = found.value[0];
        dangling = found.value[1];
        double* const swapped = contributions;
        contributions = next_contributions;
        next_contributions = swapped;
        if (writes) changes[1 + count] = change;
        ++count;
    } while (count < max_sweeps && change >= tolerance);
    if (writes) changes[0] = count;
    grid.end();
}

}  // namespace cpms
