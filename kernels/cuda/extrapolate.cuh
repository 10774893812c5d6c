// Every few low sweeps, of what these found, the combination that leaves the least; cpms/extrapolation.py says why.
#pragma once
#include "rounds.cuh"

namespace cpms {

constexpr int depth = 8, kept_sweeps = depth + 1, products = depth * (depth + 3) / 2 + 1;
static_assert(products <= most_partials, "too many products");

// z of low sweeps, one vector after the other: as many as extrapolation asks for, or two in turn.
struct Sent {
    u8* z;
    u64 bytes;
    u32 vectors;

    CPMS_DEVICE u8* at(u32 place) const { return z + place * bytes; }
};

// What a block knows of the z that are kept. One thread writes it.
struct Past {
    double largest[kept_sweeps], sum[kept_sweeps];  // of r / degree; of r
    int exponent[kept_sweeps];                      // by which z is stored
    bool pays;                                      // whether the last combination left enough less

    CPMS_DEVICE void note(u32 place, const LowState& state, double total) {
        if (threadIdx.x || place >= kept_sweeps) return;
        largest[place] = state.largest;
        sum[place] = total;
        exponent[place] = state.exponent;
    }
};

// In the shared memory that walks have between their sweeps.
struct Combination {
    double to_real[kept_sweeps];             // of stored values, divided by the largest
    float factor[kept_sweeps];               // the same, see `StoredValues`
    double weight[kept_sweeps], g[depth];    // of what is on its way; of what is added to c
    double found[(resident_warps + 1) * products];  // those of all, and of each warp
};

// Adds the products of what a node sent in sweeps one after the other, of which it makes differences.
CPMS_DEVICE void add_products(float (&sent)[kept_sweeps], float (&product)[products]) {
#pragma unroll
    for (int k = 0; k < depth; ++k) sent[k] -= sent[k + 1];
    int at = 0;
#pragma unroll
    for (int k = 0; k < depth; ++k) {
#pragma unroll
        for (int j = 0; j <= k; ++j, ++at) product[at] = fmaf(sent[k], sent[j], product[at]);
    }
#pragma unroll
    for (int k = 0; k < kept_sweeps; ++k, ++at) product[at] = fmaf(sent[k], sent[depth], product[at]);
}

// Whether enough less is left with g than without; see cpms/extrapolation.py.
CPMS_DEVICE bool pays(const double* found, const double* g) {
    const double* const with_last = found + products - kept_sweeps;
    double left = with_last[depth];
    for (int k = 0; k < depth; ++k) left -= g[k] * with_last[k];
    return left < 0.95 * 0.95 * with_last[depth];
}

// g of least squares from the products, by Gauss and Jordan; a lane of the first warp has a column. As
// cpms/extrapolation.py does, but for the order of what is added up.
CPMS_DEVICE void solve(const double* found, double* g) {
    const u32 lane = threadIdx.x % 32, column = smaller(lane, depth);
    double of[depth];
#pragma unroll
    for (u32 i = 0; i < depth; ++i) {
        const u32 low = smaller(i, column), high = i + column - low;
        of[i] = found[column == depth ? depth * (depth + 1) / 2 + i : high * (high + 1) / 2 + low];
        if (i == column) of[i] *= 1.0 + 1e-5;
    }
    bool right = true;
#pragma unroll
    for (u32 k = 0; k < depth; ++k) {
        const double pivot = __shfl_sync(all_lanes, of[k], k), inverse = 1.0 / pivot;
        right = right && pivot > 0.0;
#pragma unroll
        for (u32 i = 0; i < depth; ++i) {
            const double factor = __shfl_sync(all_lanes, of[i], k) * inverse;
            if (i != k) of[i] -= factor * of[k];
        }
        of[k] *= inverse;
    }
#pragma unroll
    for (u32 i = 0; i < depth; ++i) right = right && fabs(__shfl_sync(all_lanes, of[i], depth)) < 1e9;
    if (lane == depth) {
#pragma unroll
        for (u32 i = 0; i < depth; ++i) g[i] = right ? of[i] : 0.0;
    }
}

// Some nodes side by side, of all z that are kept; the first of them is looked at. Looped over, not unrolled: what is
// run every few sweeps alone comes from afar, instruction by instruction.
template <class Q>
struct StoredValues;
template <int E, int M, Rounding rounding>
struct StoredValues<Packed<E, M, rounding>> {
    using Q = Packed<E, M, rounding>;
    static constexpr int width = 1 + E + M, together = 64 / width;
    u64 run[kept_sweeps];

