// The least-squares problem of Anderson acceleration: scalar products of the differences of sweeps' quantised
// residuals, summed over the grid, and the solution of the normal equations.
//
// History vectors have few bits, and their products are accumulated in float32 by each thread and in float64 across
// threads; the rounding of history vectors is larger than that error. It costs one pass over nine vectors.
#pragma once
#include "base/float32_view.cuh"
#include "pagerank/node_passes.cuh"

namespace cpms {

constexpr int anderson_depth = 8, history_length = anderson_depth + 1,
              product_count = anderson_depth * (anderson_depth + 3) / 2 + 1;
static_assert(product_count <= max_partials, "too many products");
// Where a thread lacks the registers for all products, half of a block's warps compute those of the first sweeps and
// the other half the rest.
constexpr int early_sweeps = 6, early_product_count = early_sweeps * (early_sweeps + 1) / 2,
              late_product_count = product_count - early_product_count;
static_assert(early_product_count <= late_product_count, "no halves");

// The quantised residuals of inner sweeps, one vector after another. `vectors` of them take part in a combination;
// with two vectors there is no acceleration, and accumulating sweeps use them in turn.
struct SentHistory {
    u8* stored;   // zeros follow the nodes of each vector
    u64 bytes;    // of one vector
    u32 vectors;  // 2 or history_length

    CPMS_DEVICE u8* at(u32 place) const { return stored + place * bytes; }
};

// What a block knows of the history vectors. One thread writes it.
struct AndersonHistory {
    double largest[history_length], sum[history_length];  // of |r / degree|; of r
    int exponent[history_length];                         // the vector is stored times 2^exponent
    bool worthwhile;                                      // whether the last combination reduced the residual enough

    CPMS_DEVICE void record(u32 place, const InnerState& state, double total) {
        if (threadIdx.x || place >= history_length) return;
        largest[place] = state.largest;
        sum[place] = total;
        exponent[place] = state.exponent;
    }
};

// Shared memory of a combination, in the buffers that are free between sweeps.
template <class Real>
struct AndersonWorkspace {
    Real to_real[history_length];  // of stored values, divided by the largest value
    // to_real times the weight of a vector in the next residual, and in the iterate
    Real in_next[history_length], in_x[history_length];
    double g[anderson_depth];
    double products_found[(persistent_warps + 1) * product_count];  // over the grid, and of each warp
};

// Replaces a node's history values by their differences and adds the products of sweeps `begin` to `end`, each with
// itself and those before it.
template <int begin, int end, int N>
CPMS_DEVICE void add_products(float (&sent)[history_length], float (&product)[N]) {
#pragma unroll
    for (int k = 0; k < anderson_depth; ++k) sent[k] -= sent[k + 1];
    int at = 0;
#pragma unroll
    for (int k = begin; k < end; ++k) {
#pragma unroll
        for (int j = 0; j <= k; ++j, ++at) product[at] = fmaf(sent[k], sent[j], product[at]);
    }
}

// Whether the combination with weights g reduces the residual enough; see cpms/precision/anderson.py.
CPMS_DEVICE bool is_worthwhile(const double* products_found, const double* g) {
    const double* const with_last = products_found + product_count - history_length;
    double remaining = with_last[anderson_depth];
    for (int k = 0; k < anderson_depth; ++k) remaining -= g[k] * with_last[k];
    return remaining < 0.95 * 0.95 * with_last[anderson_depth];
}

// The weight of history vector k in the next residual, which contains the last vector with weight 1. In the iterate
// the weight is g[k - 1], plus 1 where sweeps have not accumulated it.
CPMS_DEVICE double next_weight(const double* g, int k) {
    return (k ? g[k - 1] : 0.0) + (k == anderson_depth ? 1.0 : -g[k]);
}

// Least-squares weights g from the products, by Gauss-Jordan elimination with a slightly larger diagonal; one warp does
// it, a lane a column, and the next lane has the right-hand side. Without positive pivots, or with very large weights,
// all weights are 0. The reference is cpms/precision/anderson.py, up to the order of additions.
CPMS_DEVICE void solve_least_squares(const double* products_found, double* g) {
    const u32 lane = threadIdx.x % 32, column = smaller(lane, anderson_depth);
    double of[anderson_depth];
#pragma unroll
    for (u32 i = 0; i < anderson_depth; ++i) {
        const u32 low = smaller(i, column), high = i + column - low;
        of[i] = products_found[column == anderson_depth ? anderson_depth * (anderson_depth + 1) / 2 + i
                                                        : high * (high + 1) / 2 + low];
        if (i == column) of[i] *= 1.0 + 1e-5;
    }
    bool right = true;
#pragma unroll
    for (u32 k = 0; k < anderson_depth; ++k) {
        const double pivot = __shfl_sync(all_lanes, of[k], k), inverse = 1.0 / pivot;
        right = right && pivot > 0.0;
#pragma unroll
        for (u32 i = 0; i < anderson_depth; ++i) {
            const double factor = __shfl_sync(all_lanes, of[i], k) * inverse;
            if (i != k) of[i] -= factor * of[k];
        }
        of[k] *= inverse;
    }
#pragma unroll
    for (u32 i = 0; i < anderson_depth; ++i) right = right && fabs(__shfl_sync(all_lanes, of[i], anderson_depth)) < 1e9;
    if (lane == anderson_depth) {
#pragma unroll
        for (u32 i = 0; i < anderson_depth; ++i) g[i] = right ? of[i] : 0.0;
    }
}

template <bool In32>
struct RealOf {
    using Type = double;
};
template <>
struct RealOf<true> {
    using Type = float;
};

// The history values of a few adjacent nodes, in float32, or in float64 if the format exceeds float32's range.
template <class Q>
struct HistoryValues;
template <int E, int M, Rounding rounding>
struct HistoryValues<PackedFloat<E, M, rounding>> {
    using Q = PackedFloat<E, M, rounding>;
    static constexpr int width = 1 + E + M, together = 64 / width;
    static constexpr bool in_float32 = Quantiser<E, M, rounding>::scaled_in_float32;
    using Real = typename RealOf<in_float32>::Type;
    Run<8> run[history_length];

