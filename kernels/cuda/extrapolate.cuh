// Every few low sweeps, of what these found, the combination that leaves the least; cpms/extrapolation.py says why.
#pragma once
#include "rounds.cuh"

namespace cpms {

constexpr int depth = 8, kept_sweeps = depth + 1, products = depth * (depth + 3) / 2;
static_assert(products <= most_partials, "too many products");

// z of low sweeps, one vector after the other: as many as extrapolation asks for, or two in turn.
struct Sent {
    u8* z;
    u64 bytes;
    u32 vectors;

    CPMS_DEVICE u8* at(u32 place) const { return z + place * bytes; }
    CPMS_DEVICE u32 behind(u32 place) const { return place + 1 < vectors ? place + 1 : 0; }
    CPMS_DEVICE bool full(u32 place) const { return vectors == kept_sweeps && place == depth; }
};

// What a block knows of the z that are kept. One thread writes it.
struct Past {
    double largest[kept_sweeps], sum[kept_sweeps];  // of r / degree; of r
    int exponent[kept_sweeps];                      // by which z is stored

    CPMS_DEVICE void note(u32 place, const LowState& state, double total) {
        if (threadIdx.x) return;
        largest[place] = state.largest;
        sum[place] = total;
        exponent[place] = state.exponent;
    }
};

// In the shared memory that walks have between their sweeps.
struct Combination {
    double to_real[kept_sweeps];                       // of stored values, divided by the largest
    float factor[kept_sweeps];                         // the same of what `StoredValues` make of them
    float weight[kept_sweeps], added[kept_sweeps];     // of what is on its way; of what is added to c
    double g[depth];
    double found[(resident_warps + 1) * products];  // those of all, and of each warp
};

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

// Some nodes side by side, of all z that are kept.
template <class Q>
struct StoredValues;
template <int E, int M, Rounding rounding>
struct StoredValues<Packed<E, M, rounding>> {
    using Q = Packed<E, M, rounding>;
    static constexpr int width = 1 + E + M, together = 64 / width;
    Run<8> run[kept_sweeps];

    CPMS_DEVICE StoredValues(const Sent& sent, u32 first) {
#pragma unroll
        for (int place = 0; place < kept_sweeps; ++place) {
            run[place] = load_run_bytes<8>(sent.at(place) + (u64)first * Q::bytes, Default{});
        }
    }
    // The bits of a number are those of a float32, but for a power of two, unless its exponent has more of them.
    static CPMS_DEVICE float factor(double to_real) {
        return (float)(E > 8 ? to_real : to_real / Raw<Q>::unit() * value_of((u64)(1023 + 128 - (1 << (E - 1))) << 52));
    }
    CPMS_DEVICE float value(int place, int k, const Combination& by) const {
        const u32 word = (u32)run[place].template field<width>(k);
        if constexpr (E > 8) return (float)(Raw<Q>::value(word) * by.to_real[place]);
        constexpr int left = M < 23 ? 23 - M : 0, right = M > 23 ? M - 23 : 0;
        const u32 size = (word & (u32)((1ull << (E + M)) - 1)) << left >> right;
        return single_of(word >> (E + M) << 31 | size) * by.factor[place];
    }
};

// Adds numbers of all threads of the grid to `found`, which all then see.
template <int K>
CPMS_DEVICE void add_over_grid(const float (&mine)[K], double* found, const Grid& grid) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    double* const of_warps = found + K;
#pragma unroll
    for (int q = 0; q < K; ++q) {
        float of_warp = mine[q];
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) of_warp += __shfl_xor_sync(all_lanes, of_warp, distance);
        if (lane == 0) of_warps[warp * K + q] = (double)of_warp;
    }
    __syncthreads();
    const auto add_warps = [&](double* to) {
        if (threadIdx.x >= K) return;
        double total = 0.0;
#pragma unroll 4
        for (u32 w = 0; w < warps; ++w) total += of_warps[w * K + threadIdx.x];
        to[threadIdx.x] = total;
    };
    double* const partials = grid.half();
    add_warps(partials + blockIdx.x * K);
    grid.wait([] {});
    for (u32 q = lane; q < K; q += 32) {
        double total = 0.0;
#pragma unroll 4
        for (u32 block = warp; block < gridDim.x; block += warps) total += partials[block * K + q];
        of_warps[warp * K + q] = total;
    }
    __syncthreads();
    add_warps(found);
    __syncthreads();
}

// Adds the combination to c and makes the first z of what is then on its way.
template <class Q, bool Partial>
CPMS_DEVICE LowState extrapolated(const Nodes& nodes, const Storing& storing, const Sent& sent, Past& past, float* c,
                                  Combination& by, u64 seed, const Grid& grid) {
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
            const Values z(sent, i);
#pragma unroll
            for (int node = 0; node < Values::together; ++node) {
                float difference[kept_sweeps];
#pragma unroll
                for (int k = 0; k < kept_sweeps; ++k) difference[k] = z.value(k, node, by);
#pragma unroll
                for (int k = 0; k < depth; ++k) difference[k] -= difference[k + 1];
                int at = 0;
#pragma unroll
                for (int k = 0; k < depth; ++k) {
#pragma unroll
                    for (int j = 0; j <= k; ++j, ++at) product[at] = fmaf(difference[k], difference[j], product[at]);
                }
#pragma unroll
                for (int k = 0; k < depth; ++k, ++at) product[at] = fmaf(difference[k], difference[depth], product[at]);
            }
        }
        add_over_grid(product, by.found, grid);
    }
    if (threadIdx.x < 32) solve(by.found, by.g);
    __syncthreads();
    if (threadIdx.x == 0) {
        double most = 0.0, sum = 0.0;
        for (int k = 0; k < kept_sweeps; ++k) {
            const double added = k ? by.g[k - 1] : 0.0, weight = added + (k == depth ? 1.0 : -by.g[k]);
            by.weight[k] = (float)weight;
            by.added[k] = (float)added;
            most += fabs(weight) * past.largest[k];
            sum += weight * past.sum[k];
        }
        past.note(0, LowState{most, 0.0, shared_scale(storing.scaled, storing.top, most)}, sum);
    }
    __syncthreads();
    const double up = power_of_two(past.exponent[0]) * largest, back = power_of_two(-past.exponent[0]) * Raw<Q>::unit();
    Totals<1, 0> stays{{0.0}};
    for (u32 i = first; i < nodes.count; i += step) {
        const Values z(sent, i);
#pragma unroll
        for (int node = 0; node < Values::together; ++node) {
            const u32 here = i + node;
            if (here >= nodes.count) break;
            const u32 degree = load_word(nodes.degree + here, ReadOnly{});
            const Kept<Partial> kept(nodes, here);
            float left = 0.0f, added = 0.0f;
#pragma unroll
            for (int k = 0; k < kept_sweeps; ++k) {
                const float value = z.value(k, node, by);
                left = fmaf(by.weight[k], value, left);
                if (k) added = fmaf(by.added[k], value, added);
            }
            c[here] += (float)largest * added * (degree ? (float)degree : 1.0f);
            const double stored = QuantiserOf<Q>::Type::store(sent.z, here, (double)left * up, seed);
            stays.value[0] += (double)kept.of(degree) * stored * back;
        }
    }
    stays.over_grid(grid);
    return LowState{past.largest[0], past.sum[0] - stays.value[0], past.exponent[0]};
}

}  // namespace cpms
