// Float64 sweeps of batches of personalised queries, and the correction of their iterates. An edge costs one index
// for all queries and 8 bytes a query.
#include "batch/nodes.cuh"
#include "batch/segmented_sum.cuh"

namespace cpms {

// y = damping (sum / mass + dangling w) + rest v; r = y - x / mass. Contributions are x / degree, or x on dangling
// nodes. `options` of each query: 1 / mass, the inflow of all nodes, the total of teleport.
template <int Each, bool Refines>
struct BatchResidualEpilogue {
    struct Operands {
        NodeWord row;
        double contribution[Each];
    };
    const BatchNodes& nodes;
    double damping;
    const double* options;
    const double* contributions;
    double* next_contributions;
    float* residual;  // r / degree, or r on dangling nodes, where Refines
    // L1, squares, mass, lost mass; largest |r|, largest |r / degree| as stored
    BatchReduce<Each, 5 + Refines, 4> totals;

    CPMS_DEVICE Operands load(u32 row, const LaneColumns<Each>& mine) const {
        Operands operands{NodeWord(nodes, row), {}};
        const auto run = load_doubles<Each>(contributions, row, mine);
#pragma unroll
        for (int k = 0; k < Each; ++k) operands.contribution[k] = value_of(run.template field<64>(k));
        return operands;
    }
    CPMS_DEVICE void finish(u32 row, const double (&sum)[Each], const Operands& with, const LaneColumns<Each>& mine) {
        const u32 degree = with.row.degree();
        const double edges = degree ? (double)degree : 1.0, inverse = nodes.inverse(degree);
        const auto mass_one = load_doubles<Each>(options, 0, mine),
                   uniform_inflow = load_doubles<Each>(options, 1, mine);
        double y[Each], to_mass_one[Each];
        float scaled_residual[Each];
        Run<8 * Each> run{};
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            to_mass_one[k] = value_of(mass_one.template field<64>(k));
            y[k] = sum[k] * (damping * to_mass_one[k]) + value_of(uniform_inflow.template field<64>(k));
        }
        if (with.row.has_teleport()) {
            const auto teleport = load_doubles<Each>(options, 2, mine);
            add_teleport(nodes.teleport, row, mine.first, y,
                         [&](int k) { return value_of(teleport.template field<64>(k)); });
        }
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            const double r = y[k] - with.contribution[k] * edges * to_mass_one[k];
            run.template put<64>(k, bits_of(y[k] * inverse));
            totals.add(0, k, fabs(r));
            totals.add(1, k, r * r);
            totals.add(2, k, y[k]);
            totals.add(3, k, y[k] * inverse * with.row.lost());
            totals.add(4, k, fabs(r));
            if constexpr (Refines) {
                scaled_residual[k] = (float)(r * inverse);
                totals.add(5, k, fabs((double)scaled_residual[k]) * (degree ? 1.0 : reciprocal(nodes.dangling_degree)));
            }
        }
        if (!mine.writes) return;
        store_run_bytes(mine.template at<8>((u8*)next_contributions, row), run, Streaming{});
        if constexpr (Refines) store_singles<Each>(residual, row, mine, scaled_residual);
    }
    CPMS_DEVICE void group_done() const {}
};

template <int Each, bool Refines>
CPMS_DEVICE void batch_residual_sweep(const BatchEdges& edges, const BatchNodes& nodes, double damping,
                                      const double* options, const double* contributions, double* next_contributions,
                                      float* residual, double* partials) {
    BatchResidualEpilogue<Each, Refines> end{nodes, damping, options, contributions, next_contributions, residual, {}};
    batch_segmented_sum<double, Each>(edges, (const u8*)contributions, nodes.columns, end);
    end.totals.template publish<double>(partials, nodes.columns);
}

// Row sums of one column of contributions.
struct BatchSumEpilogue {
    struct Operands {};
    double* sums;

    CPMS_DEVICE Operands load(u32, const LaneColumns<1>&) const { return {}; }
    CPMS_DEVICE void finish(u32 row, const double (&sum)[1], const Operands&, const LaneColumns<1>&) const {
        if (threadIdx.x % 32 == 0) sums[row] = sum[0];
    }
    CPMS_DEVICE void group_done() const {}
};

