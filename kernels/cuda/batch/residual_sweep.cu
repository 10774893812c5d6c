// Sweeps of batches of personalised queries in float64, and what low sweeps correct of them; see batch/batch.cuh.
#include "batch/nodes.cuh"
#include "batch/segmented_sum.cuh"

namespace cpms {

// y = damping (sum / mass + dangling w) + rest v; r = y - x / mass; shares are x / degree, or x on dangling nodes.
// options, of each query: 1 / mass, what all nodes get, what teleport brings in all.
template <int Each, bool Refines>
struct BatchFullEnd {
    struct Loaded {
        RowOf row;
        double share[Each];
    };
    const BatchNodes& nodes;
    double damping;
    const double* options;
    const double* shares;
    double* fresh;
    float* change;  // r / degree, or r on dangling nodes, where Refines
    // L1, squares, mass, mass that is lost; largest |r|, largest |r / degree| as it is stored
    BatchTotals<Each, 5 + Refines, 4> totals;

    CPMS_DEVICE Loaded load(u32 row, const Lane<Each>& mine) const {
        Loaded loaded{RowOf(nodes, row), {}};
        const auto run = load_doubles<Each>(shares, row, mine);
#pragma unroll
        for (int k = 0; k < Each; ++k) loaded.share[k] = value_of(run.template field<64>(k));
        return loaded;
    }
    CPMS_DEVICE void finish(u32 row, const double (&sum)[Each], const Loaded& with, const Lane<Each>& mine) {
        const u32 degree = with.row.degree();
        const double by = degree ? (double)degree : 1.0, inverse = nodes.inverse(degree);
        const auto mass_one = load_doubles<Each>(options, 0, mine), all_get = load_doubles<Each>(options, 1, mine);
        double y[Each], to_mass_one[Each];
        float left[Each];
        Run<8 * Each> run{};
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            to_mass_one[k] = value_of(mass_one.template field<64>(k));
            y[k] = sum[k] * (damping * to_mass_one[k]) + value_of(all_get.template field<64>(k));
        }
        if (with.row.has_own()) {
            const auto teleport = load_doubles<Each>(options, 2, mine);
            add_own(nodes.own, row, mine.first, y, [&](int k) { return value_of(teleport.template field<64>(k)); });
        }
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            const double r = y[k] - with.share[k] * by * to_mass_one[k];
            run.template put<64>(k, bits_of(y[k] * inverse));
            totals.add(0, k, fabs(r));
            totals.add(1, k, r * r);
            totals.add(2, k, y[k]);
            totals.add(3, k, y[k] * inverse * with.row.lost());
            totals.add(4, k, fabs(r));
            if constexpr (Refines) {
                left[k] = (float)(r * inverse);
                totals.add(5, k, fabs((double)left[k]) * (degree ? 1.0 : reciprocal(nodes.idle)));
            }
        }
        if (!mine.writes) return;
        store_run_bytes(mine.template at<8>((u8*)fresh, row), run, Streaming{});
        if constexpr (Refines) store_singles<Each>(change, row, mine, left);
    }
    CPMS_DEVICE void turn_done() const {}
};

template <int Each, bool Refines>
CPMS_DEVICE void batch_full(const BatchEdges& edges, const BatchNodes& nodes, double damping, const double* options,
                            const double* shares, double* fresh, float* change, double* partials) {
    BatchFullEnd<Each, Refines> end{nodes, damping, options, shares, fresh, change, {}};
    walk_batch<double, Each>(edges, (const u8*)shares, nodes.columns, end);
    end.totals.template leave<double>(partials, nodes.columns);
}

// Sums of one column's shares, which lie side by side.
struct BatchSumEnd {
    struct Loaded {};
    double* sums;

    CPMS_DEVICE Loaded load(u32, const Lane<1>&) const { return {}; }
    CPMS_DEVICE void finish(u32 row, const double (&sum)[1], const Loaded&, const Lane<1>&) const {
        if (threadIdx.x % 32 == 0) sums[row] = sum[0];
    }
    CPMS_DEVICE void turn_done() const {}
};

CPMS_DEVICE void batch_sums(const BatchEdges& edges, const double* shares, double* sums) {
    BatchSumEnd end{sums};
    walk_batch<double, 1>(edges, (const u8*)shares, Columns{1, 1}, end);
}

