// Inner sweeps of batches of personalised queries. Queries have scales and tolerances of their own and finish at
// different sweeps; the kernels decide that on the device, so that the host launches a fixed sequence.
#include "batch/inner_sweep.cuh"
#include "batch/segmented_sum.cuh"

namespace cpms {

// Inner sweep: r = factor sum + inflow of lost mass; z = Q(r / degree). Gathered rows should stay in caches, so all
// other data are evict-first. The correction is the weighted sum of the z of several sweeps (deferred update). The
// options in shared memory contain the scale, and r is scaled as z.
template <class Q, int Each>
struct BatchInnerEpilogue {
    const BatchNodes& nodes;
    const float (*options)[32 * Each];  // of each lane's columns, in shared memory
    u8* out;
    float l1[Each] = {}, lost[Each] = {}, largest[Each] = {};  // of scaled r, of z; the sums are of one task group
    BatchReduce<Each, 2, 2> totals;

    CPMS_DEVICE Run<4 * Each> option(u32 which) const {
        return load_run_bytes<4 * Each>((const u8*)(options[which] + threadIdx.x % 32 * Each), Default{});
    }
    CPMS_DEVICE NodeWord load(u32 row, const LaneColumns<Each>&) const { return NodeWord(nodes, row); }
    CPMS_DEVICE void finish(u32 row, const float (&sum)[Each], const NodeWord& with, const LaneColumns<Each>& mine) {
        const u32 degree = with.degree();
        const float inverse = approximate_reciprocal(nodes.storage_degree(degree));
        float r[Each], sent[Each];
        const auto factor = option(inner_factor), uniform_inflow = option(inner_uniform);
#pragma unroll
        for (int k = 0; k < Each; ++k)
            r[k] = fmaf(sum[k], single_of(factor.word[k]), single_of(uniform_inflow.word[k]));
        if (with.has_teleport()) {
            const auto teleport = option(inner_teleport);
            add_teleport(nodes.teleport, row, mine.first, r,
                         [&](int k) { return (double)single_of(teleport.word[k]); });
        }
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            l1[k] += fabsf(r[k]);
            sent[k] = r[k] * inverse;
            largest[k] = fmaxf(largest[k], fabsf(sent[k]));
        }
        const auto run = Float32View<Q>::template stored<Each>(sent);
        if (mine.writes) store_run_bytes(mine.template at<Float32View<Q>::width / 8>(out, row), run, Streaming{});
        Float32View<Q>::template values<Each>(run, sent);
#pragma unroll
        for (int k = 0; k < Each; ++k) lost[k] += fmaf(-(float)with.internal_degree, sent[k], r[k]);
    }
    CPMS_DEVICE void group_done() {
        const auto unscale = option(inner_unscale);
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            totals.add(0, k, l1[k] * single_of(unscale.word[k]));
            totals.add(1, k, lost[k] * single_of(unscale.word[k]));
            l1[k] = lost[k] = 0.0f;
        }
    }
};

// Returns at once if the inner sweeps of all its queries have ended.
template <class Q, int Each>
CPMS_DEVICE void batch_inner_sweep(const BatchEdges& edges, const BatchNodes& nodes, const BatchLimits& limits,
                                   const float* options, const u8* sent_in, u8* out, double* partials) {
    constexpr u32 columns = 32 * Each;
    if (limits.all_ended(nodes.columns)) return;
    alignas(16) __shared__ float options_here[inner_options][columns];
    for (u32 i = threadIdx.x; i < inner_options * columns; i += persistent_threads) {
        const u32 option = i / columns, column = column_at<Each>(i % columns, nodes.columns);
        const float scale = option < inner_scale ? options[inner_scale * nodes.columns.stride + column] : 1.0f;
        options_here[option][i % columns] = options[option * nodes.columns.stride + column] * scale;
    }
    __syncthreads();
    BatchInnerEpilogue<Q, Each> end{nodes, options_here, out};
    batch_segmented_sum<Q, Each>(edges, sent_in, nodes.columns, end);
    end.totals.publish(partials, nodes.columns);
    BatchReduce<Each, 1, 0> largest;
#pragma unroll
    for (int k = 0; k < Each; ++k) largest.value[0][k] = (double)end.largest[k];
    largest.publish(partials + 2 * (u64)nodes.columns.used * gridDim.x, nodes.columns);
}

