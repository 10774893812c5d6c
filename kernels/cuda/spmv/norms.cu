// Norms and sums over vectors in a storage format: each block reduces its part, and the block that arrives last
// reduces the blocks' values in their order (see base/last_block_reduce.cuh). There are no atomic floating-point
// sums: equal inputs give equal bits. A vector is read once.
#include "base/segmented_storage.cuh"
#include "base/warp.cuh"

namespace cpms {

constexpr int run_values = 4;

// `Sums` sums and, with `Largest`, one maximum behind them.
template <int Sums, bool Largest>
struct BlockReduce {
    static constexpr int count = Sums + Largest;
    double value[count];

    static CPMS_DEVICE double combine(int q, double a, double b) {
        return Largest && q == Sums ? Larger{}(a, b) : a + b;
    }

    // Thread q returns value q of the block.
    CPMS_DEVICE double in_block(double (&workspace)[count][block_warps]) const {
#pragma unroll
        for (int q = 0; q < count; ++q) {
            const bool largest = Largest && q == Sums;
            const double reduced = largest ? warp_reduce(value[q], Larger{}) : warp_reduce(value[q], Add{});
            if (threadIdx.x % 32 == 0) workspace[q][threadIdx.x / 32] = reduced;
        }
        __syncthreads();
        const int mine = threadIdx.x < count ? threadIdx.x : 0;
        double total = workspace[mine][0];
        for (int warp = 1; warp < block_warps; ++warp) total = combine(mine, total, workspace[mine][warp]);
        return total;
    }

    CPMS_DEVICE void reduce_in_last_block(double* partials, u32* counter, double* result) const {
        __shared__ double workspace[count][block_warps];
        __shared__ bool last;
        const double mine = in_block(workspace);
        if (threadIdx.x < count) partials[blockIdx.x * count + threadIdx.x] = mine;
        __threadfence();
        __syncthreads();
        // atomicInc resets the counter to 0 for the next launch.
        if (threadIdx.x == 0) last = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
        __syncthreads();
        if (!last) return;
        __threadfence();
        BlockReduce all{};
        const volatile double* others = partials;
#pragma unroll 1
        for (u32 block = threadIdx.x; block < gridDim.x; block += blockDim.x) {
#pragma unroll
            for (int q = 0; q < count; ++q) all.value[q] = combine(q, all.value[q], others[block * count + q]);
        }
        const double total = all.in_block(workspace);
        if (threadIdx.x < count) result[threadIdx.x] = total;
    }
};

template <bool Pattern>
CPMS_DEVICE Run<4 * run_values> divisors(const u32* divisor, u32 first) {
    if constexpr (Pattern) {
        return load_run_bytes<4 * run_values>((const u8*)(divisor + first), ReadOnly{});
    } else {
        return Run<4 * run_values>{{1, 1, 1, 1}};
    }
}

// result: L1 norm of the change, its sum of squares, mass of the new vector, largest change. `length` is a multiple
// of 256; values behind the rows are 0 in both vectors.
template <class F, int W, int R, bool Pattern>
CPMS_DEVICE void difference(const u8* fresh, const u8* old, const u32* divisor, u32 length, double to_real,
                            double* partials, u32* counter, double* result) {
    double l1 = 0.0, squares = 0.0, mass = 0.0, largest = 0.0;
    const u32 threads = gridDim.x * blockDim.x;
#pragma unroll 1
    for (u32 run = blockIdx.x * blockDim.x + threadIdx.x; run < length / run_values; run += threads) {
        const u32 first = run * run_values;
        double a[run_values], b[run_values];
        load_run<F, W>(fresh, first, length, Default{}, a);
        load_run<F, R>(old, first, length, Default{}, b);
        const auto divisor_run = divisors<Pattern>(divisor, first);
#pragma unroll
        for (int j = 0; j < run_values; ++j) {
            const double back = Pattern ? to_real * divisor_run.word[j] : to_real;
            const double value = a[j] * back;
            const double change = fabs(value - b[j] * back);
            l1 += change;
            squares += change * change;
            mass += value;
            largest = Larger{}(largest, change);
        }
    }
    BlockReduce<3, true>{{l1, squares, mass, largest}}.reduce_in_last_block(partials, counter, result);
}

// result: sum of the selected values, as stored. The selected nodes are dangling, so their divisor is 1.
template <class F, int R>
CPMS_DEVICE void selected_sum(const u8* x, const u32* selected, u32 count, u32 length, double* partials, u32* counter,
                              double* result) {
    double sum = 0.0;
    const u32 threads = gridDim.x * blockDim.x;
#pragma unroll 4
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        sum += load<F, R>(x, load_word(selected + i, ReadOnly{}), length, ReadOnly{});
    }
    BlockReduce<1, false>{{sum}}.reduce_in_last_block(partials, counter, result);
}

// result: sum of the absolute values, as stored times the divisor.
template <class F, int R, bool Pattern>
CPMS_DEVICE void plain_norm(const u8* x, const u32* divisor, u32 length, double* partials, u32* counter,
                            double* result) {
    double sum = 0.0;
    const u32 threads = gridDim.x * blockDim.x;
#pragma unroll 1
    for (u32 run = blockIdx.x * blockDim.x + threadIdx.x; run < length / run_values; run += threads) {
        const u32 first = run * run_values;
        double value[run_values];
        load_run<F, R>(x, first, length, ReadOnly{}, value);
        const auto divisor_run = divisors<Pattern>(divisor, first);
#pragma unroll
        for (int j = 0; j < run_values; ++j) {
            sum += fabs(Pattern ? value[j] * divisor_run.word[j] : value[j]);
        }
    }
    BlockReduce<1, false>{{sum}}.reduce_in_last_block(partials, counter, result);
}

}  // namespace cpms

#define CPMS_DIFFERENCE(NAME, ...)                                                                           \
    extern "C" __global__ void __launch_bounds__(256, 4)                                                     \
        NAME(const unsigned char* fresh, const unsigned char* old, const unsigned* divisor, unsigned length, \
             double to_real, double* partials, unsigned* counter, double* result) {                          \
        cpms::difference<__VA_ARGS__>(fresh, old, divisor, length, to_real, partials, counter, result);      \
    }
#define CPMS_SELECTED_SUM(NAME, ...)                                                                              \
    extern "C" __global__ void __launch_bounds__(256, 4)                                                          \
        NAME(const unsigned char* x, const unsigned* selected, unsigned count, unsigned length, double* partials, \
             unsigned* counter, double* result) {                                                                 \
        cpms::selected_sum<__VA_ARGS__>(x, selected, count, length, partials, counter, result);                   \
    }
#define CPMS_PLAIN_NORM(NAME, ...)                                                                                  \
    extern "C" __global__ void __launch_bounds__(256, 4)                                                            \
        NAME(const unsigned char* x, const unsigned* divisor, unsigned length, double* partials, unsigned* counter, \
             double* result) {                                                                                      \
        cpms::plain_norm<__VA_ARGS__>(x, divisor, length, partials, counter, result);                               \
    }
