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
    double to_real[kept_sweeps], factor[kept_sweeps];  // of stored values: to what they are, and to parts of the largest
    double weight[kept_sweeps], g[depth];              // of what is on its way; of what is added to c
    double matrix[depth][depth];
    double found[products * resident_warps];

    // As cpms/extrapolation.py does; the inverses of the diagonal take its place.
    CPMS_DEVICE void solve() {
        bool right = true;
        int at = 0;
        for (int i = 0; i < depth; ++i) {
            for (int j = 0; j <= i; ++j) {
                double total = found[at++];
                if (i == j) total *= 1.0 + 1e-6;
                for (int k = 0; k < j; ++k) total -= matrix[i][k] * matrix[j][k];
                right = right && (i > j || total > 0.0);
                matrix[i][j] = i > j ? total * matrix[j][j] : 1.0 / sqrt(total);
            }
        }
        for (int i = 0; i < depth; ++i) {
            double total = found[at + i];
            for (int k = 0; k < i; ++k) total -= matrix[i][k] * g[k];
            g[i] = total * matrix[i][i];
        }
        for (int i = depth - 1; i >= 0; --i) {
            double total = g[i];
            for (int k = i + 1; k < depth; ++k) total -= matrix[k][i] * g[k];
            g[i] = total * matrix[i][i];
            right = right && fabs(g[i]) < 1e9;
        }
        for (int i = 0; i < depth; ++i) g[i] = right ? g[i] : 0.0;
    }
};

template <class Q>
struct StoredValues {
    using Word = typename Raw<Q>::Word;
    Word word[kept_sweeps];

    CPMS_DEVICE StoredValues(const Sent& sent, u32 i) {
#pragma unroll
        for (int place = 0; place < kept_sweeps; ++place) word[place] = ((const Word*)sent.at(place))[i];
    }
    CPMS_DEVICE double operator[](int place) const { return Raw<Q>::value((u32)word[place]); }
};

// Adds numbers of all threads of the grid to `found`, which all then see.
template <int K>
CPMS_DEVICE void add_over_grid(const float (&mine)[K], double* found, const Grid& grid) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
#pragma unroll
    for (int q = 0; q < K; ++q) {
        const double of_warp = over_warp((double)mine[q], Add{});
        if (lane == 0) found[q * warps + warp] = of_warp;
    }
    __syncthreads();
    double* const partials = grid.half();
    if (threadIdx.x < K) {
        double total = 0.0;
        for (u32 w = 0; w < warps; ++w) total += found[threadIdx.x * warps + w];
        partials[threadIdx.x * gridDim.x + blockIdx.x] = total;
    }
    grid.wait([] {});
    for (u32 q = warp; q < K; q += warps) {
        double total = 0.0;
        for (u32 block = lane; block < gridDim.x; block += 32) total += partials[q * gridDim.x + block];
        total = over_warp(total, Add{});
        if (lane == 0) found[q] = total;
    }
    __syncthreads();
}

// Adds the combination to c and makes the first z of what is then on its way.
template <class Q, bool Partial>
CPMS_DEVICE LowState extrapolated(const Nodes& nodes, const Storing& storing, const Sent& sent, Past& past, float* c,
                                  Combination& by, u64 seed, const Grid& grid) {
    if (threadIdx.x < kept_sweeps) {
        by.to_real[threadIdx.x] = power_of_two(-past.exponent[threadIdx.x]) * Raw<Q>::unit();
        by.factor[threadIdx.x] = by.to_real[threadIdx.x] / past.largest[0];
    }
    __syncthreads();
    const u32 threads = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
    {
        float product[products] = {};
        for (u32 i = first; i < nodes.count; i += threads) {
            const StoredValues<Q> z(sent, i);
            float difference[kept_sweeps];
#pragma unroll
            for (int k = 0; k < kept_sweeps; ++k) difference[k] = (float)(z[k] * by.factor[k]);
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
        add_over_grid(product, by.found, grid);
    }
    if (threadIdx.x == 0) {
        by.solve();
        double largest = 0.0, sum = 0.0;
        for (int k = 0; k < kept_sweeps; ++k) {
            by.weight[k] = (k == depth ? 1.0 : -by.g[k]) + (k ? by.g[k - 1] : 0.0);
            largest += fabs(by.weight[k]) * past.largest[k];
            sum += by.weight[k] * past.sum[k];
        }
        past.note(0, LowState{largest, 0.0, shared_scale(storing.scaled, storing.top, largest)}, sum);
    }
    __syncthreads();
    const double up = power_of_two(past.exponent[0]), back = power_of_two(-past.exponent[0]) * Raw<Q>::unit();
    Totals<1, 0> stays{{0.0}};
    for (u32 i = first; i < nodes.count; i += threads) {
        const StoredValues<Q> z(sent, i);
        const u32 degree = load_word(nodes.degree + i, ReadOnly{});
        const Kept<Partial> kept(nodes, i);
        double left = 0.0, added = 0.0;
#pragma unroll
        for (int k = 0; k < kept_sweeps; ++k) {
            const double real = z[k] * by.to_real[k];
            left += by.weight[k] * real;
            if (k) added += by.g[k - 1] * real;
        }
        c[i] += (float)(added * (degree ? (double)degree : 1.0));
        const double stored = QuantiserOf<Q>::Type::store(sent.z, i, left * up, seed);
        stays.value[0] += (double)kept.of(degree) * stored * back;
    }
    stays.over_grid(grid);
    return LowState{past.largest[0], past.sum[0] - stays.value[0], past.exponent[0]};
}

}  // namespace cpms
