// Anderson products.
#pragma once
#include "base/float32_view.cuh"
#include "pagerank/node_passes.cuh"

namespace cpms {

constexpr int anderson_depth = 8, history_length = anderson_depth + 1,
              product_count = anderson_depth * (anderson_depth + 3) / 2 + 1;
static_assert(product_count <= max_partials, "too many products");
// Where a thread has no registers for sums of all products, half of a block's warps add up those of the first few sweeps, the
// others the rest.
constexpr int early_sweeps = 6, early_product_count = early_sweeps * (early_sweeps + 1) / 2,
              late_product_count = product_count - early_product_count;
static_assert(early_product_count <= late_product_count, "no halves");

// z of low sweeps, one vector after the other; `vectors` of them are combined. Where that is two, none are, and sweeps that
// add up what they find take two in turn.
struct SentHistory {
    u8* stored;
    u64 bytes;
    u32 vectors;

    CPMS_DEVICE u8* at(u32 place) const { return stored + place * bytes; }
};

// What a block knows of the z that are kept. One thread writes it.
struct AndersonHistory {
    double largest[history_length], sum[history_length];  // of r / degree; of r
    int exponent[history_length];                         // by which z is stored
    bool worthwhile;                                      // whether the last combination left enough less

    CPMS_DEVICE void record(u32 place, const InnerState& state, double total) {
        if (threadIdx.x || place >= history_length) return;
        largest[place] = state.largest;
        sum[place] = total;
        exponent[place] = state.exponent;
    }
};

// In the shared memory that walks have between their sweeps.
template <class Real>
struct AndersonWorkspace {
    Real to_real[history_length];                        // of stored values, divided by the largest
    Real in_next[history_length], in_x[history_length];  // the same times what a z weighs in what is sent, and in x
    double g[anderson_depth];
    double products_found[(persistent_warps + 1) * product_count];  // those of all, and of each warp
};

// Adds the products of what a node sent in sweeps one after the other, of which it makes differences: of sweeps from `begin`
// to `end`, each with those before it and itself.
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

// Whether enough less is left with g than without; see cpms/extrapolation.py.
CPMS_DEVICE bool is_worthwhile(const double* products_found, const double* g) {
    const double* const with_last = products_found + product_count - history_length;
    double remaining = with_last[anderson_depth];
    for (int k = 0; k < anderson_depth; ++k) remaining -= g[k] * with_last[k];
    return remaining < 0.95 * 0.95 * with_last[anderson_depth];
}

// The weight of a z in what is then sent, which begins with all of the last one; in x it weighs g[k - 1], and 1 where
// sweeps have not added it up.
CPMS_DEVICE double next_weight(const double* g, int k) {
    return (k ? g[k - 1] : 0.0) + (k == anderson_depth ? 1.0 : -g[k]);
}

// g of least squares from the products, by Gauss and Jordan; a lane of the first warp has a column. As
// cpms/extrapolation.py does, but for the order of what is added up.
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

// Some nodes side by side, of all z that are kept; in float32, or in float64 where that has no room for them.
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
    // As stored.
    CPMS_DEVICE Real value(int place, int node) const {
        const u32 word = (u32)run[place].template field<width>(node);
        if constexpr (in_float32) return Float32View<Q>::value(word);
        return (Real)WideningLoad<Q>::value(word);
    }
};

// Words of some nodes side by side, of the last one for what lies behind the nodes.
template <int Together>
CPMS_DEVICE Run<4 * Together> load_words(const u32* words, u32 first, u32 count) {
    if (first + Together <= count) return load_run_bytes<4 * Together>((const u8*)(words + first), ReadOnly{});
    Run<4 * Together> run;
#pragma unroll
    for (int k = 0; k < Together; ++k) run.word[k] = load_word(words + smaller(first + k, count - 1), ReadOnly{});
    return run;
}

// Adds K numbers over a warp: half of them, and in turn of these, stay with a lane, as sums of its own and of another's. It
// then has `count` from `first` on.
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

// Adds the products of all threads of the grid to `found`, which all then see; each thread has all, or a half of them.
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

// What each z that is kept is multiplied by.
template <class Q>
CPMS_DEVICE void prepare_scales(const AndersonHistory& history,
                                AndersonWorkspace<typename HistoryValues<Q>::Real>& work) {
    __syncthreads();
    if (threadIdx.x < history_length) {
        work.to_real[threadIdx.x] = HistoryValues<Q>::to_real(history.exponent[threadIdx.x], history.largest[0]);
    }
    __syncthreads();
}

// Adds up the products of sweeps from `begin` to `end`, over the nodes of one of as many threads of a block; `to_real` are
// those of `weigh`.
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

// Products of the z that are kept, in `by.found`, which all threads of a block then see. `sent.at(place)` is where each lies.
// By `halves` threads have registers to spare, without them fewer nodes. Takes what is in no memory by value, as does what
// follows.
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
