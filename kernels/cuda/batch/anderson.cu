// What low sweeps of a batch sent, added up and combined; see pagerank/anderson.cuh.
#include "batch/inner_sweep.cuh"

namespace cpms {

// Products of the z that are kept for `pagerank/anderson.cuh`, a lane a column; of queries of which any goes on and pays.
template <class Q>
CPMS_DEVICE void batch_products(const BatchNodes& nodes, const double* until, const BatchPast& past, const u8* z,
                                u64 slot_bytes, double* partials) {
    const u32 stride = nodes.columns.stride;
    if (!__syncthreads_or(threadIdx.x < nodes.columns.used && until[threadIdx.x] < at_rest() &&
                          until[2 * stride + threadIdx.x] > 0.0)) {
        return;
    }
    const Lane<1> mine(nodes.columns);
    const double largest = past.largest(0, mine.first);
    float factor[kept_sweeps], product[products] = {};
#pragma unroll
    for (int k = 0; k < kept_sweeps; ++k) factor[k] = largest > 0.0 ? (float)(past.back(k, mine.first) / largest) : 0.0f;
    constexpr int number = Narrow<Q>::width / 8, together = 4;
    const u32 warps = gridDim.x * resident_warps;
#pragma unroll 1
    for (u32 row = blockIdx.x * resident_warps + threadIdx.x / 32; row < nodes.count; row += together * warps) {
        Run<number> run[together][kept_sweeps];
#pragma unroll
        for (int t = 0; t < together; ++t) {
            const u8* const at = mine.template at<number>(z, smaller(row + t * warps, nodes.count));  // or the zeros
#pragma unroll
            for (int k = 0; k < kept_sweeps; ++k) run[t][k] = load_run_bytes<number>(at + k * slot_bytes, Streaming{});
        }
#pragma unroll
        for (int t = 0; t < together; ++t) {
            float sent[kept_sweeps];
#pragma unroll
            for (int k = 0; k < kept_sweeps; ++k) {
                float value[1];
                Narrow<Q>::template values<1>(run[t][k], value);
                sent[k] = value[0] * factor[k];
            }
            add_products<0, kept_sweeps>(sent, product);
        }
    }
    BatchTotals<1, products, products> totals;
#pragma unroll
    for (int q = 0; q < products; ++q) totals.value[q][0] = (double)product[q];
    totals.leave(partials, nodes.columns);
}

// Weights of the z that are kept, of each query: in c, and in what is sent next; of the latter the scale, and one over
// it. A warp a query; one that it does not pay for is not combined again in this round.
CPMS_DEVICE void batch_combine(const double* partials, u32 blocks, const Columns& columns, int top,
                               double* until, float* options, const BatchPast& past, double* weights) {
    __shared__ double found_by[block_warps][products], g_by[block_warps][depth];
    const u32 column = blockIdx.x * block_warps + threadIdx.x / 32, lane = threadIdx.x % 32, stride = columns.stride;
    if (column >= columns.used) return;
    double* const found = found_by[threadIdx.x / 32];
    double* const g = g_by[threadIdx.x / 32];
    bool combines = until[column] < at_rest() && until[2 * stride + column] > 0.0;
    if (combines) {
        for (u32 q = 0; q < products; ++q) {
            const double total = joined_totals(partials, q * columns.used + column, blocks, false);
            if (lane == 0) found[q] = total;
        }
        __syncwarp();
        solve(found, g);
        __syncwarp();
        combines = pays(found, g);
    }
    if (lane) return;
    double most = 0.0, mass = 0.0;
    for (int k = 0; k < kept_sweeps; ++k) {
        const double sent = combines ? sent_weight(g, k) : k == depth;
        weights[k * stride + column] = (combines && k ? 1.0 + g[k - 1] : 1.0) * past.back(k, column);
        weights[(kept_sweeps + k) * stride + column] = sent * past.back(k, column);
        most += fabs(sent) * past.largest(k, column);
        mass += sent * past.mass(k, column);
    }
    double back = past.back(depth, column);
    if (combines) {
        const int exponent = scale_of_singles(top, most);
        back = power_of_two(-exponent);
        options[low_scale * stride + column] = (float)power_of_two(exponent);
        options[low_back * stride + column] = (float)back;
    } else {
        until[2 * stride + column] = 0.0;
    }
    weights[2 * kept_sweeps * stride + column] = back > 0.0 ? 1.0 / back : 0.0;
    weights[(2 * kept_sweeps + 1) * stride + column] = back;
    past.back(0, column) = back;
    past.mass(0, column) = mass;
    past.largest(0, column) = most;
}

// Adds what z of the slots 1 to `last` say, by their weights, to c; where it Sends, slot 0 gets what goes on in their
// place, and what rounding it loses is left for `batch_sent`. Weights are those of `batch_combine`, or else one over the
// scales alone. Does nothing if all its queries rest, unless `until` is null.
template <class Q, int Each, bool Sends>
CPMS_DEVICE void batch_collect(const BatchNodes& nodes, const double* until, const double* weights, u32 last, u8* z,
                               u64 slot_bytes, float* c, double* partials) {
    constexpr u32 columns = 32 * Each, rows = Sends ? 2 * kept_sweeps + 2 : kept_sweeps;
    constexpr int number = Narrow<Q>::width / 8;
    if (until && all_rest(until, nodes.columns)) return;
    alignas(16) __shared__ float here[rows][columns];
    for (u32 i = threadIdx.x; i < rows * columns; i += resident_threads) {
        const u32 column = column_at<Each>(i % columns, nodes.columns);
        here[i / columns][i % columns] = (float)weights[i / columns * nodes.columns.stride + column];
    }
    __syncthreads();
    const auto weight = [&](u32 which) {
        return load_run_bytes<4 * Each>((const u8*)(here[which] + threadIdx.x % 32 * Each), Default{});
    };
    each_row<Each, 1, 1>(nodes, partials, [&](u32 row, const Lane<Each>& mine, BatchTotals<Each, 1, 1>& lost) {
        const RowOf of(nodes, row);
        u8* const at = mine.template at<number>(z, row);
        auto kept = load_singles<Each>(c, row, mine, Streaming{});
        Run<Each * number> run[kept_sweeps];
#pragma unroll
        for (int k = !Sends; k < kept_sweeps; ++k) {
            if (!Sends && k > last) break;
            run[k] = load_run_bytes<Each * number>(at + k * slot_bytes, Streaming{});
        }
        float added[Each] = {}, sent[Each] = {};
#pragma unroll
        for (int k = !Sends; k < kept_sweeps; ++k) {
            if (!Sends && k > last) break;
            float value[Each];
            Narrow<Q>::template values<Each>(run[k], value);
            if (k) {
                const auto in_c = weight(k);
#pragma unroll
                for (int j = 0; j < Each; ++j) added[j] = fmaf(value[j], single_of(in_c.word[j]), added[j]);
            }
            if constexpr (Sends) {
                const auto in_next = weight(kept_sweeps + k);
#pragma unroll
                for (int j = 0; j < Each; ++j) sent[j] = fmaf(value[j], single_of(in_next.word[j]), sent[j]);
            }
        }
        float sum[Each];
#pragma unroll
        for (int j = 0; j < Each; ++j) {
            sum[j] = fmaf(added[j], (float)nodes.stored_by(of.degree()), single_of(kept.word[j]));
        }
        if (mine.writes) store_singles<Each>(c, row, mine, sum);
        if constexpr (Sends) {
            const auto up = weight(2 * kept_sweeps), back = weight(2 * kept_sweeps + 1);
#pragma unroll
            for (int j = 0; j < Each; ++j) sum[j] = sent[j] * single_of(up.word[j]);
            const auto stored = Narrow<Q>::template stored<Each>(sum);
            if (mine.writes) store_run_bytes(at, stored, Streaming{});
            Narrow<Q>::template values<Each>(stored, sum);
#pragma unroll
            for (int j = 0; j < Each; ++j) {
                lost.add(0, j, (double)fmaf(-sum[j], single_of(back.word[j]), sent[j]) * of.kept);
            }
        }
    });
}

// How queries go on once they were combined; a warp a query.
CPMS_DEVICE void batch_sent(const double* partials, u32 blocks, const Columns& columns, double damping, double spread,
                            const double* until, float* options, const BatchPast& past) {
    const u32 column = blockIdx.x * block_warps + threadIdx.x / 32;
    if (column >= columns.used || until[column] >= at_rest()) return;
    const double mass = past.mass(0, column) + joined_totals(partials, column, blocks, false);
    if (threadIdx.x % 32) return;
    past.mass(0, column) = mass;
    send(options, columns.stride, column, damping * past.back(0, column), damping * mass, spread);
}

}  // namespace cpms

