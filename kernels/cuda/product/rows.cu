// Product of a matrix in CSR with a block of vectors: `Threads` neighbouring threads a row.
//
// Threads is a power of two near half the mean row, so that a warp's loads are mostly whole lines (Bell and Garland, SC
// 2009, have a warp a row). Cost: each entry's value and column once for all vectors, and x.
#include "product/row_end.cuh"

namespace cpms {

// Every `step`-th slot from `slot` on.
template <class T>
CPMS_DEVICE void multiply_row(const Product& p, u64 slot, u64 end, u64 step, typename T::Real (&sum)[T::N]) {
    const PlainColumns<typename T::Index> columns{p.columns};
#pragma unroll 1
    for (; slot + 3 * step < end; slot += 4 * step) multiply<T, 4>(p, columns, 0, slot, step, sum);
    if (slot + step < end) {
        multiply<T, 2>(p, columns, 0, slot, step, sum);
        slot += 2 * step;
    }
    if (slot < end) multiply<T, 1>(p, columns, 0, slot, step, sum);
}

// A thread outside the matrix has no slots, but takes part in the warp's exchange.
template <int Threads, class V, int RV, class X, int RX, class Real, class Index, class Out, int N>
CPMS_DEVICE void product_rows(const Product& p) {
    const u64 row = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / Threads;
    const u32 lane = threadIdx.x % Threads;
    const bool is_row = row < p.rows;
    u64 begin = 0, end = 0;
    if (is_row) {
        begin = load_at<Index>(p.starts, row);
        end = load_at<Index>(p.starts, row + 1);
    }
    Real sum[N] = {};
    if (is_row) multiply_row<ProductTypes<V, RV, X, RX, Real, Index, N>>(p, begin + lane, end, Threads, sum);
    double wide[N];
    widen(sum, wide);
#pragma unroll
    for (int distance = Threads / 2; distance > 0; distance /= 2) {
#pragma unroll
        for (int j = 0; j < N; ++j) wide[j] += __shfl_xor_sync(all_lanes, wide[j], distance);
    }
    double dotted = 0.0;
    if (is_row && lane == 0) dotted = finish_row<Out>(p, row, wide);
    if (p.dot) write_block_sum(dotted, p.sums, blockIdx.x);
}

}  // namespace cpms

#define CPMS_PRODUCT_ROWS(NAME, ...)         \
    CPMS_KERNEL(256) NAME(cpms::Product p) { \
        cpms::product_rows<__VA_ARGS__>(p);  \
    }