// The first float64 sweep, of queries that begin at one iterate: its shares, and what `batch_sums` found of them.
template <int Each, bool Refines>
CPMS_DEVICE void batch_first(const BatchNodes& nodes, double damping, const double* options, const double* shares,
                             const double* sums, double* fresh, float* change, double* partials) {
    const Lane<Each> mine(nodes.columns);
    BatchFullEnd<Each, Refines> end{nodes, damping, options, nullptr, fresh, change, {}};
    const u32 warps = gridDim.x * resident_warps;
    for (u32 row = blockIdx.x * resident_warps + threadIdx.x / 32; row < nodes.count; row += warps) {
        typename BatchFullEnd<Each, Refines>::Loaded loaded{RowOf(nodes, row), {}};
        double sum[Each];
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            loaded.share[k] = shares[row];
            sum[k] = sums[row];
        }
        end.finish(row, sum, loaded, mine);
    }
    end.totals.template leave<double>(partials, nodes.columns);
}

// x = x + c, not below 0, for queries that have a c (1, else 0); mass and lost mass of all.
template <int Each>
CPMS_DEVICE void batch_correct(const BatchNodes& nodes, const double* has, double* shares, const float* c,
                               double* partials) {
    each_row<Each, 2, 2>(nodes, partials, [&](u32 row, const Lane<Each>& mine, BatchTotals<Each, 2, 2>& found) {
        const RowOf of(nodes, row);
        const u32 degree = of.degree();
        const double inverse = nodes.inverse(degree), by = degree ? (double)degree : 1.0;
        u8* const at = mine.template at<8>((u8*)shares, row);
        const auto old = load_run_bytes<8 * Each>(at, Default{});
        const auto change = load_singles<Each>(c, row, mine);
        Run<8 * Each> run{};
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            double share = value_of(old.template field<64>(k));
            if (has[mine.first + k] > 0.0) share += (double)single_of(change.word[k]) * inverse;
            share = share < 0.0 ? 0.0 : share;  // rounding left less
            run.template put<64>(k, bits_of(share));
            found.add(0, k, share * by);
            found.add(1, k, share * of.lost());
        }
        if (mine.writes) store_run_bytes(at, run);
    });
}

// What shares of nodes behind those that are swept come to, from those before them: y = damping sum + share v.
template <int Each>
struct BatchBehindEnd {
    const BatchNodes& nodes;
    double damping;
    const double* share;  // of each query
    double* out;
    BatchTotals<Each, 1, 1> mass;

    CPMS_DEVICE RowOf load(u32 row, const Lane<Each>&) const { return RowOf(nodes, row); }
    CPMS_DEVICE void finish(u32 row, const double (&sum)[Each], const RowOf& with, const Lane<Each>& mine) {
        const double inverse = nodes.inverse(with.degree());
        double y[Each];
        Run<8 * Each> run{};
#pragma unroll
        for (int k = 0; k < Each; ++k) y[k] = damping * sum[k];
        if (with.has_own()) add_own(nodes.own, row, mine.first, y, [&](int k) { return share[mine.first + k]; });
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            run.template put<64>(k, bits_of(y[k] * inverse));
            mass.add(0, k, y[k]);
        }
        if (mine.writes) store_run_bytes(mine.template at<8>((u8*)out, row), run);
    }
    CPMS_DEVICE void turn_done() const {}
};

// A level of nodes behind those that are swept; `shares` are those of all before it.
template <int Each>
CPMS_DEVICE void batch_behind(const BatchEdges& edges, const BatchNodes& nodes, double damping, const double* share,
                              const double* shares, double* out, double* partials) {
    BatchBehindEnd<Each> end{nodes, damping, share, out, {}};
    walk_batch<double, Each>(edges, (const u8*)shares, nodes.columns, end);
    end.mass.template leave<double>(partials, nodes.columns);
}

// ranks[places[i]][order[row]]: x of the query in columns[i] times factors[i], and of_all[order[row]], where there is
// one, times factors[count + i]. Rows of x become columns in shared memory.
CPMS_DEVICE void batch_ranks(const double* shares, const u32* degree, const u32* order, u32 nodes, u32 swept, u32 stride,
                             const u32* columns, const u32* places, const double* factors, u32 count,
                             const double* of_all, double* ranks) {
    constexpr u32 side = 32;
    __shared__ double tile[side][side + 1];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (u32 first = blockIdx.x * side; first < nodes; first += gridDim.x * side) {
        for (u32 begin = 0; begin < count; begin += side) {
            const u32 column = begin + lane < count ? columns[begin + lane] : 0;
#pragma unroll
            for (u32 i = warp; i < side; i += block_warps) {
                const u32 row = smaller(first + i, nodes - 1), of = load_word(degree + row, ReadOnly{});
                const u64 at = row < swept ? row : row + 1;  // between them are zeros
                tile[i][lane] = shares[at * stride + column] * (double)(of ? of : 1);
            }
            __syncthreads();
            const u32 mine = first + lane;
            const u32 node = mine < nodes ? load_word(order + mine, ReadOnly{}) : 0;
            const double all_get = of_all ? of_all[node] : 0.0;
#pragma unroll
            for (u32 i = warp; i < side; i += block_warps) {
                const u32 query = begin + i;
                if (query < count && mine < nodes) {
                    ranks[(u64)places[query] * nodes + node] =
                        fma(all_get, factors[count + query], tile[lane][i] * factors[query]);
                }
            }
            __syncthreads();
        }
    }
}

