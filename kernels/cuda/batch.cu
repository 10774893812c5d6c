// Sweeps of batches of personalised queries: in float64, and for method refine in few bits; see batch.cuh.
#include "batch.cuh"
#include "extrapolate.cuh"

namespace cpms {

struct BatchNodes {
    const u32* degree;  // out-degree, 0 for dangling nodes; `own_bit` is set where teleport brings a node something
    BatchOwn own;
    u32 count;
    u32 idle;  // degree by which what dangling nodes keep is stored: nobody gathers it, and it goes with the others
    Columns columns;

    CPMS_DEVICE double inverse(u32 of) const { return of ? reciprocal(of) : 1.0; }
    CPMS_DEVICE u32 stored_by(u32 degree) const { return degree ? degree : idle; }
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
    // L1, squares, mass, dangling mass; largest |r|, largest |r / degree| as it is stored
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

// Low sweep: r = factor sum + what lost mass brings; z = Q(r / degree). Gathered rows stay in the caches: all else
// passes through them once a sweep, first to be evicted. What is added to c is what z say, every few sweeps.
// options, of each query: factor, what all nodes get, what teleport brings, scale of what is written, one over it.
template <class Q, int Each>
struct BatchLowEnd {
    const BatchNodes& nodes;
    const float (*options)[32 * Each];  // of each lane's columns, in shared memory
    u8* out;
    float l1[Each] = {}, lost[Each] = {}, largest[Each] = {};  // of r / degree, scaled; sums since the last turn
    BatchTotals<Each, 2, 2> totals;

