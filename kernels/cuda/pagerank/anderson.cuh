// Alternating Anderson acceleration of inner sweeps (Anderson, 1965; periodic as in Pratapa, Suryanarayana and Pask,
// 2016): every eight sweeps, the linear combination of the last sweeps' quantised residuals with the least residual
// replaces the current one.
//
// The vectors combined are those that sweeps have sent anyway, in few bits, so that acceleration keeps no copies. One
// combination costs two passes over these vectors and one over the iterate; cpms/precision/anderson.py derives it.
#pragma once
#include "pagerank/anderson_products.cuh"

namespace cpms {

// Adds the combination to the correction, where inner sweeps accumulate it.
template <int Together, class Real>
CPMS_DEVICE void add_combination(float* correction, u32 i, const Run<4 * Together>& degree,
                                 const Real (&contribution)[Together]) {
    auto sum = load_run_bytes<4 * Together>((const u8*)(correction + i), Default{});
#pragma unroll
    for (int node = 0; node < Together; ++node) {
        const Real more = contribution[node] * (Real)(degree.word[node] ? degree.word[node] : 1);
        sum.word[node] = bits_of_single(single_of(sum.word[node]) + (float)more);
    }
    store_run_bytes((u8*)(correction + i), sum);
}
// Adds the combination to the iterate, where the update is deferred.
template <int Together, class Real>
CPMS_DEVICE void add_combination(double* contributions, u32 i, const Run<4 * Together>&,
                                 const Real (&contribution)[Together]) {
    DoubleRun<Together> sum(contributions + i);
#pragma unroll
    for (int node = 0; node < Together; ++node) sum.of[node] += contribution[node];
    sum.store(contributions + i);
}

// Adds the combination to the correction, which contains the vectors 1 to 8 already, or the combination and these
// vectors to the iterate, and stores the next quantised residual as vector 0. `work` holds the products;
// prepare_scales has run.
template <class Q, bool Core, class History, class Target>
CPMS_NOINLINE InnerState combine_history(Nodes nodes, QuantiserSettings settings, History sent_history,
                                         AndersonHistory& history, Target* target,
                                         AndersonWorkspace<typename HistoryValues<Q>::Real>& work, u64 seed,
                                         Grid grid) {
    using Values = HistoryValues<Q>;
    using Real = typename Values::Real;
    using Stored = typename QuantiserOf<Q>::Type;
    constexpr int together = Values::together, width = Values::width;
    constexpr double deferred_weight = sizeof(Target) == sizeof(double) ? 1.0 : 0.0;
    const double largest = history.largest[0];
    const u32 stride = gridDim.x * blockDim.x * together, first = (blockIdx.x * blockDim.x + threadIdx.x) * together;
    if (threadIdx.x < 32) solve_least_squares(work.products_found, work.g);
    __syncthreads();
    if (threadIdx.x == 0) {
        double largest_next = 0.0, sum = 0.0;
        history.worthwhile = is_worthwhile(work.products_found, work.g);
        for (int k = 0; k < history_length; ++k) {
            const double weight = next_weight(work.g, k);
            largest_next += fabs(weight) * history.largest[k];
            sum += weight * history.sum[k];
            work.in_next[k] = (Real)(weight * (double)work.to_real[k]);
            work.in_x[k] = (Real)((k ? work.g[k - 1] + deferred_weight : 0.0) * (double)work.to_real[k]);
        }
        history.record(0, InnerState{largest_next, 0.0, shared_exponent(settings.scaled, settings.top, largest_next)},
                       sum);
    }
    __syncthreads();
    const Real scale = (Real)(power_of_two(history.exponent[0]) * largest), largest_value = (Real)largest;
    const double unscale = power_of_two(-history.exponent[0]) * WideningLoad<Q>::unit();
    GridReduce<1, 0> carried{{0.0}};  // mass that edges carry of the next residual
    // In reverse order: the data read last are most likely in caches. Below `first`, i wraps, and the loop ends.
    const u32 last = first < nodes.count ? first + (nodes.count - 1 - first) / stride * stride : nodes.count;
    for (u32 i = last; i < nodes.count; i -= stride) {
        const Values values(sent_history, i);
        const auto degree = load_words<together>(nodes.degree, i, nodes.count);
        auto internal_degree = degree;
        if constexpr (Core) internal_degree = load_words<together>(nodes.internal_degree, i, nodes.count);
        Real next[together] = {}, update[together] = {};
#pragma unroll
        for (int k = 0; k < history_length; ++k) {
            const Real in_next = work.in_next[k], in_x = work.in_x[k];
#pragma unroll
            for (int node = 0; node < together; ++node) {
                const Real value = values.value(k, node);
                next[node] = fma(in_next, value, next[node]);
                if (k) update[node] = fma(in_x, value, update[node]);
            }
        }
        Run<8> stored{};
#pragma unroll
        for (int node = 0; node < together; ++node) {
            update[node] *= largest_value;
            const u32 word = Stored::packed(next[node] * scale, seed, i + node);
            stored.template put<width>(node, word);
            carried.value[0] += exactly(internal_degree.word[node]) * WideningLoad<Q>::value(word) * unscale;
        }
        add_combination(target, i, degree, update);
        store_run_bytes(sent_history.at(0) + (u64)i * Q::bytes, stored);
    }
    carried.all_reduce(grid);
    return InnerState{history.largest[0], history.sum[0] - carried.value[0], history.exponent[0]};
}

// Products and combination. `over_ranks` adds up the products of several devices.
template <class Q, bool Core, bool halves, class Target, class OverRanks>
CPMS_DEVICE InnerState anderson_step(const Nodes& nodes, const QuantiserSettings& settings,
                                     const SentHistory& sent_history, AndersonHistory& history, Target* target,
                                     AndersonWorkspace<typename HistoryValues<Q>::Real>& work, u64 seed,
                                     const Grid& grid, OverRanks over_ranks) {
    compute_products<Q, halves>(nodes.count, sent_history, history, work, grid);
    over_ranks(work.products_found);
    return combine_history<Q, Core>(nodes, settings, sent_history, history, target, work, seed, grid);
}

}  // namespace cpms