// The unnamed argument is `partials`, which BatchGraph.launch passes to every kernel; this one has no totals.
CPMS_KERNEL(512, 2) batch_row_sums(const BatchEdges edges, const double* contributions, double* sums, double*) {
    BatchSumEpilogue end{sums};
    batch_segmented_sum<double, 1>(edges, (const u8*)contributions, Columns{1, 1}, end);
}

// The first float64 sweep, of queries that share an initial guess: its contributions and their row sums by
// `batch_row_sums`.
template <int Each, bool Refines>
CPMS_DEVICE void batch_first_sweep(const BatchNodes& nodes, double damping, const double* options,
                                   const double* contributions, const double* sums, double* next_contributions,
                                   float* residual, double* partials) {
    const LaneColumns<Each> mine(nodes.columns);
    BatchResidualEpilogue<Each, Refines> end{nodes, damping, options, nullptr, next_contributions, residual, {}};
    const u32 warps = gridDim.x * persistent_warps;
    for (u32 row = blockIdx.x * persistent_warps + threadIdx.x / 32; row < nodes.count; row += warps) {
        typename BatchResidualEpilogue<Each, Refines>::Operands operands{NodeWord(nodes, row), {}};
        double sum[Each];
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            operands.contribution[k] = contributions[row];
            sum[k] = sums[row];
        }
        end.finish(row, sum, operands, mine);
    }
    end.totals.template publish<double>(partials, nodes.columns);
}

// x = max(x + c, 0), for queries that have a correction c (1, else 0); returns mass and lost mass of all.
template <int Each>
CPMS_DEVICE void batch_correct(const BatchNodes& nodes, const double* has_correction, double* contributions,
                               const float* correction, double* partials) {
    for_each_row<Each, 2, 2>(nodes, partials,
                             [&](u32 row, const LaneColumns<Each>& mine, BatchReduce<Each, 2, 2>& found) {
                                 const NodeWord of(nodes, row);
                                 const u32 degree = of.degree();
                                 const double inverse = nodes.inverse(degree), edges = degree ? (double)degree : 1.0;
                                 u8* const at = mine.template at<8>((u8*)contributions, row);
                                 const auto old = load_run_bytes<8 * Each>(at, Default{});
                                 const auto corrections = load_singles<Each>(correction, row, mine);
                                 Run<8 * Each> run{};
#pragma unroll
                                 for (int k = 0; k < Each; ++k) {
                                     double contribution = value_of(old.template field<64>(k));
                                     if (has_correction[mine.first + k] > 0.0)
                                         contribution += (double)single_of(corrections.word[k]) * inverse;
                                     // rounding may leave a negative value
                                     contribution = contribution < 0.0 ? 0.0 : contribution;
                                     run.template put<64>(k, bits_of(contribution));
                                     found.add(0, k, contribution * edges);
                                     found.add(1, k, contribution * of.lost());
                                 }
                                 if (mine.writes) store_run_bytes(at, run);
                             });
}

// Contributions of nodes downstream of the swept core: y = damping sum + contribution v.
template <int Each>
struct BatchDownstreamEpilogue {
    const BatchNodes& nodes;
    double damping;
    const double* contribution;  // of each query
    double* out;
    BatchReduce<Each, 1, 1> mass;

    CPMS_DEVICE NodeWord load(u32 row, const LaneColumns<Each>&) const { return NodeWord(nodes, row); }
    CPMS_DEVICE void finish(u32 row, const double (&sum)[Each], const NodeWord& with, const LaneColumns<Each>& mine) {
        const double inverse = nodes.inverse(with.degree());
        double y[Each];
        Run<8 * Each> run{};
#pragma unroll
        for (int k = 0; k < Each; ++k) y[k] = damping * sum[k];
        if (with.has_teleport())
            add_teleport(nodes.teleport, row, mine.first, y, [&](int k) { return contribution[mine.first + k]; });
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            run.template put<64>(k, bits_of(y[k] * inverse));
            mass.add(0, k, y[k]);
        }
        if (mine.writes) store_run_bytes(mine.template at<8>((u8*)out, row), run);
    }
    CPMS_DEVICE void group_done() const {}
};