// The first quantised residual of an outer step, for queries whose scale is above 0; their correction, which held the
// residual, begins at 0.
template <class Q, int Each>
CPMS_DEVICE void batch_quantise(const BatchNodes& nodes, const float* options, float* correction, u8* sent_in,
                                double* partials) {
    for_each_row<Each, 1, 1>(
        nodes, partials, [&](u32 row, const LaneColumns<Each>& mine, BatchReduce<Each, 1, 1>& lost) {
            const NodeWord of(nodes, row);
            const u32 degree = of.degree();
            const auto residual = load_singles<Each>(correction, row, mine);
            const auto scale = load_singles<Each>(options, inner_scale, mine);
            const auto unscale = load_singles<Each>(options, inner_unscale, mine);
            float contribution[Each], sent[Each];
#pragma unroll
            for (int k = 0; k < Each; ++k) {
                contribution[k] = single_of(residual.word[k]);
                sent[k] = contribution[k] * single_of(scale.word[k]) *
                          (degree ? 1.0f : approximate_reciprocal(nodes.dangling_degree));
            }
            const auto run = Float32View<Q>::template stored<Each>(sent);
            Float32View<Q>::template values<Each>(run, sent);
#pragma unroll
            for (int k = 0; k < Each; ++k) {
                const float remaining =
                    degree ? fmaf(-sent[k], single_of(unscale.word[k]), contribution[k]) : contribution[k];
                const bool begins = single_of(scale.word[k]) > 0.0f;
                lost.add(0, k,
                         begins ? (double)remaining * of.internal_degree + (double)contribution[k] * of.lost() : 0.0);
                sent[k] = begins ? 0.0f : contribution[k];
            }
            if (!mine.writes) return;
            store_singles<Each>(correction, row, mine, sent);
            store_run_bytes(mine.template at<Float32View<Q>::width / 8>(sent_in, row), run);
        });
}

// Decides from an inner sweep's totals how each query continues, and makes the options of its next sweep. One warp a
// query. `place` is that of the vector which the sweep wrote. `spread` is 1 / nodes where lost mass goes to all nodes,
// and 0 where it follows the query's teleport.
CPMS_KERNEL(256) batch_advance(const double* partials, u32 blocks, u32 stride, u32 used, double damping, double spread,
                               int top, double* limits_of, float* options, double* history_of, u32 place,
                               double* report) {
    const u32 column = blockIdx.x * block_warps + threadIdx.x / 32;
    if (column >= used) return;
    const BatchLimits limits{limits_of, stride};
    const BatchHistory history{history_of, stride};
    const double l1 = reduce_partials(partials, column, blocks, false);
    const double lost = reduce_partials(partials, used + column, blocks, false);
    const double largest = reduce_partials(partials, 2 * used + column, blocks, true);
    if (threadIdx.x % 32) return;
    const double remaining = limits.sweeps_left(column) - 1.0;
    const bool continues = l1 > limits.tolerance(column) && remaining > 0.0;
    limits.sweeps_left(column) = remaining;
    const double unscale = options[inner_unscale * stride + column];
    const int exponent = float_exponent(top, largest * unscale);
    report[column] = l1;
    if (!limits.has_ended(column)) {  // else the place may hold the vector of an earlier sweep
        history.unscale(place, column) = unscale;
        history.mass(place, column) = lost;
        history.largest(place, column) = largest * unscale;
    }
    if (!continues) limits.tolerance(column) = infinity();
    set_inner_options(options, stride, column, continues ? damping * unscale : 0.0, continues ? damping * lost : 0.0,
                      spread);
    options[inner_scale * stride + column] = (float)power_of_two(exponent);
    options[inner_unscale * stride + column] = (float)power_of_two(-exponent);
}

}  // namespace cpms

#define CPMS_BATCH_INNER_SWEEP(NAME, ...)                                                                   \
    CPMS_KERNEL(512, 2) NAME(const cpms::BatchEdges edges, const cpms::BatchNodes nodes, double* limits,    \
                             const float* options, const unsigned char* sent_in, unsigned char* out,        \
                             double* partials) {                                                            \
        cpms::batch_inner_sweep<__VA_ARGS__>(edges, nodes, cpms::BatchLimits{limits, nodes.columns.stride}, \
                                             options, sent_in, out, partials);                              \
    }
#define CPMS_BATCH_QUANTISE(NAME, ...)                                                              \
    CPMS_KERNEL(512, 2) NAME(const cpms::BatchNodes nodes, const float* options, float* correction, \
                             unsigned char* sent_in, double* partials) {                            \
        cpms::batch_quantise<__VA_ARGS__>(nodes, options, correction, sent_in, partials);           \
    }