#define CPMS_BATCH_PRODUCTS(NAME, ...)                                                                \
    extern "C" __global__ void __launch_bounds__(512, 1)                                              \
        NAME(CPMS_BATCH_NODES, const double* until, double* past, const unsigned char* z,             \
             unsigned long long slot_bytes, double* partials) {                                       \
        cpms::batch_products<__VA_ARGS__>(CPMS_BATCH_NODES_GIVEN, until, cpms::BatchPast{past, stride}, \
                                          z, slot_bytes, partials);                                   \
    }
#define CPMS_BATCH_COMBINE(NAME)                                                                      \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const double* partials, unsigned blocks, unsigned stride, unsigned used, int top,        \
             double* until, float* options, double* past, double* weights) {                          \
        cpms::batch_combine(partials, blocks, cpms::Columns{stride, used}, top, until, options,       \
                            cpms::BatchPast{past, stride}, weights);                                  \
    }
#define CPMS_BATCH_COLLECT(NAME, ...)                                                                 \
    extern "C" __global__ void __launch_bounds__(512, 1)                                              \
        NAME(CPMS_BATCH_NODES, const double* until, const double* weights, unsigned last,             \
             unsigned char* z, unsigned long long slot_bytes, float* c, double* partials) {           \
        cpms::batch_collect<__VA_ARGS__>(CPMS_BATCH_NODES_GIVEN, until, weights, last, z, slot_bytes, \
                                         c, partials);                                                \
    }
#define CPMS_BATCH_SENT(NAME)                                                                         \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const double* partials, unsigned blocks, unsigned stride, unsigned used, double damping, \
             double spread, const double* until, float* options, double* past) {                      \
        cpms::batch_sent(partials, blocks, cpms::Columns{stride, used}, damping, spread, until,       \
                         options, cpms::BatchPast{past, stride});                                     \
    }
