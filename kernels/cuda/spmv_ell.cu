// Sparse product in ELL, two rows a thread: entry k of row j is at k * length + j; then the update.
// Padding points at a value of x that is always 0, behind the rows.
#include "update.cuh"

namespace cpms {

template <class F, int R, int W>
CPMS_DEVICE void spmv_ell(const u32* sources, const u8* values, u32 width, const u8* x, u32 rows,
                          const Update& update) {
    constexpr int rows_each = 2;
    const u32 length = update.length;
    const u32 row = (blockIdx.x * blockDim.x + threadIdx.x) * rows_each;
    if (row >= length) return;
    const u64 entries = (u64)length * width;
    double sum[rows_each] = {};
#pragma unroll 4
    for (u32 k = 0; k < width; ++k) {
        const u64 first = (u64)k * length + row;
        const auto source = load_run_bytes<4 * rows_each>((const u8*)(sources + first), Streaming{});
        double value[rows_each];
        load_run<F, R>(values, first, entries, Streaming{}, value);
#pragma unroll
        for (int j = 0; j < rows_each; ++j) {
            sum[j] += value[j] * load<F, R>(x, source.word[j], length, ReadOnly{});
        }
    }
    const RowEnd<F, W, false> at_end(update);
    double fresh[rows_each];
#pragma unroll
    for (u32 j = 0; j < rows_each; ++j) {
        // What lies behind the rows stays 0; the clamp keeps a personal teleport within its array.
        const u32 clamped = row + j < rows ? row + j : rows - 1;
        const double value = at_end.value(clamped, sum[j], 1);
        fresh[j] = row + j < rows ? value : 0.0;
    }
    store_run<F, W>(update.out, row, length, fresh, update.seed);
}

}  // namespace cpms

#define CPMS_SPMV_ELL(NAME, ...)                                                                    \
    extern "C" __global__ void __launch_bounds__(256)                                               \
        NAME(const unsigned* sources, const unsigned char* values, unsigned width,                  \
             const unsigned char* x, unsigned rows, CPMS_UPDATE_PARAMETERS) {                       \
        cpms::spmv_ell<__VA_ARGS__>(sources, values, width, x, rows, CPMS_UPDATE);                  \
    }
