// Sweeps of batches of personalised queries: in float64, and for method refine in few bits; see batch.cuh.
#include "batch.cuh"

namespace cpms {

struct BatchNodes {
    const u32* degree;  // out-degree, 0 for dangling nodes; `own_bit` is set where teleport brings a node something
    BatchOwn own;
    u32 count;
    Columns columns;

    CPMS_DEVICE double inverse(u32 of) const { return of ? reciprocal(of) : 1.0; }
};

constexpr u32 own_bit = 0x80000000u;
// `until` of queries whose low sweeps have ended: infinite.
CPMS_DEVICE double at_rest() { return value_of(0x7FF0000000000000ull); }

// What a row's end needs besides its sum and its queries' numbers.
struct RowOf {
    u32 word;
    CPMS_DEVICE RowOf(const BatchNodes& nodes, u32 row) : word(load_word(nodes.degree + row, ReadOnly{})) {}
    CPMS_DEVICE u32 degree() const { return word & ~own_bit; }
    CPMS_DEVICE bool has_own() const { return word & own_bit; }
};

template <int Each, class Policy = Default>
CPMS_DEVICE Run<4 * Each> load_singles(const float* numbers, u32 row, const Lane<Each>& mine, Policy policy = {}) {
    return load_run_bytes<4 * Each>(mine.template at<4>((const u8*)numbers, row), policy);
}

template <int Each>
CPMS_DEVICE void store_singles(float* numbers, u32 row, const Lane<Each>& mine, const float (&values)[Each]) {
    Run<4 * Each> run{};
#pragma unroll
    for (int k = 0; k < Each; ++k) run.template put<32>(k, bits_of_single(values[k]));
    store_run_bytes(mine.template at<4>((u8*)numbers, row), run, Streaming{});
}

template <int Each>
CPMS_DEVICE Run<8 * Each> load_doubles(const double* numbers, u32 row, const Lane<Each>& mine) {
    return load_run_bytes<8 * Each>(mine.template at<8>((const u8*)numbers, row), ReadOnly{});
}

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
    // L1, squares, mass, dangling mass; largest |r|, largest |r / degree| of others
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
            totals.add(3, k, degree ? 0.0 : y[k]);
            totals.add(4, k, fabs(r));
            if constexpr (Refines) {
                left[k] = (float)(r * inverse);
                totals.add(5, k, degree ? fabs((double)left[k]) : 0.0);
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

// Low sweep: r = factor sum + what lost mass brings; c += r; z = Q(r / degree). Gathered rows stay in the caches:
// all else passes through them once a sweep, first to be evicted.
// options, of each query: factor, what all nodes get, what teleport brings, scale of what is written, one over it.
template <class Q, int Each>
struct BatchLowEnd {
    struct Loaded {
        RowOf row;
        Run<4 * Each> c;
    };
    const BatchNodes& nodes;
    const float (*options)[32 * Each];  // of each lane's columns, in shared memory
    float* c;
    u8* out;
    float l1[Each] = {}, lost[Each] = {}, largest[Each] = {};  // of r / degree, scaled; sums since the last turn
    BatchTotals<Each, 2, 2> totals;

    CPMS_DEVICE Run<4 * Each> option(u32 which) const {
        return load_run_bytes<4 * Each>((const u8*)(options[which] + threadIdx.x % 32 * Each), Default{});
    }
    CPMS_DEVICE Loaded load(u32 row, const Lane<Each>& mine) const {
        prefetch(mine.template at<4>((const u8*)c, smaller(row + 2, nodes.count - 1)));
        return Loaded{RowOf(nodes, row), load_singles<Each>(c, row, mine, Streaming{})};
    }
    CPMS_DEVICE void finish(u32 row, const float (&sum)[Each], const Loaded& with, const Lane<Each>& mine) {
        const u32 degree = with.row.degree();
        const float inverse = degree ? about_one_over(degree) : 0.0f;
        float r[Each], kept[Each];
        const auto factor = option(0), all_get = option(1);
#pragma unroll
        for (int k = 0; k < Each; ++k) r[k] = fmaf(sum[k], single_of(factor.word[k]), single_of(all_get.word[k]));
        if (with.row.has_own()) {
            const auto teleport = option(2);
            add_own(nodes.own, row, mine.first, r, [&](int k) { return (double)single_of(teleport.word[k]); });
        }
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            kept[k] = single_of(with.c.word[k]) + r[k];
            l1[k] += fabsf(r[k]);
        }
        if (mine.writes) store_singles<Each>(c, row, mine, kept);
        const auto scale = option(3);
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            kept[k] = r[k] * inverse * single_of(scale.word[k]);
            largest[k] = fmaxf(largest[k], fabsf(kept[k]));
        }
        const auto run = Narrow<Q>::template stored<Each>(kept);
        if (mine.writes) store_run_bytes(mine.template at<Narrow<Q>::width / 8>(out, row), run, Streaming{});
        Narrow<Q>::template values<Each>(run, kept);
        const auto back = option(4);
#pragma unroll
        for (int k = 0; k < Each; ++k) lost[k] += fmaf(-(float)degree, kept[k] * single_of(back.word[k]), r[k]);
    }
    CPMS_DEVICE void turn_done() {
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            totals.add(0, k, l1[k]);
            totals.add(1, k, lost[k]);
            l1[k] = lost[k] = 0.0f;
        }
    }
};

