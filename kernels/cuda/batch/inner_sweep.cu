// Low sweeps of batches of personalised queries; see batch/batch.cuh.
#include "batch/inner_sweep.cuh"
#include "batch/segmented_sum.cuh"

namespace cpms {

// Low sweep: r = factor sum + what lost mass brings; z = Q(r / degree). Gathered rows stay in the caches: all else
// passes through them once a sweep, first to be evicted. What is added to c is what z say, every few sweeps. Options in
// shared memory have the scale in them, and r is scaled as z are.
template <class Q, int Each>
struct BatchLowEnd {
    const BatchNodes& nodes;
    const float (*options)[32 * Each];  // of each lane's columns, in shared memory
    u8* out;
    float l1[Each] = {}, lost[Each] = {}, largest[Each] = {};  // of scaled r, of z; sums since the last turn
    BatchTotals<Each, 2, 2> totals;

    CPMS_DEVICE Run<4 * Each> option(u32 which) const {
        return load_run_bytes<4 * Each>((const u8*)(options[which] + threadIdx.x % 32 * Each), Default{});
    }
    CPMS_DEVICE RowOf load(u32 row, const Lane<Each>&) const { return RowOf(nodes, row); }
    CPMS_DEVICE void finish(u32 row, const float (&sum)[Each], const RowOf& with, const Lane<Each>& mine) {
        const u32 degree = with.degree();
        const float inverse = about_one_over(nodes.stored_by(degree));
        float r[Each], kept[Each];
        const auto factor = option(low_factor), all_get = option(low_all_get);
#pragma unroll
        for (int k = 0; k < Each; ++k) r[k] = fmaf(sum[k], single_of(factor.word[k]), single_of(all_get.word[k]));
        if (with.has_own()) {
            const auto teleport = option(low_teleport);
            add_own(nodes.own, row, mine.first, r, [&](int k) { return (double)single_of(teleport.word[k]); });
        }
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            l1[k] += fabsf(r[k]);
            kept[k] = r[k] * inverse;
            largest[k] = fmaxf(largest[k], fabsf(kept[k]));
        }
        const auto run = Narrow<Q>::template stored<Each>(kept);
        if (mine.writes) store_run_bytes(mine.template at<Narrow<Q>::width / 8>(out, row), run, Streaming{});
        Narrow<Q>::template values<Each>(run, kept);
#pragma unroll
        for (int k = 0; k < Each; ++k) lost[k] += fmaf(-(float)with.kept, kept[k], r[k]);
    }
    CPMS_DEVICE void turn_done() {
        const auto back = option(low_back);
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            totals.add(0, k, l1[k] * single_of(back.word[k]));
            totals.add(1, k, lost[k] * single_of(back.word[k]));
            l1[k] = lost[k] = 0.0f;
        }
    }
};

// Does nothing once all its queries rest.
template <class Q, int Each>
CPMS_DEVICE void batch_low(const BatchEdges& edges, const BatchNodes& nodes, const double* until, const float* options,
                           const u8* z, u8* out, double* partials) {
    constexpr u32 columns = 32 * Each;
    if (all_rest(until, nodes.columns)) return;
    alignas(16) __shared__ float here[low_options][columns];
    for (u32 i = threadIdx.x; i < low_options * columns; i += resident_threads) {
        const u32 option = i / columns, column = column_at<Each>(i % columns, nodes.columns);
        const float scale = option < low_scale ? options[low_scale * nodes.columns.stride + column] : 1.0f;
        here[option][i % columns] = options[option * nodes.columns.stride + column] * scale;
    }
    __syncthreads();
    BatchLowEnd<Q, Each> end{nodes, here, out};
    walk_batch<Q, Each>(edges, z, nodes.columns, end);
    end.totals.leave(partials, nodes.columns);
    BatchTotals<Each, 1, 0> largest;
#pragma unroll
    for (int k = 0; k < Each; ++k) largest.value[0][k] = (double)end.largest[k];
    largest.leave(partials + 2 * (u64)nodes.columns.used * gridDim.x, nodes.columns);
}