    CPMS_DEVICE Run<4 * Each> option(u32 which) const {
        return load_run_bytes<4 * Each>((const u8*)(options[which] + threadIdx.x % 32 * Each), Default{});
    }
    CPMS_DEVICE RowOf load(u32 row, const Lane<Each>&) const { return RowOf(nodes, row); }
    CPMS_DEVICE void finish(u32 row, const float (&sum)[Each], const RowOf& with, const Lane<Each>& mine) {
        const u32 degree = with.degree();
        const float inverse = about_one_over(nodes.stored_by(degree));
        float r[Each], kept[Each];
        const auto factor = option(0), all_get = option(1);
#pragma unroll
        for (int k = 0; k < Each; ++k) r[k] = fmaf(sum[k], single_of(factor.word[k]), single_of(all_get.word[k]));
        if (with.has_own()) {
            const auto teleport = option(2);
            add_own(nodes.own, row, mine.first, r, [&](int k) { return (double)single_of(teleport.word[k]); });
        }
        const auto scale = option(3);
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            l1[k] += fabsf(r[k]);
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

// Whether all queries of a launch rest; all threads of a block ask.
CPMS_DEVICE bool all_rest(const double* until, const Columns& columns) {
    return !__syncthreads_or(threadIdx.x < columns.used && until[threadIdx.x] < at_rest());
}

// Does nothing once all its queries rest.
template <class Q, int Each>
CPMS_DEVICE void batch_low(const BatchEdges& edges, const BatchNodes& nodes, const double* until, const float* options,
                           const u8* z, u8* out, double* partials) {
    constexpr u32 columns = 32 * Each;
    if (all_rest(until, nodes.columns)) return;
    alignas(16) __shared__ float here[5][columns];
    for (u32 i = threadIdx.x; i < 5 * columns; i += resident_threads) {
        const u32 column = smaller(i % columns / Each * Each, nodes.columns.used - Each) + i % Each;
        here[i / columns][i % columns] = options[i / columns * nodes.columns.stride + column];
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
            kept[k] = share[k] * single_of(up.word[k]) * (degree ? 1.0f : about_one_over(nodes.idle));
        }
        const auto run = Narrow<Q>::template stored<Each>(kept);
        Narrow<Q>::template values<Each>(run, kept);
#pragma unroll
        for (int k = 0; k < Each; ++k) {
            const float left = degree ? fmaf(-kept[k], single_of(back.word[k]), share[k]) : share[k];
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

// What the next low sweep of a query multiplies sums by, and the mass that it spreads.
CPMS_DEVICE void send(float* options, u32 stride, u32 column, double factor, double mass, double spread) {
    options[column] = (float)factor;
    options[stride + column] = (float)(mass * spread);
    options[2 * stride + column] = spread > 0.0 ? 0.0f : (float)mass;
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

// A power of two that float32 has, with its inverse.
CPMS_DEVICE int scale_of_singles(u32 scaled, int top, double largest) {
    const int exponent = shared_scale(scaled, top, largest);
    return exponent < -100 ? -100 : exponent > 100 ? 100 : exponent;
}

// What is known of the z that are kept, of each query: one over the scale, the mass that is spread, the largest.
struct BatchPast {
    double* numbers;
    u32 stride;

    CPMS_DEVICE double& back(u32 slot, u32 column) const { return numbers[slot * stride + column]; }
    CPMS_DEVICE double& mass(u32 slot, u32 column) const { return back(kept_sweeps + slot, column); }
    CPMS_DEVICE double& largest(u32 slot, u32 column) const { return back(2 * kept_sweeps + slot, column); }
};

// What a low sweep found decides how each query goes on: a warp a query. until, of each query: the L1 at which its
// low sweeps end, how many are left, and whether extrapolation pays.
CPMS_DEVICE void batch_low_next(const double* partials, u32 blocks, const Columns& columns, double damping, double spread,
                                u32 scaled, int top, double* until, float* options, const BatchPast& past, u32 slot,
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
    const double back = options[4 * stride + column];
    const int exponent = scale_of_singles(scaled, top, largest * back);
    report[column] = l1;
    if (until[column] < at_rest()) {  // else the slot may still hold what an earlier sweep sent
        past.back(slot, column) = back;
        past.mass(slot, column) = lost;
        past.largest(slot, column) = largest * back;
    }
    if (!goes_on) until[column] = at_rest();
    send(options, stride, column, goes_on ? damping * back : 0.0, goes_on ? damping * lost : 0.0, spread);
    options[3 * stride + column] = (float)power_of_two(exponent);
    options[4 * stride + column] = (float)power_of_two(-exponent);
}

// Products of the z that are kept for `extrapolate.cuh`, a lane a column; of queries of which any goes on and pays.
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
            add_products(sent, product);
        }
    }
    BatchTotals<1, products, products> totals;
#pragma unroll
    for (int q = 0; q < products; ++q) totals.value[q][0] = (double)product[q];
    totals.leave(partials, nodes.columns);
}

// Weights of the z that are kept, of each query: in c, and in what is sent next; of the latter the scale, and one over
// it. A warp a query; one that it does not pay for is not combined again in this round.
CPMS_DEVICE void batch_combine(const double* partials, u32 blocks, const Columns& columns, u32 scaled, int top,
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
        const double before = combines && k ? g[k - 1] : 0.0, after = combines && k < depth ? g[k] : 0.0;
        const double sent = before - after + (k == depth ? 1.0 : 0.0);
        weights[k * stride + column] = (1.0 + before) * past.back(k, column);
        weights[(kept_sweeps + k) * stride + column] = sent * past.back(k, column);
        most += fabs(sent) * past.largest(k, column);
        mass += sent * past.mass(k, column);
    }
    double back = past.back(depth, column);
    if (combines) {
        const int exponent = scale_of_singles(scaled, top, most);
        back = power_of_two(-exponent);
        options[3 * stride + column] = (float)power_of_two(exponent);
        options[4 * stride + column] = (float)back;
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
        const u32 column = smaller(i % columns / Each * Each, nodes.columns.used - Each) + i % Each;
        here[i / columns][i % columns] = (float)weights[i / columns * nodes.columns.stride + column];
    }
    __syncthreads();
    const auto weight = [&](u32 which) {
        return load_run_bytes<4 * Each>((const u8*)(here[which] + threadIdx.x % 32 * Each), Default{});
    };
    each_row<Each, 1, 1>(nodes, partials, [&](u32 row, const Lane<Each>& mine, BatchTotals<Each, 1, 1>& lost) {
        const u32 degree = RowOf(nodes, row).degree();
        u8* const at = mine.template at<number>(z, row);
        auto kept = load_singles<Each>(c, row, mine, Streaming{});
        Run<Each * number> run[kept_sweeps];
#pragma unroll
        for (int k = !Sends; k < kept_sweeps; ++k) {
            run[k] = load_run_bytes<Each * number>(at + smaller(k, last) * slot_bytes, Streaming{});
        }
        float added[Each] = {}, sent[Each] = {};
#pragma unroll
        for (int k = !Sends; k < kept_sweeps; ++k) {
            float value[Each];
            Narrow<Q>::template values<Each>(run[k], value);
            if (k && k <= last) {
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
            sum[j] = fmaf(added[j], (float)nodes.stored_by(degree), single_of(kept.word[j]));
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
                lost.add(0, j, (double)fmaf(-sum[j], single_of(back.word[j]), sent[j]) * degree);
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

#define CPMS_BATCH_EDGES                                                                              \
    const unsigned *sources, const unsigned short *marks, const unsigned *first_rows,                 \
        const unsigned *first_tasks, unsigned steps, unsigned task_steps, unsigned long long *pieces
#define CPMS_BATCH_NODES                                                                              \
    const unsigned *degree, const unsigned *own_starts, const unsigned *own_column,                   \
        const double *own_weight, unsigned own_first, unsigned count, unsigned idle, unsigned stride, unsigned used
#define CPMS_BATCH_EDGES_GIVEN \
    cpms::BatchEdges { sources, marks, first_rows, first_tasks, steps, task_steps, count, pieces }
#define CPMS_BATCH_NODES_GIVEN                                                                        \
    cpms::BatchNodes {                                                                                \
        degree, cpms::BatchOwn{own_starts, own_column, own_weight, own_first}, count, idle, cpms::Columns { stride, used } \
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
             const unsigned char* z, unsigned char* out, double* partials) {                          \
        cpms::batch_low<__VA_ARGS__>(CPMS_BATCH_EDGES_GIVEN, CPMS_BATCH_NODES_GIVEN, until, options,  \
                                     z, out, partials);                                               \
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
             double spread, unsigned scaled, int top, double* until, float* options, double* past,    \
             unsigned slot, double* report) {                                                         \
        cpms::batch_low_next(partials, blocks, cpms::Columns{stride, used}, damping, spread, scaled,  \
                             top, until, options, cpms::BatchPast{past, stride}, slot, report);       \
    }
#define CPMS_BATCH_PRODUCTS(NAME, ...)                                                                \
    extern "C" __global__ void __launch_bounds__(512, 1)                                              \
        NAME(CPMS_BATCH_NODES, const double* until, double* past, const unsigned char* z,             \
             unsigned long long slot_bytes, double* partials) {                                       \
        cpms::batch_products<__VA_ARGS__>(CPMS_BATCH_NODES_GIVEN, until, cpms::BatchPast{past, stride}, \
                                          z, slot_bytes, partials);                                   \
    }
#define CPMS_BATCH_COMBINE(NAME)                                                                      \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const double* partials, unsigned blocks, unsigned stride, unsigned used, unsigned scaled, \
             int top, double* until, float* options, double* past, double* weights) {                 \
        cpms::batch_combine(partials, blocks, cpms::Columns{stride, used}, scaled, top, until,        \
                            options, cpms::BatchPast{past, stride}, weights);                         \
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