// Does nothing once all its queries rest.
template <class Q, int Each>
CPMS_DEVICE void batch_low(const BatchEdges& edges, const BatchNodes& nodes, const double* until, const float* options,
                           const u8* z, float* c, u8* out, double* partials) {
    constexpr u32 columns = 32 * Each;
    if (!__syncthreads_or(threadIdx.x < nodes.columns.used && until[threadIdx.x] < at_rest())) return;
    alignas(16) __shared__ float here[5][columns];
    for (u32 i = threadIdx.x; i < 5 * columns; i += resident_threads) {
        const u32 column = smaller(i % columns / Each * Each, nodes.columns.used - Each) + i % Each;
        here[i / columns][i % columns] = options[i / columns * nodes.columns.stride + column];
    }
    __syncthreads();
    BatchLowEnd<Q, Each> end{nodes, here, c, out};
    walk_batch<Q, Each>(edges, z, nodes.columns, end);
    end.totals.leave(partials, nodes.columns);
    BatchTotals<Each, 1, 0> largest;
#pragma unroll
    for (int k = 0; k < Each; ++k) largest.value[0][k] = (double)end.largest[k];
    largest.leave(partials + 2 * (u64)nodes.columns.used * gridDim.x, nodes.columns);
}

// Calls work(row, lane) for all rows, a warp a row, and leaves what it adds up.
template <int Each, int Count, int Sums, class Work>
CPMS_DEVICE void each_row(const BatchNodes& nodes, double* partials, Work work) {
    const Lane<Each> mine(nodes.columns);
    BatchTotals<Each, Count, Sums> totals;
    const u32 warps = gridDim.x * resident_warps;
#pragma unroll 2
    for (u32 row = blockIdx.x * resident_warps + threadIdx.x / 32; row < nodes.count; row += warps) {
        work(row, mine, totals);
    }
    totals.leave(partials, nodes.columns);
}

// The first z of a round, for queries whose scale is above 0; of these c, which held the change, begins at 0.
template <class Q, int Each>
CPMS_DEVICE void batch_quantise(const BatchNodes& nodes, const float* options, float* c, u8* z, double* partials) {
    each_row<Each, 1, 1>(nodes, partials, [&](u32 row, const Lane<Each>& mine, BatchTotals<Each, 1, 1>& lost) {
        const u32 degree = RowOf(nodes, row).degree();
        const auto change = load_singles<Each>(c, row, mine);
        const auto up = load_singles<Each>(options, 3, mine);
        const auto back = load_singles<Each>(options, 4, mine);
        float share[Each], kept[Each];
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            share[k] = single_of(change.word[k]);
            kept[k] = degree ? share[k] * single_of(up.word[k]) : 0.0f;
        }
        const auto run = Narrow<Q>::template stored<Each>(kept);
        Narrow<Q>::template values<Each>(run, kept);
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            const float left = fmaf(-kept[k], single_of(back.word[k]), share[k]);
            const bool begins = single_of(up.word[k]) > 0.0f;
            lost.add(0, k, begins ? (double)left * (degree ? degree : 1u) : 0.0);
            kept[k] = begins ? 0.0f : share[k];
        }
        if (!mine.writes) return;
        store_singles<Each>(c, row, mine, kept);
        store_run_bytes(mine.template at<Narrow<Q>::width / 8>(z, row), run);
    });
}

// x = x + c, not below 0, for queries that have a c (1, else 0); mass and dangling mass of all.
template <int Each>
CPMS_DEVICE void batch_correct(const BatchNodes& nodes, const double* has, double* shares, const float* c,
                               double* partials) {
    each_row<Each, 2, 2>(nodes, partials, [&](u32 row, const Lane<Each>& mine, BatchTotals<Each, 2, 2>& found) {
        const u32 degree = RowOf(nodes, row).degree();
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
            found.add(1, k, degree ? 0.0 : share);
        }
        if (mine.writes) store_run_bytes(at, run);
    });
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