// One level downstream of the core; `contributions` are those of all nodes before it.
template <int Each>
CPMS_DEVICE void batch_downstream(const BatchEdges& edges, const BatchNodes& nodes, double damping,
                                  const double* contribution, const double* contributions, double* out,
                                  double* partials) {
    BatchDownstreamEpilogue<Each> end{nodes, damping, contribution, out, {}};
    batch_segmented_sum<double, Each>(edges, (const u8*)contributions, nodes.columns, end);
    end.mass.template publish<double>(partials, nodes.columns);
}

// ranks[places[i]][order[row]] is x of the query in columns[i] times factors[i], plus of_all[order[row]], if present,
// times factors[count + i]. Shared memory transposes rows of x into columns.
CPMS_KERNEL(256) batch_scores(const double* contributions, const u32* degree, const u32* order, u32 nodes, u32 swept,
                              u32 stride, const u32* columns, const u32* places, const double* factors, u32 count,
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
                const u64 at = row < swept ? row : row + 1;  // zeros lie between them
                tile[i][lane] = contributions[at * stride + column] * (double)(of ? of : 1);
            }
            __syncthreads();
            const u32 mine = first + lane;
            const u32 node = mine < nodes ? load_word(order + mine, ReadOnly{}) : 0;
            const double uniform_inflow = of_all ? of_all[node] : 0.0;
#pragma unroll
            for (u32 i = warp; i < side; i += block_warps) {
                const u32 query = begin + i;
                if (query < count && mine < nodes) {
                    ranks[(u64)places[query] * nodes + node] =
                        fma(uniform_inflow, factors[count + query], tile[lane][i] * factors[query]);
                }
            }
            __syncthreads();
        }
    }
}

// found[q * stride + column] from the blocks' partial values, one warp a total and column.
CPMS_KERNEL(256) batch_reduce(const double* partials, u32 blocks, u32 stride, u32 used, u32 count, u32 sums,
                              double* found) {
    const u32 index = blockIdx.x * block_warps + threadIdx.x / 32;
    if (index >= count * used) return;
    const u32 which = index / used;
    const double total = reduce_partials(partials, index, blocks, which >= sums);
    if (threadIdx.x % 32 == 0) found[which * stride + index % used] = total;
}

}  // namespace cpms

#define CPMS_BATCH_RESIDUAL_SWEEP(NAME, ...)                                                                       \
    CPMS_KERNEL(512, 1) NAME(const cpms::BatchEdges edges, const cpms::BatchNodes nodes, double damping,           \
                             const double* options, const double* contributions, double* next_contributions,       \
                             float* residual, double* partials) {                                                  \
        cpms::batch_residual_sweep<__VA_ARGS__>(edges, nodes, damping, options, contributions, next_contributions, \
                                                residual, partials);                                               \
    }
#define CPMS_BATCH_FIRST_SWEEP(NAME, ...)                                                                      \
    CPMS_KERNEL(512, 1) NAME(const cpms::BatchNodes nodes, double damping, const double* options,              \
                             const double* contributions, const double* sums, double* next_contributions,      \
                             float* residual, double* partials) {                                              \
        cpms::batch_first_sweep<__VA_ARGS__>(nodes, damping, options, contributions, sums, next_contributions, \
                                             residual, partials);                                              \
    }
#define CPMS_BATCH_CORRECT(NAME, EACH)                                                                          \
    CPMS_KERNEL(512, 2) NAME(const cpms::BatchNodes nodes, const double* has_correction, double* contributions, \
                             const float* correction, double* partials) {                                       \
        cpms::batch_correct<EACH>(nodes, has_correction, contributions, correction, partials);                  \
    }
#define CPMS_BATCH_DOWNSTREAM(NAME, EACH)                                                                              \
    CPMS_KERNEL(512, 1) NAME(const cpms::BatchEdges edges, const cpms::BatchNodes nodes, double damping,               \
                             const double* contribution, const double* contributions, double* out, double* partials) { \
        cpms::batch_downstream<EACH>(edges, nodes, damping, contribution, contributions, out, partials);               \
    }
