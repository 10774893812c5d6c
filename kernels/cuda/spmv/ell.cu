// SpMV in ELL (Bell and Garland, 2009), two rows a thread: entry k of row j lies at k * length + j. The epilogue
// follows.
//
// Padding refers to a value of x past the last row that is always 0. Loads are coalesced, and padding costs as much as
// entries do.
#include "spmv/epilogue.cuh"

namespace cpms {

constexpr int rows_each = 2;

// Adds columns k to k + Columns - 1; all loads of a kind come before the first use.
template <class F, int R, class V, int RV, int Columns>
CPMS_DEVICE void add_columns(const u32* sources, const u8* values, u64 entries, u64 first, u32 length, const u8* x,
                             double (&sum)[rows_each]) {
    Run<4 * rows_each> source[Columns];
    double value[Columns][rows_each], term[Columns][rows_each];
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
        source[c] = load_run_bytes<4 * rows_each>((const u8*)(sources + first + (u64)c * length), Streaming{});
    }
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
        load_run<V, RV>(values, first + (u64)c * length, entries, Streaming{}, value[c]);
    }
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
#pragma unroll
        for (int j = 0; j < rows_each; ++j) term[c][j] = load<F, R>(x, source[c].word[j], length, ReadOnly{});
    }
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
#pragma unroll
        for (int j = 0; j < rows_each; ++j) sum[j] += value[c][j] * term[c][j];
    }
}

// Vectors have format F, of which R segments are read and W written; matrix values have format V, of which RV are
// read.
template <class F, int R, int W, class V = F, int RV = R>
CPMS_DEVICE void spmv_ell(const u32* sources, const u8* values, u32 width, const u8* x, u32 rows,
                          const Epilogue& epilogue) {
    const u32 length = epilogue.length;
    const u32 row = (blockIdx.x * blockDim.x + threadIdx.x) * rows_each;
    if (row >= length) return;
    const u64 entries = (u64)length * width;
    double sum[rows_each] = {};
    u32 k = 0;
    for (; k + 4 <= width; k += 4) {
        add_columns<F, R, V, RV, 4>(sources, values, entries, (u64)k * length + row, length, x, sum);
    }
    if (width & 2) {
        add_columns<F, R, V, RV, 2>(sources, values, entries, (u64)k * length + row, length, x, sum);
        k += 2;
    }
    if (width & 1) add_columns<F, R, V, RV, 1>(sources, values, entries, (u64)k * length + row, length, x, sum);
    const RowEpilogue<F, W, false> row_epilogue(epilogue);
    double fresh[rows_each];
#pragma unroll
    for (u32 j = 0; j < rows_each; ++j) {
        // Values past the last row stay 0. The clamp keeps the index of a personalised teleport within its array.
        const u32 clamped = row + j < rows ? row + j : rows - 1;
        const double value = row_epilogue.template value<true>(clamped, sum[j]);
        fresh[j] = row + j < rows ? value : 0.0;
    }
    store_run<F, W>(epilogue.out, row, length, fresh, epilogue.seed);
}

}  // namespace cpms

#define CPMS_SPMV_ELL(NAME, ...)                                                                     \
    CPMS_KERNEL(256, 4) NAME(const unsigned* sources, const unsigned char* values, unsigned width,   \
                             const unsigned char* x, unsigned rows, const cpms::Epilogue epilogue) { \
        cpms::spmv_ell<__VA_ARGS__>(sources, values, width, x, rows, epilogue);                      \
    }