    template <class History>
    CPMS_DEVICE HistoryValues(const History& sent, u32 first) {
#pragma unroll
        for (int place = 0; place < history_length; ++place) {
            run[place] = load_run_bytes<8>(sent.at(place) + (u64)first * Q::bytes, Default{});
        }
    }
    static CPMS_DEVICE Real to_real(int exponent, double largest) {
        return (Real)(power_of_two(-exponent) * (in_float32 ? 1.0 : WideningLoad<Q>::unit()) / largest);
    }
    // A node's value as stored, without scale: of a vector, and of a run of its adjacent values.
    CPMS_DEVICE Real value(int place, int node) const { return value_of_run(run[place], node); }
    static CPMS_DEVICE Real value_of_run(const Run<8>& values, int node) {
        const u32 word = (u32)values.template field<width>(node);
        if constexpr (in_float32) return Float32View<Q>::value(word);
        return (Real)WideningLoad<Q>::value(word);
    }
};

// Words of a few adjacent nodes; after the last node, that of the last node.
template <int Together>
CPMS_DEVICE Run<4 * Together> load_words(const u32* words, u32 first, u32 count) {
    if (first + Together <= count) return load_run_bytes<4 * Together>((const u8*)(words + first), ReadOnly{});
    Run<4 * Together> run;
#pragma unroll
    for (int k = 0; k < Together; ++k) run.word[k] = load_word(words + smaller(first + k, count - 1), ReadOnly{});
    return run;
}

// Transposing reduction of K numbers over a warp by recursive halving: at each step a lane keeps one half of the
// numbers and adds its partner's. The lane ends with `count` totals from `first` on.
template <int K, u32 distance = 16, int N>
CPMS_DEVICE void fold_warp(float (&number)[N], u32& first, u32& count) {
    constexpr u32 half = (K + 1) / 2;
    const bool upper = threadIdx.x & distance;
#pragma unroll
    for (u32 j = 0; j < half; ++j) {
        const float low = number[j], high = j + half < K ? number[j + half] : 0.0f;
        number[j] = (upper ? high : low) + __shfl_xor_sync(all_lanes, upper ? low : high, distance);
    }
    if (upper) first += half;
    count = upper ? count - smaller(count, half) : smaller(count, half);
    if constexpr (distance > 1) fold_warp<half, distance / 2>(number, first, count);
}

// Reduces all threads' products over the grid into `products_found`, which all threads then see. A thread has all
// products, or one half of them.
template <int N>
CPMS_DEVICE void reduce_products(float (&mine)[N], double* products_found, const Grid& grid) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    double* const warp_partials = products_found + product_count;
    u32 begin = 0, count = N;
    fold_warp<N>(mine, begin, count);
#pragma unroll
    for (u32 j = 0; j < (N + 31) / 32; ++j) {
        if (j < count) warp_partials[warp * N + begin + j] = (double)mine[j];
    }
    __syncthreads();
    const auto add_warps = [&](double* to, const double* from, u32 first, u32 end, u32 each) {
        if (threadIdx.x >= product_count) return;
        double total = 0.0;
#pragma unroll 4
        for (u32 w = first; w < end; ++w) total += from[w * each];
        to[threadIdx.x] = total;
    };
    double* const partials = grid.half();
    double* const of_block = partials + blockIdx.x * product_count;
    if constexpr (N == product_count) {
        add_warps(of_block, warp_partials + threadIdx.x, 0, warps, N);
    } else {
        const bool late = threadIdx.x >= early_product_count;
        add_warps(of_block, warp_partials + threadIdx.x - (late ? early_product_count : 0), late ? warps / 2 : 0,
                  late ? warps : warps / 2, N);
    }
    grid.sync([] {});
    double first = 0.0, second = 0.0;
    const u32 other = smaller(lane + 32, product_count - 1);
#pragma unroll 4
    for (u32 block = warp; block < gridDim.x; block += warps) {
        first += partials[block * product_count + lane];
        second += partials[block * product_count + other];
    }
    warp_partials[warp * product_count + lane] = first;
    if (lane + 32 < product_count) warp_partials[warp * product_count + other] = second;
    __syncthreads();
    add_warps(products_found, warp_partials + threadIdx.x, 0, warps, product_count);
    __syncthreads();
}