    CPMS_DEVICE StoredValues(const Sent& sent, u32 first) {
#pragma unroll
        for (int place = 0; place < kept_sweeps; ++place) {
            run[place] = load_run_bytes<8>(sent.at(place) + (u64)first * Q::bytes, Default{}).template field<64>(0);
        }
    }
    CPMS_DEVICE void next() {
#pragma unroll
        for (int place = 0; place < kept_sweeps; ++place) run[place] >>= width % 64;
    }
    CPMS_DEVICE u32 word(int place) const { return (u32)(run[place] & ((1ull << width) - 1)); }
    CPMS_DEVICE double value(int place, const Combination& by) const {
        return Raw<Q>::value(word(place)) * by.to_real[place];
    }
    // The bits of a number are those of a float32, but for a power of two, unless its exponent has as many or more.
    static constexpr bool is_single = E < 8 && M <= 23;
    static CPMS_DEVICE float factor(double to_real) {
        return (float)(to_real / Raw<Q>::unit() * value_of((u64)(1023 + 128 - (is_single ? 1 << (E - 1) : 0)) << 52));
    }
    CPMS_DEVICE float about(int place, const Combination& by) const {
        if constexpr (!is_single) return (float)value(place, by);
        const u32 size = (word(place) & (u32)((1ull << (E + M)) - 1)) << (is_single ? 23 - M : 0);
        return single_of(word(place) >> (E + M) << 31 | size) * by.factor[place];
    }
};

// Half of K numbers stay with a lane, as sums of its own and of another's.
template <int K, int N>
CPMS_DEVICE void fold(float (&number)[N], u32 distance) {
    constexpr int half = (K + 1) / 2;
    const bool upper = threadIdx.x & distance;
#pragma unroll
    for (int j = 0; j < half; ++j) {
        const float low = number[j], high = j + half < K ? number[j + half] : 0.0f;
        number[j] = (upper ? high : low) + __shfl_xor_sync(all_lanes, upper ? low : high, distance);
    }
}

// Adds the products of all threads of the grid to `found`, which all then see.
CPMS_DEVICE void add_over_grid(float (&mine)[products], double* found, const Grid& grid) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    double* const of_warps = found + products;
    static_assert(products == 45, "folded otherwise");
    fold<45>(mine, 16);
    fold<23>(mine, 8);
    fold<12>(mine, 4);
    fold<6>(mine, 2);
    fold<3>(mine, 1);
#pragma unroll
    for (u32 j = 0; j < 2; ++j) {
        const u32 of_3 = (lane & 1) * 2 + j, of_12 = (lane >> 2 & 1) * 6 + (lane >> 1 & 1) * 3 + of_3;
        const u32 of_23 = (lane >> 3 & 1) * 12 + of_12, of_45 = (lane >> 4) * 23 + of_23;
        if (of_3 < 3 && of_23 < 23 && of_45 < 45) of_warps[warp * products + of_45] = (double)mine[j];
    }
    __syncthreads();
    const auto add_warps = [&](double* to) {
        if (threadIdx.x >= products) return;
        double total = 0.0;
#pragma unroll 4
        for (u32 w = 0; w < warps; ++w) total += of_warps[w * products + threadIdx.x];
        to[threadIdx.x] = total;
    };
    double* const partials = grid.half();
    add_warps(partials + blockIdx.x * products);
    grid.wait([] {});
    double first = 0.0, second = 0.0;
    const u32 other = smaller(lane + 32, products - 1);
#pragma unroll 4
    for (u32 block = warp; block < gridDim.x; block += warps) {
        first += partials[block * products + lane];
        second += partials[block * products + other];
    }
    of_warps[warp * products + lane] = first;
    if (lane + 32 < products) of_warps[warp * products + other] = second;
    __syncthreads();
    add_warps(found);
    __syncthreads();
}

// Adds the combination to c and makes the first z of what is then on its way. Takes what is in no memory by value.
template <class Q, bool Partial>
CPMS_APART LowState extrapolated(Nodes nodes, Storing storing, Sent sent, Past& past, float* c, Combination& by, u64 seed,
                                 Grid grid) {
    using Values = StoredValues<Q>;
    __syncthreads();
    const double largest = past.largest[0];
    if (threadIdx.x < kept_sweeps) {
        const double to_real = power_of_two(-past.exponent[threadIdx.x]) * Raw<Q>::unit() / largest;
        by.to_real[threadIdx.x] = to_real;
        by.factor[threadIdx.x] = Values::factor(to_real);
    }
    __syncthreads();
    const u32 step = gridDim.x * blockDim.x * Values::together;
    const u32 first = (blockIdx.x * blockDim.x + threadIdx.x) * Values::together;
    {
        float product[products] = {};
        for (u32 i = first; i < nodes.count; i += step) {
            Values z(sent, i);
#pragma unroll 1
            for (int node = 0; node < Values::together; ++node, z.next()) {
                float sent_by[kept_sweeps];
#pragma unroll
                for (int k = 0; k < kept_sweeps; ++k) sent_by[k] = z.about(k, by);
                add_products(sent_by, product);
            }
        }
        add_over_grid(product, by.found, grid);
    }
    if (threadIdx.x < 32) solve(by.found, by.g);
    __syncthreads();
    if (threadIdx.x == 0) {
        double most = 0.0, sum = 0.0;
        past.pays = pays(by.found, by.g);
        for (int k = 0; k < kept_sweeps; ++k) {
            by.weight[k] = (k ? by.g[k - 1] : 0.0) + (k == depth ? 1.0 : -by.g[k]);
            most += fabs(by.weight[k]) * past.largest[k];
            sum += by.weight[k] * past.sum[k];
        }
        past.note(0, LowState{most, 0.0, shared_scale(storing.scaled, storing.top, most)}, sum);
    }
    __syncthreads();
    const double up = power_of_two(past.exponent[0]) * largest, back = power_of_two(-past.exponent[0]) * Raw<Q>::unit();
    Totals<1, 0> stays{{0.0}};
    for (u32 i = first; i < nodes.count; i += step) {
        Values z(sent, i);
#pragma unroll 1
        for (u32 here = i; here < smaller(i + Values::together, nodes.count); ++here, z.next()) {
            const u32 degree = load_word(nodes.degree + here, ReadOnly{});
            const Kept<Partial> kept(nodes, here);
            double left = 0.0, added = 0.0;
#pragma unroll
            for (int k = 0; k < kept_sweeps; ++k) {
                const double value = z.value(k, by);
                left = fma(by.weight[k], value, left);
                if (k) added = fma(by.g[k - 1], value, added);
            }
            c[here] += (float)(largest * added * (degree ? (double)degree : 1.0));
            const double stored = QuantiserOf<Q>::Type::store(sent.z, here, left * up, seed);
            stays.value[0] += (double)kept.of(degree) * stored * back;
        }
    }
    stays.over_grid(grid);
    return LowState{past.largest[0], past.sum[0] - stays.value[0], past.exponent[0]};
}

}  // namespace cpms
