// What low sweeps sent, added to x some sweeps at a time: they write z alone.
#pragma once
#include "pagerank/anderson.cuh"

namespace cpms {

constexpr u32 max_deferred = 17;

// What is sent and not in x yet: z of places `first` to `last`.
struct DeferredUpdate {
    int exponent[max_deferred];   // by which z is stored
    double weight[max_deferred];  // of stored values
    u32 first, last;

    template <class Q>
    CPMS_DEVICE void prepare(u32 last_place) {
        __syncthreads();
        if (threadIdx.x == 0) last = last_place;
        const u32 k = threadIdx.x;
        if (k <= last_place) weight[k] = (double)HistoryValues<Q>::to_real(exponent[k], 1.0);
        __syncwarp();
        __syncthreads();
    }
};

// One of some values side by side, as stored.
template <class Q>
CPMS_DEVICE double stored_value(const Run<8>& values, int node) {
    const u32 word = (u32)values.template field<HistoryValues<Q>::width>(node);
    if constexpr (HistoryValues<Q>::in_float32) return (double)Float32View<Q>::value(word);
    return WideningLoad<Q>::value(word);
}

// Adds to x what was sent, and at the `end` of a round what is left, too, if nodes keep that; returns x's mass then, and
// what of it no edge carries. Before that the last z, which is yet to be read, becomes the first.
template <class Q, bool Core, bool is_final>
CPMS_NOINLINE GridReduce<2, 0> apply_deferred(Nodes nodes, SentHistory history, const DeferredUpdate& deferred,
                                              double* contributions, const double* rounding_error) {
    constexpr int together = HistoryValues<Q>::together;
    constexpr u32 strips = together > 4 ? 1 : 2;  // on their way at a time
    GridReduce<2, 0> found{{0.0, 0.0}};
    const u32 stride = gridDim.x * blockDim.x * together, first = deferred.first, last = deferred.last;
    for (u32 base = (blockIdx.x * blockDim.x + threadIdx.x) * together; base < nodes.count; base += strips * stride) {
        u32 at[strips];
        DoubleRun<together> contribution[strips];
        Run<8> sent[strips]{};
#pragma unroll
        for (u32 s = 0; s < strips; ++s) {
            at[s] = base + s * stride < nodes.count ? base + s * stride : base;
            contribution[s] = DoubleRun<together>(contributions + at[s]);
        }
        if (is_final && rounding_error) {
#pragma unroll
            for (u32 s = 0; s < strips; ++s) {
                const DoubleRun<together> error(rounding_error + at[s]);
#pragma unroll
                for (int node = 0; node < together; ++node) contribution[s].of[node] += error.of[node];
            }
        }
#pragma unroll 4
        for (u32 k = first; k <= last; ++k) {
            const double weight = deferred.weight[k];
#pragma unroll
            for (u32 s = 0; s < strips; ++s)
                sent[s] = load_run_bytes<8>(history.at(k) + (u64)at[s] * Q::bytes, Default{});
#pragma unroll
            for (u32 s = 0; s < strips; ++s) {
#pragma unroll
                for (int node = 0; node < together; ++node) {
                    contribution[s].of[node] = fma(weight, stored_value<Q>(sent[s], node), contribution[s].of[node]);
                }
            }
        }
#pragma unroll
        for (u32 s = 0; s < strips; ++s) {
            const u32 i = base + s * stride;
            if (i >= nodes.count) break;
            if constexpr (is_final) {
                const auto degree = load_words<together>(nodes.degree, i, nodes.count);
#pragma unroll
                for (int node = 0; node < together; ++node) {
                    double& of = contribution[s].of[node];
                    of = of < 0.0 ? 0.0 : of;  // rounding left less
                    if (i + node < nodes.count) {
                        const u32 edges = degree.word[node];
                        found.value[0] += of * (edges ? edges : 1);
                        found.value[1] += edges ? ExternalFlow<Core>(nodes, i + node).lost_flow(edges, of) : of;
                    }
                }
            } else {
                store_run_bytes(history.at(0) + (u64)i * Q::bytes, sent[s]);
            }
            contribution[s].store(contributions + i);
        }
    }
    return found;
}

}  // namespace cpms