// Prepares the scales of the history vectors.
template <class Q>
CPMS_DEVICE void prepare_scales(const AndersonHistory& history,
                                AndersonWorkspace<typename HistoryValues<Q>::Real>& work) {
    __syncthreads();
    if (threadIdx.x < history_length) {
        work.to_real[threadIdx.x] = HistoryValues<Q>::to_real(history.exponent[threadIdx.x], history.largest[0]);
    }
    __syncthreads();
}

// Accumulates the products of sweeps `begin` to `end` over the nodes of thread `thread` of `threads` in a block;
// `to_real` is from prepare_scales.
template <class Q, int begin, int end, class History, class Real, int N>
CPMS_DEVICE void accumulate_products(u32 count, const History& sent, const Real* to_real, u32 threads, u32 thread,
                                     float (&product)[N]) {
    using Values = HistoryValues<Q>;
    constexpr int together = Values::together, read = end < history_length ? end + 1 : history_length;
    for (u32 i = (blockIdx.x * threads + thread) * together; i < count; i += gridDim.x * threads * together) {
        const Values stored(sent, i);
#pragma unroll
        for (int node = 0; node < together; ++node) {
            float sent_by[history_length] = {};
#pragma unroll
            for (int k = 0; k < read; ++k) sent_by[k] = (float)(stored.value(k, node) * to_real[k]);
            add_products<begin, end>(sent_by, product);
        }
    }
}

// Products of the history vectors, in `work.products_found` of each block. sent.at(place) is the address of a vector.
// With `halves`, a thread accumulates about half of the products. Arguments that lie in no memory are passed by value,
// since the function is not inlined.
template <class Q, bool halves, class History>
CPMS_NOINLINE void compute_products(u32 count, History sent, AndersonHistory& history,
                                    AndersonWorkspace<typename HistoryValues<Q>::Real>& work, Grid grid) {
    prepare_scales<Q>(history, work);
    if constexpr (halves) {
        float product[late_product_count] = {};
        const u32 half = blockDim.x / 2;
        if (threadIdx.x < half) {
            accumulate_products<Q, 0, early_sweeps>(count, sent, work.to_real, half, threadIdx.x, product);
        } else {
            accumulate_products<Q, early_sweeps, history_length>(count, sent, work.to_real, half, threadIdx.x - half,
                                                                 product);
        }
        reduce_products(product, work.products_found, grid);
    } else {
        float product[product_count] = {};
        accumulate_products<Q, 0, history_length>(count, sent, work.to_real, blockDim.x, threadIdx.x, product);
        reduce_products(product, work.products_found, grid);
    }
}

}  // namespace cpms