// found[q * stride + column] from what blocks left; a warp a total and column.
CPMS_DEVICE void batch_totals(const double* partials, u32 blocks, const Columns& columns, u32 count, u32 sums,
                              double* found) {
    const u32 index = blockIdx.x * block_warps + threadIdx.x / 32;
    if (index >= count * columns.used) return;
    const u32 which = index / columns.used;
    const double total = joined_totals(partials, index, blocks, which >= sums);
    if (threadIdx.x % 32 == 0) found[which * columns.stride + index % columns.used] = total;
}

}  // namespace cpms

#define CPMS_BATCH_FULL(NAME, ...)                                                                    \
    extern "C" __global__ void __launch_bounds__(512, 1)                                              \
        NAME(CPMS_BATCH_EDGES, CPMS_BATCH_NODES, double damping, const double* options,               \
             const double* shares, double* fresh, float* change, double* partials) {                  \
        cpms::batch_full<__VA_ARGS__>(CPMS_BATCH_EDGES_GIVEN, CPMS_BATCH_NODES_GIVEN, damping,        \
                                      options, shares, fresh, change, partials);                      \
    }
#define CPMS_BATCH_SUMS(NAME)                                                                         \
    extern "C" __global__ void __launch_bounds__(512, 2)                                              \
        NAME(CPMS_BATCH_EDGES, unsigned count, const double* shares, double* sums, double*) {         \
        cpms::batch_sums(CPMS_BATCH_EDGES_GIVEN, shares, sums);                                       \
    }
#define CPMS_BATCH_FIRST(NAME, ...)                                                                   \
    extern "C" __global__ void __launch_bounds__(512, 1)                                              \
        NAME(CPMS_BATCH_NODES, double damping, const double* options, const double* shares,           \
             const double* sums, double* fresh, float* change, double* partials) {                    \
        cpms::batch_first<__VA_ARGS__>(CPMS_BATCH_NODES_GIVEN, damping, options, shares, sums, fresh, \
                                       change, partials);                                             \
    }
#define CPMS_BATCH_CORRECT(NAME, EACH)                                                                \
    extern "C" __global__ void __launch_bounds__(512, 2)                                              \
        NAME(CPMS_BATCH_NODES, const double* has, double* shares, const float* c, double* partials) { \
        cpms::batch_correct<EACH>(CPMS_BATCH_NODES_GIVEN, has, shares, c, partials);                  \
    }
#define CPMS_BATCH_BEHIND(NAME, EACH)                                                                 \
    extern "C" __global__ void __launch_bounds__(512, 1)                                              \
        NAME(CPMS_BATCH_EDGES, CPMS_BATCH_NODES, double damping, const double* share,                 \
             const double* shares, double* out, double* partials) {                                   \
        cpms::batch_behind<EACH>(CPMS_BATCH_EDGES_GIVEN, CPMS_BATCH_NODES_GIVEN, damping, share,      \
                                 shares, out, partials);                                              \
    }
#define CPMS_BATCH_RANKS(NAME)                                                                         \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const double* shares, const unsigned* degree, const unsigned* order, unsigned nodes,     \
             unsigned swept, unsigned stride, const unsigned* columns, const unsigned* places,        \
             const double* factors, unsigned count, const double* of_all, double* ranks) {            \
        cpms::batch_ranks(shares, degree, order, nodes, swept, stride, columns, places, factors,      \
                          count, of_all, ranks);                                                      \
    }
#define CPMS_BATCH_TOTALS(NAME)                                                                       \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const double* partials, unsigned blocks, unsigned stride, unsigned used, unsigned count, \
             unsigned sums, double* found) {                                                          \
        cpms::batch_totals(partials, blocks, cpms::Columns{stride, used}, count, sums, found);        \
    }
