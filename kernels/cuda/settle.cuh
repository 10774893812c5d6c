// What low sweeps sent, added to x some sweeps at a time: they write z alone.
#pragma once
#include "extrapolate.cuh"

namespace cpms {

constexpr u32 most_unsettled = 17;

// What is sent and not in x yet: z of places `first` to `last`.
struct Unsettled {
    int exponent[most_unsettled];   // by which z is stored
    double weight[most_unsettled];  // of stored values
    u32 first, last;

    template <class Q>
    CPMS_DEVICE void weigh(u32 place) {
        __syncthreads();
        if (threadIdx.x == 0) last = place;
        const u32 k = threadIdx.x;
        if (k <= place) weight[k] = (double)StoredValues<Q>::to_real(exponent[k], 1.0);
        __syncwarp();
        __syncthreads();
    }
};

// One of some values side by side, as stored.
template <class Q>
CPMS_DEVICE double stored_value(const Run<8>& values, int node) {
    const u32 word = (u32)values.template field<StoredValues<Q>::width>(node);
    if constexpr (StoredValues<Q>::in_float32) return (double)Narrow<Q>::value(word);
    return Raw<Q>::value(word);
}

// Adds to x what was sent, and at the `end` of a round what is left, too, if nodes keep that; returns x's mass then, and
// what of it no edge carries. Before that the last z, which is yet to be read, becomes the first.
template <class Q, bool Partial, bool end>
CPMS_APART Totals<2, 0> settled(Nodes nodes, Sent sent, const Unsettled& by, double* shares, const double* left) {
    constexpr int together = StoredValues<Q>::together;
    Totals<2, 0> found{{0.0, 0.0}};
    const u32 step = gridDim.x * blockDim.x * together, first = by.first, last = by.last;
    for (u32 i = (blockIdx.x * blockDim.x + threadIdx.x) * together; i < nodes.count; i += step) {
        double share[together];
#pragma unroll
        for (int node = 0; node < together; ++node) share[node] = shares[i + node] + (end && left ? left[i + node] : 0.0);
        Run<8> z{};
#pragma unroll 4
        for (u32 k = first; k <= last; ++k) {
            z = load_run_bytes<8>(sent.at(k) + (u64)i * Q::bytes, Default{});
            const double weight = by.weight[k];
#pragma unroll
            for (int node = 0; node < together; ++node) share[node] = fma(weight, stored_value<Q>(z, node), share[node]);
        }
#pragma unroll
        for (int node = 0; node < together; ++node) {
            if constexpr (end) {
                share[node] = share[node] < 0.0 ? 0.0 : share[node];  // rounding left less
                if (i + node < nodes.count) {
                    const u32 edges = load_word(nodes.degree + i + node, ReadOnly{});
                    found.value[0] += share[node] * (edges ? edges : 1);
                    found.value[1] += edges ? Kept<Partial>(nodes, i + node).leaves(edges, share[node]) : share[node];
                }
            }
            shares[i + node] = share[node];
        }
        if constexpr (!end) store_run_bytes(sent.at(0) + (u64)i * Q::bytes, z);
    }
    return found;
}

}  // namespace cpms
