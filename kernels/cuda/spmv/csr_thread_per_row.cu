// SpMV in CSR with one thread a row (scalar CSR of Bell and Garland, 2009), as in the CPMS paper, followed by the
// epilogue. It is the baseline of the balanced kernel: simple, but neither coalesced nor balanced.
#include "spmv/epilogue.cuh"

namespace cpms {

// Vectors have format F, of which R segments are read and W written; matrix values have format V, of which RV are
// read.
template <class F, int R, int W, bool Pattern, class V = F, int RV = R>
CPMS_DEVICE void spmv_csr_thread(const u32* starts, const u32* sources, const u8* values, u32 entries, const u8* x,
                                 u32 rows, const Epilogue& epilogue) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const u32 end = starts[row + 1];
    double sum = 0.0;
    for (u32 k = starts[row]; k < end; ++k) {
        const u32 source = load_word(sources + k, Streaming{});
        const double term = load<F, R>(x, source, epilogue.length, ReadOnly{});
        if constexpr (Pattern) {
            sum += term;
        } else {
            sum += load<V, RV>(values, k, entries, Streaming{}) * term;
        }
    }
    const RowEpilogue<F, W, Pattern> row_epilogue(epilogue);
    row_epilogue.write(row, row_epilogue.template value<true>(row, sum));
}

}  // namespace cpms

#define CPMS_SPMV_CSR_THREAD(NAME, ...)                                                                             \
    CPMS_KERNEL(256) NAME(const unsigned* starts, const unsigned* sources, const unsigned char* values,             \
                          unsigned entries, const unsigned char* x, unsigned rows, const cpms::Epilogue epilogue) { \
        cpms::spmv_csr_thread<__VA_ARGS__>(starts, sources, values, entries, x, rows, epilogue);                    \
    }
