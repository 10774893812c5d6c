// Anderson acceleration of a batch of queries, each with weights of its own (see pagerank/anderson.cuh), and the
// deferred update of the corrections. It costs two passes over nine vectors of few bits every eight sweeps.
#include "batch/inner_sweep.cuh"

namespace cpms {

// Products of the history vectors, one lane a column. The kernel returns at once if no query of the launch continues
// with acceleration.
template <class Q>
CPMS_DEVICE void batch_products(const BatchNodes& nodes, const BatchLimits& limits, const BatchHistory& history,
                                const u8* sent, u64 vector_bytes, double* partials) {
    if (!__syncthreads_or(threadIdx.x < nodes.columns.used && limits.combines(threadIdx.x))) return;
    const LaneColumns<1> mine(nodes.columns);
    const double largest = history.largest(0, mine.first);
    float factor[history_length], product[product_count] = {};
#pragma unroll
    for (int k = 0; k < history_length; ++k)
        factor[k] = largest > 0.0 ? (float)(history.unscale(k, mine.first) / largest) : 0.0f;
    constexpr int number = Float32View<Q>::width / 8, together = 4;
    const u32 warps = gridDim.x * persistent_warps;
#pragma unroll 1
    for (u32 row = blockIdx.x * persistent_warps + threadIdx.x / 32; row < nodes.count; row += together * warps) {
        Run<number> run[together][history_length];
#pragma unroll
        for (int t = 0; t < together; ++t) {
            // or the zeros past the last node
            const u8* const at = mine.template at<number>(sent, smaller(row + t * warps, nodes.count));
#pragma unroll
            for (int k = 0; k < history_length; ++k)
                run[t][k] = load_run_bytes<number>(at + k * vector_bytes, Streaming{});
        }
#pragma unroll
        for (int t = 0; t < together; ++t) {
            float next[history_length];
#pragma unroll
            for (int k = 0; k < history_length; ++k) {
                float value[1];
                Float32View<Q>::template values<1>(run[t][k], value);
                next[k] = value[0] * factor[k];
            }
            add_products<0, history_length>(next, product);
        }
    }
    BatchReduce<1, product_count, product_count> totals;
#pragma unroll
    for (int q = 0; q < product_count; ++q) totals.value[q][0] = (double)product[q];
    totals.publish(partials, nodes.columns);
}

// Weights of each query's history vectors in the correction and in the next residual, and the scale of the latter.
// One warp a query. A query for which the combination is not worthwhile has none in the rest of the outer step.
CPMS_KERNEL(256) batch_combine(const double* partials, u32 blocks, u32 stride, u32 used, int top, double* limits_of,
                               float* options, double* history_of, double* weights) {
    __shared__ double found_by[block_warps][product_count], g_by[block_warps][anderson_depth];
    const u32 column = blockIdx.x * block_warps + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (column >= used) return;
    const BatchLimits limits{limits_of, stride};
    const BatchHistory history{history_of, stride};
    double* const products_found = found_by[threadIdx.x / 32];
    double* const g = g_by[threadIdx.x / 32];
    bool combines = limits.combines(column);
    if (combines) {
        for (u32 q = 0; q < product_count; ++q) {
            const double total = reduce_partials(partials, q * used + column, blocks, false);
            if (lane == 0) products_found[q] = total;
        }
        __syncwarp();
        solve_least_squares(products_found, g);
        __syncwarp();
        combines = is_worthwhile(products_found, g);
    }
    if (lane) return;
    double largest_next = 0.0, mass = 0.0;
    for (int k = 0; k < history_length; ++k) {
        const double next = combines ? next_weight(g, k) : k == anderson_depth;
        weights[k * stride + column] = (combines && k ? 1.0 + g[k - 1] : 1.0) * history.unscale(k, column);
        weights[(history_length + k) * stride + column] = next * history.unscale(k, column);
        largest_next += fabs(next) * history.largest(k, column);
        mass += next * history.mass(k, column);
    }
    double unscale = history.unscale(anderson_depth, column);
    if (combines) {
        const int exponent = float_exponent(top, largest_next);
        unscale = power_of_two(-exponent);
        options[inner_scale * stride + column] = (float)power_of_two(exponent);
        options[inner_unscale * stride + column] = (float)unscale;
    } else {
        limits.accelerates(column) = 0.0;
    }
    weights[2 * history_length * stride + column] = unscale > 0.0 ? 1.0 / unscale : 0.0;
    weights[(2 * history_length + 1) * stride + column] = unscale;
    history.unscale(0, column) = unscale;
    history.mass(0, column) = mass;
    history.largest(0, column) = largest_next;
}

// Adds the history vectors 1 to `last`, weighted, to the correction. Where Sends, vector 0 becomes the combined
// residual, and its rounding loss is left for `batch_after_combine`. The weights are those of `batch_combine`, or the
// inverse scales alone. The kernel returns at once if all sweeps have ended, unless there are no limits.
template <class Q, int Each, bool Sends>
CPMS_DEVICE void batch_apply_history(const BatchNodes& nodes, const BatchLimits& limits, const double* weights,
                                     u32 last, u8* sent, u64 vector_bytes, float* correction, double* partials) {
    constexpr u32 columns = 32 * Each, rows = Sends ? 2 * history_length + 2 : history_length;
    constexpr int number = Float32View<Q>::width / 8;
    if (limits.numbers && limits.all_ended(nodes.columns)) return;
    alignas(16) __shared__ float weights_here[rows][columns];
    for (u32 i = threadIdx.x; i < rows * columns; i += persistent_threads) {
        const u32 column = column_at<Each>(i % columns, nodes.columns);
        weights_here[i / columns][i % columns] = (float)weights[i / columns * nodes.columns.stride + column];
    }
    __syncthreads();
    const auto weight = [&](u32 which) {
        return load_run_bytes<4 * Each>((const u8*)(weights_here[which] + threadIdx.x % 32 * Each), Default{});
    };
    for_each_row<Each, 1, 1>(
        nodes, partials, [&](u32 row, const LaneColumns<Each>& mine, BatchReduce<Each, 1, 1>& lost) {
            const NodeWord of(nodes, row);
            u8* const at = mine.template at<number>(sent, row);
            auto old_correction = load_singles<Each>(correction, row, mine, Streaming{});
            Run<Each * number> run[history_length];
#pragma unroll
            for (int k = !Sends; k < history_length; ++k) {
                if (!Sends && k > last) break;
                run[k] = load_run_bytes<Each * number>(at + k * vector_bytes, Streaming{});
            }
            float update[Each] = {}, next[Each] = {};
#pragma unroll
            for (int k = !Sends; k < history_length; ++k) {
                if (!Sends && k > last) break;
                float value[Each];
                Float32View<Q>::template values<Each>(run[k], value);
                if (k) {
                    const auto in_c = weight(k);
#pragma unroll
                    for (int j = 0; j < Each; ++j) update[j] = fmaf(value[j], single_of(in_c.word[j]), update[j]);
                }
                if constexpr (Sends) {
                    const auto in_next = weight(history_length + k);
#pragma unroll
                    for (int j = 0; j < Each; ++j) next[j] = fmaf(value[j], single_of(in_next.word[j]), next[j]);
                }
            }
            float sum[Each];
#pragma unroll
            for (int j = 0; j < Each; ++j) {
                sum[j] = fmaf(update[j], (float)nodes.storage_degree(of.degree()), single_of(old_correction.word[j]));
            }
            if (mine.writes) store_singles<Each>(correction, row, mine, sum);
            if constexpr (Sends) {
                const auto scale = weight(2 * history_length), unscale = weight(2 * history_length + 1);
#pragma unroll
                for (int j = 0; j < Each; ++j) sum[j] = next[j] * single_of(scale.word[j]);
                const auto stored = Float32View<Q>::template stored<Each>(sum);
                if (mine.writes) store_run_bytes(at, stored, Streaming{});
                Float32View<Q>::template values<Each>(stored, sum);
#pragma unroll
                for (int j = 0; j < Each; ++j) {
                    lost.add(0, j, (double)fmaf(-sum[j], single_of(unscale.word[j]), next[j]) * of.internal_degree);
                }
            }
        });
}

// Sets each query's options for the sweep after a combination. One warp a query.
CPMS_KERNEL(256) batch_after_combine(const double* partials, u32 blocks, u32 stride, u32 used, double damping,
                                     double spread, double* limits, float* options, double* history_of) {
    const u32 column = blockIdx.x * block_warps + threadIdx.x / 32;
    if (column >= used || BatchLimits{limits, stride}.has_ended(column)) return;
    const BatchHistory history{history_of, stride};
    const double mass = history.mass(0, column) + reduce_partials(partials, column, blocks, false);
    if (threadIdx.x % 32) return;
    history.mass(0, column) = mass;
    set_inner_options(options, stride, column, damping * history.unscale(0, column), damping * mass, spread);
}

}  // namespace cpms

#define CPMS_BATCH_PRODUCTS(NAME, ...)                                                                       \
    CPMS_KERNEL(512, 1) NAME(const cpms::BatchNodes nodes, double* limits, double* history,                  \
                             const unsigned char* sent, unsigned long long vector_bytes, double* partials) { \
        cpms::batch_products<__VA_ARGS__>(nodes, cpms::BatchLimits{limits, nodes.columns.stride},            \
                                          cpms::BatchHistory{history, nodes.columns.stride}, sent,           \
                                          vector_bytes, partials);                                           \
    }
#define CPMS_BATCH_APPLY_HISTORY(NAME, ...)                                                                          \
    CPMS_KERNEL(512, 1) NAME(const cpms::BatchNodes nodes, double* limits, const double* weights,                    \
                             unsigned last, unsigned char* sent, unsigned long long vector_bytes, float* correction, \
                             double* partials) {                                                                     \
        cpms::batch_apply_history<__VA_ARGS__>(nodes, cpms::BatchLimits{limits, nodes.columns.stride}, weights,      \
                                               last, sent, vector_bytes, correction, partials);                      \
    }
