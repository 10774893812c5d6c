// Every few low sweeps, of what these found, the combination that leaves the least; cpms/extrapolation.py says why.
#pragma once
#include "pagerank/anderson_products.cuh"

namespace cpms {

// Adds to c, where sweeps add up what they find, what some nodes sent.
template <int Together, class Real>
CPMS_DEVICE void add_sent(float* c, u32 i, const Run<4 * Together>& degree, const Real (&share)[Together]) {
    auto sum = load_run_bytes<4 * Together>((const u8*)(c + i), Default{});
#pragma unroll
    for (int node = 0; node < Together; ++node) {
        const Real more = share[node] * (Real)(degree.word[node] ? degree.word[node] : 1);
        sum.word[node] = bits_of_single(single_of(sum.word[node]) + (float)more);
    }
    store_run_bytes((u8*)(c + i), sum);
}
// Else to x.
template <int Together, class Real>
CPMS_DEVICE void add_sent(double* shares, u32 i, const Run<4 * Together>&, const Real (&share)[Together]) {
    Doubles<Together> sum(shares + i);
#pragma unroll
    for (int node = 0; node < Together; ++node) sum.of[node] += share[node];
    sum.store(shares + i);
}

// Adds the combination to c, or with all that was sent to the shares of x, and makes the first z of what is then on its way,
// by the products in `by.found`, after `weigh`.
template <class Q, bool Partial, class Places, class Sum>
CPMS_APART LowState combined(Nodes nodes, Storing storing, Places sent, Past& past, Sum* to,
                             Combination<typename StoredValues<Q>::Real>& by, u64 seed, Grid grid) {
    using Values = StoredValues<Q>;
    using Real = typename Values::Real;
    using Stored = typename QuantiserOf<Q>::Type;
    constexpr int together = Values::together, width = Values::width;
    constexpr double unsettled = sizeof(Sum) == sizeof(double) ? 1.0 : 0.0;
    const double largest = past.largest[0];
    const u32 step = gridDim.x * blockDim.x * together, first = (blockIdx.x * blockDim.x + threadIdx.x) * together;
    if (threadIdx.x < 32) solve(by.found, by.g);
    __syncthreads();
    if (threadIdx.x == 0) {
        double most = 0.0, sum = 0.0;
        past.pays = pays(by.found, by.g);
        for (int k = 0; k < kept_sweeps; ++k) {
            const double weight = sent_weight(by.g, k);
            most += fabs(weight) * past.largest[k];
            sum += weight * past.sum[k];
            by.in_next[k] = (Real)(weight * (double)by.to_real[k]);
            by.in_x[k] = (Real)((k ? by.g[k - 1] + unsettled : 0.0) * (double)by.to_real[k]);
        }
        past.note(0, LowState{most, 0.0, shared_scale(storing.scaled, storing.top, most)}, sum);
    }
    __syncthreads();
    const Real up = (Real)(power_of_two(past.exponent[0]) * largest), all = (Real)largest;
    const double back = power_of_two(-past.exponent[0]) * Raw<Q>::unit();
    Totals<1, 0> stays{{0.0}};
    // Backwards: of what was read last, caches have the most.
    const u32 last = first < nodes.count ? first + (nodes.count - 1 - first) / step * step : nodes.count;
    for (u32 i = last; i < nodes.count; i -= step) {
        const Values z(sent, i);
        const auto degree = words_of<together>(nodes.degree, i, nodes.count);
        auto kept = degree;
        if constexpr (Partial) kept = words_of<together>(nodes.kept, i, nodes.count);
        Real left[together] = {}, added[together] = {};
#pragma unroll
        for (int k = 0; k < kept_sweeps; ++k) {
            const Real in_next = by.in_next[k], in_x = by.in_x[k];
#pragma unroll
            for (int node = 0; node < together; ++node) {
                const Real value = z.value(k, node);
                left[node] = fma(in_next, value, left[node]);
                if (k) added[node] = fma(in_x, value, added[node]);
            }
        }
        Run<8> stored{};
#pragma unroll
        for (int node = 0; node < together; ++node) {
            added[node] *= all;
            const u32 word = Stored::packed(left[node] * up, seed, i + node);
            stored.template put<width>(node, word);
            stays.value[0] += exactly(kept.word[node]) * Raw<Q>::value(word) * back;
        }
        add_sent(to, i, degree, added);
        store_run_bytes(sent.at(0) + (u64)i * Q::bytes, stored);
    }
    stays.over_grid(grid);
    return LowState{past.largest[0], past.sum[0] - stays.value[0], past.exponent[0]};
}

// Both, of one device that has all.
template <class Q, bool Partial, bool halves, class Sum>
CPMS_DEVICE LowState extrapolated(const Nodes& nodes, const Storing& storing, const Sent& sent, Past& past, Sum* to,
                                  Combination<typename StoredValues<Q>::Real>& by, u64 seed, const Grid& grid) {
    find_products<Q, halves>(nodes.count, sent, past, by, grid);
    return combined<Q, Partial>(nodes, storing, sent, past, to, by, seed, grid);
}

}  // namespace cpms
