// Deferred update of the iterate x. Inner sweeps write the quantised residual and nothing else; every few sweeps one
// pass adds their weighted sum to x.
//
// A 16-bit sweep then moves 3 bytes a node (it writes 2 of z and reads 1 of the degree) in place of 11 (4 more of the
// correction read and 4 written). The pass reads the stored vectors once more, and reads and writes x once.
#pragma once
#include "pagerank/anderson.cuh"

namespace cpms {

constexpr u32 max_deferred = 17;  // 16 sweeps between two updates (deferred_depth), and the vector before them

// The vectors `first` to `last` that were sent and are not in x yet. Vector 0 is in x already, except at the beginning
// of an outer step with error feedback.
struct DeferredUpdate {
    int exponent[max_deferred];   // by which the vector is stored
    double weight[max_deferred];  // of stored values
    u32 first, last;

    // All threads of the block take part; the weights hold for all of them afterwards.
    template <class Q>
    CPMS_DEVICE void prepare(u32 last_place) {
        __syncthreads();
        if (threadIdx.x == 0) last = last_place;
        const u32 k = threadIdx.x;
        if (k <= last_place) weight[k] = (double)HistoryValues<Q>::to_real(exponent[k], 1.0);
        sync_block();
    }
};

// Adds the sent vectors to x, and, at the end of an outer step, the rounding errors that nodes keep. At that end it
// returns this thread's part of the mass of x, and of the mass that no edge carries; the caller sums both over the
// grid. Before the end, the last vector, which the next sweep reads, becomes the first.
template <class Q, bool Core, bool is_final>
CPMS_NOINLINE GridReduce<2, 0> apply_deferred(Nodes nodes, SentHistory history, const DeferredUpdate& deferred,
                                              double* contributions, const double* rounding_error) {
    constexpr int together = HistoryValues<Q>::together;
    constexpr u32 strips = together > 4 ? 1 : 2;  // runs of adjacent nodes that a thread has in flight
    GridReduce<2, 0> found{{0.0, 0.0}};
    const u32 stride = gridDim.x * blockDim.x * together, first = deferred.first, last = deferred.last;
    for (u32 base = (blockIdx.x * blockDim.x + threadIdx.x) * together; base < nodes.count; base += strips * stride) {
        u32 at[strips];
        DoubleRun<together> contribution[strips];
        Run<8> sent[strips]{};
#pragma unroll
        for (u32 s = 0; s < strips; ++s) {
            at[s] = base + s * stride < nodes.count ? base + s * stride : base;  // past the end, the first strip again
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
                    const double value = HistoryValues<Q>::value_of_run(sent[s], node);
                    contribution[s].of[node] = fma(weight, value, contribution[s].of[node]);
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
                    of = of < 0.0 ? 0.0 : of;  // rounding may leave a negative value
                    if (i + node < nodes.count) {
                        const u32 edges = degree.word[node];
                        found.value[0] += of * (edges ? edges : 1);
                        found.value[1] += edges ? ExternalFlow<Core>(nodes, i + node).lost_flow(edges, of) : of;
                    }
                }
            } else {
                store_run_bytes(history.at(0) + (u64)i * Q::bytes, sent[s]);  // the last one read, vector `last`
            }
            contribution[s].store(contributions + i);
        }
    }
    return found;
}

}  // namespace cpms