// The first z of a round, for queries whose scale is above 0; of these c, which held the change, begins at 0.
template <class Q, int Each>
CPMS_DEVICE void batch_quantise(const BatchNodes& nodes, const float* options, float* c, u8* z, double* partials) {
    each_row<Each, 1, 1>(nodes, partials, [&](u32 row, const Lane<Each>& mine, BatchTotals<Each, 1, 1>& lost) {
        const RowOf of(nodes, row);
        const u32 degree = of.degree();
        const auto change = load_singles<Each>(c, row, mine);
        const auto up = load_singles<Each>(options, low_scale, mine);
        const auto back = load_singles<Each>(options, low_back, mine);
        float share[Each], kept[Each];
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            share[k] = single_of(change.word[k]);
            kept[k] = share[k] * single_of(up.word[k]) * (degree ? 1.0f : about_one_over(nodes.idle));
        }
        const auto run = Narrow<Q>::template stored<Each>(kept);
        Narrow<Q>::template values<Each>(run, kept);
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            const float left = degree ? fmaf(-kept[k], single_of(back.word[k]), share[k]) : share[k];
            const bool begins = single_of(up.word[k]) > 0.0f;
            lost.add(0, k, begins ? (double)left * of.kept + (double)share[k] * of.lost() : 0.0);
            kept[k] = begins ? 0.0f : share[k];
        }
        if (!mine.writes) return;
        store_singles<Each>(c, row, mine, kept);
        store_run_bytes(mine.template at<Narrow<Q>::width / 8>(z, row), run);
    });
}

// What a low sweep found decides how each query goes on: a warp a query. until, of each query: the L1 at which its
// low sweeps end, how many are left, and whether extrapolation pays.
CPMS_DEVICE void batch_low_next(const double* partials, u32 blocks, const Columns& columns, double damping, double spread,
                                int top, double* until, float* options, const BatchPast& past, u32 slot,
                                double* report) {
    const u32 column = blockIdx.x * block_warps + threadIdx.x / 32, stride = columns.stride;
    if (column >= columns.used) return;
    const double l1 = joined_totals(partials, column, blocks, false);
    const double lost = joined_totals(partials, columns.used + column, blocks, false);
    const double largest = joined_totals(partials, 2 * columns.used + column, blocks, true);
    if (threadIdx.x % 32) return;
    const double left = until[stride + column] - 1.0;
    const bool goes_on = l1 > until[column] && left > 0.0;
    until[stride + column] = left;
    const double back = options[low_back * stride + column];
    const int exponent = scale_of_singles(top, largest * back);
    report[column] = l1;
    if (until[column] < at_rest()) {  // else the slot may still hold what an earlier sweep sent
        past.back(slot, column) = back;
        past.mass(slot, column) = lost;
        past.largest(slot, column) = largest * back;
    }
    if (!goes_on) until[column] = at_rest();
    send(options, stride, column, goes_on ? damping * back : 0.0, goes_on ? damping * lost : 0.0, spread);
    options[low_scale * stride + column] = (float)power_of_two(exponent);
    options[low_back * stride + column] = (float)power_of_two(-exponent);
}

}  // namespace cpms

#define CPMS_BATCH_LOW(NAME, ...)                                                                     \
    extern "C" __global__ void __launch_bounds__(512, 2)                                              \
        NAME(CPMS_BATCH_EDGES, CPMS_BATCH_NODES, const double* until, const float* options,           \
             const unsigned char* z, unsigned char* out, double* partials) {                          \
        cpms::batch_low<__VA_ARGS__>(CPMS_BATCH_EDGES_GIVEN, CPMS_BATCH_NODES_GIVEN, until, options,  \
                                     z, out, partials);                                               \
    }
#define CPMS_BATCH_QUANTISE(NAME, ...)                                                                \
    extern "C" __global__ void __launch_bounds__(512, 2)                                              \
        NAME(CPMS_BATCH_NODES, const float* options, float* c, unsigned char* z, double* partials) {  \
        cpms::batch_quantise<__VA_ARGS__>(CPMS_BATCH_NODES_GIVEN, options, c, z, partials);           \
    }
#define CPMS_BATCH_LOW_NEXT(NAME)                                                                     \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const double* partials, unsigned blocks, unsigned stride, unsigned used, double damping, \
             double spread, int top, double* until, float* options, double* past, unsigned slot,      \
             double* report) {                                                                        \
        cpms::batch_low_next(partials, blocks, cpms::Columns{stride, used}, damping, spread, top,     \
                             until, options, cpms::BatchPast{past, stride}, slot, report);            \
    }