// What a low sweep found decides how each query goes on: a warp a query. until, of each query: the L1 at which its
// low sweeps end, and how many are left.
CPMS_DEVICE void batch_low_next(const double* partials, u32 blocks, const Columns& columns, double damping, double spread,
                                u32 scaled, int top, double* until, float* options, double* report) {
    const u32 column = blockIdx.x * block_warps + threadIdx.x / 32, stride = columns.stride;
    if (column >= columns.used) return;
    const double l1 = joined_totals(partials, column, blocks, false);
    const double lost = joined_totals(partials, columns.used + column, blocks, false);
    const double largest = joined_totals(partials, 2 * columns.used + column, blocks, true);
    if (threadIdx.x % 32) return;
    const double left = until[stride + column] - 1.0;
    const bool goes_on = l1 > until[column] && left > 0.0;
    until[stride + column] = left;
    const double back = options[4 * stride + column], mass = goes_on ? damping * lost : 0.0;
    int exponent = shared_scale(scaled, top, largest * back);
    exponent = exponent < -100 ? -100 : exponent > 100 ? 100 : exponent;
    report[column] = l1;
    if (!goes_on) until[column] = at_rest();
    options[column] = goes_on ? (float)(damping * back) : 0.0f;
    options[stride + column] = (float)(mass * spread);
    options[2 * stride + column] = spread > 0.0 ? 0.0f : (float)mass;
    options[3 * stride + column] = (float)power_of_two(exponent);
    options[4 * stride + column] = (float)power_of_two(-exponent);
}

}  // namespace cpms

#define CPMS_BATCH_EDGES                                                                              \
    const unsigned *sources, const unsigned short *marks, const unsigned *first_rows,                 \
        const unsigned *first_tasks, unsigned steps, unsigned task_steps, unsigned long long *pieces
#define CPMS_BATCH_NODES                                                                              \
    const unsigned *degree, const unsigned *own_starts, const unsigned *own_column,                   \
        const double *own_weight, unsigned own_first, unsigned count, unsigned stride, unsigned used
#define CPMS_BATCH_EDGES_GIVEN \
    cpms::BatchEdges { sources, marks, first_rows, first_tasks, steps, task_steps, count, pieces }
#define CPMS_BATCH_NODES_GIVEN                                                                        \
    cpms::BatchNodes {                                                                                \
        degree, cpms::BatchOwn{own_starts, own_column, own_weight, own_first}, count, cpms::Columns { stride, used } \
    }
#define CPMS_BATCH_FULL(NAME, ...)                                                                    \
    extern "C" __global__ void __launch_bounds__(512, 1)                                              \
        NAME(CPMS_BATCH_EDGES, CPMS_BATCH_NODES, double damping, const double* options,               \
             const double* shares, double* fresh, float* change, double* partials) {                  \
        cpms::batch_full<__VA_ARGS__>(CPMS_BATCH_EDGES_GIVEN, CPMS_BATCH_NODES_GIVEN, damping,        \
                                      options, shares, fresh, change, partials);                      \
    }
#define CPMS_BATCH_LOW(NAME, ...)                                                                     \
    extern "C" __global__ void __launch_bounds__(512, 2)                                              \
        NAME(CPMS_BATCH_EDGES, CPMS_BATCH_NODES, const double* until, const float* options,           \
             const unsigned char* z, float* c, unsigned char* out, double* partials) {                \
        cpms::batch_low<__VA_ARGS__>(CPMS_BATCH_EDGES_GIVEN, CPMS_BATCH_NODES_GIVEN, until, options,  \
                                     z, c, out, partials);                                            \
    }
#define CPMS_BATCH_QUANTISE(NAME, ...)                                                                \
    extern "C" __global__ void __launch_bounds__(512, 2)                                              \
        NAME(CPMS_BATCH_NODES, const float* options, float* c, unsigned char* z, double* partials) {  \
        cpms::batch_quantise<__VA_ARGS__>(CPMS_BATCH_NODES_GIVEN, options, c, z, partials);           \
    }
#define CPMS_BATCH_CORRECT(NAME, EACH)                                                                \
    extern "C" __global__ void __launch_bounds__(512, 2)                                              \
        NAME(CPMS_BATCH_NODES, const double* has, double* shares, const float* c, double* partials) { \
        cpms::batch_correct<EACH>(CPMS_BATCH_NODES_GIVEN, has, shares, c, partials);                  \
    }
#define CPMS_BATCH_TOTALS(NAME)                                                                       \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const double* partials, unsigned blocks, unsigned stride, unsigned used, unsigned count, \
             unsigned sums, double* found) {                                                          \
        cpms::batch_totals(partials, blocks, cpms::Columns{stride, used}, count, sums, found);        \
    }
#define CPMS_BATCH_LOW_NEXT(NAME)                                                                     \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const double* partials, unsigned blocks, unsigned stride, unsigned used, double damping, \
             double spread, unsigned scaled, int top, double* until, float* options, double* report) { \
        cpms::batch_low_next(partials, blocks, cpms::Columns{stride, used}, damping, spread, scaled,  \
                             top, until, options, report);                                            \
    }
