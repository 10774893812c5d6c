// What low sweeps sent, added to x some sweeps at a time: they write z alone.
#pragma once
#include "pagerank/anderson.cuh"

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
    constexpr u32 strips = together > 4 ? 1 : 2;  // on their way at a time
    Totals<2, 0> found{{0.0, 0.0}};
    const u32 step = gridDim.x * blockDim.x * together, first = by.first, last = by.last;
    for (u32 base = (blockIdx.x * blockDim.x + threadIdx.x) * together; base < nodes.count; base += strips * step) {
        u32 at[strips];
        Doubles<together> share[strips];
        Run<8> z[strips]{};
#pragma unroll
        for (u32 s = 0; s < strips; ++s) {
            at[s] = base + s * step < nodes.count ? base + s * step : base;
            share[s] = Doubles<together>(shares + at[s]);
        }
        if (end && left) {
#pragma unroll
            for (u32 s = 0; s < strips; ++s) {
                const Doubles<together> rest(left + at[s]);
#pragma unroll
                for (int node = 0; node < together; ++node) share[s].of[node] += rest.of[node];
            }
        }
#pragma unroll 4
        for (u32 k = first; k <= last; ++k) {
            const double weight = by.weight[k];
#pragma unroll
            for (u32 s = 0; s < strips; ++s) z[s] = load_run_bytes<8>(sent.at(k) + (u64)at[s] * Q::bytes, Default{});
#pragma unroll
            for (u32 s = 0; s < strips; ++s) {
#pragma unroll
                for (int node = 0; node < together; ++node) {
                    share[s].of[node] = fma(weight, stored_value<Q>(z[s], node), share[s].of[node]);
                }
            }
        }
#pragma unroll
        for (u32 s = 0; s < strips; ++s) {
            const u32 i = base + s * step;
            if (i >= nodes.count) break;
            if constexpr (end) {
                const auto degree = words_of<together>(nodes.degree, i, nodes.count);
#pragma unroll
                for (int node = 0; node < together; ++node) {
                    double& of = share[s].of[node];
                    of = of < 0.0 ? 0.0 : of;  // rounding left less
                    if (i + node < nodes.count) {
                        const u32 edges = degree.word[node];
                        found.value[0] += of * (edges ? edges : 1);
                        found.value[1] += edges ? Kept<Partial>(nodes, i + node).leaves(edges, of) : of;
                    }
                }
            } else {
                store_run_bytes(sent.at(0) + (u64)i * Q::bytes, z[s]);
            }
            share[s].store(shares + i);
        }
    }
    return found;
}

}  // namespace cpms
