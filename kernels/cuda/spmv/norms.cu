// Norms and sums over vectors in a storage format, reduced over the grid in one launch (base/last_block_reduce.cuh). A
// vector is read once.
#include "base/last_block_reduce.cuh"
#include "base/segmented_storage.cuh"

namespace cpms {

constexpr int run_values = 4;

template <bool Pattern>
CPMS_DEVICE Run<4 * run_values> divisors(const u32* divisor, u32 first) {
    if constexpr (Pattern) {
        return load_run_bytes<4 * run_values>((const u8*)(divisor + first), ReadOnly{});
    } else {
        return Run<4 * run_values>{{1, 1, 1, 1}};
    }
}

// result: L1 norm of the change, its sum of squares, mass of the new vector, largest change. `length` is a multiple
// of 256; values past the last row are 0 in both vectors.
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
    const LastBlockReduce<4, true> mine{{l1, squares, mass, largest}};
    reduce_in_last_block<InWarps>(mine, partials, counter, result);
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
    reduce_in_last_block<InWarps>(LastBlockReduce<1, false>{{sum}}, partials, counter, result);
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
    reduce_in_last_block<InWarps>(LastBlockReduce<1, false>{{sum}}, partials, counter, result);
}

}  // namespace cpms

#define CPMS_DIFFERENCE(NAME, ...)                                                                                   \
    CPMS_KERNEL(256, 4) NAME(const unsigned char* fresh, const unsigned char* old, const unsigned* divisor,          \
                             unsigned length, double to_real, double* partials, unsigned* counter, double* result) { \
        cpms::difference<__VA_ARGS__>(fresh, old, divisor, length, to_real, partials, counter, result);              \
    }
#define CPMS_SELECTED_SUM(NAME, ...)                                                                            \
    CPMS_KERNEL(256, 4) NAME(const unsigned char* x, const unsigned* selected, unsigned count, unsigned length, \
                             double* partials, unsigned* counter, double* result) {                             \
        cpms::selected_sum<__VA_ARGS__>(x, selected, count, length, partials, counter, result);                 \
    }
#define CPMS_PLAIN_NORM(NAME, ...)                                                                               \
    CPMS_KERNEL(256, 4) NAME(const unsigned char* x, const unsigned* divisor, unsigned length, double* partials, \
                             unsigned* counter, double* result) {                                                \
        cpms::plain_norm<__VA_ARGS__>(x, divisor, length, partials, counter, result);                            \
    }
