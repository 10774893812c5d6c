// Product of a matrix in CSR with a block of vectors: `Threads` neighbouring threads a row.
//
// Threads is a power of two near half the mean row, so that a warp's loads are mostly whole lines (Bell and Garland, SC
// 2009, have a warp a row). Cost: each entry's value and column once for all vectors, and x.
#include "product/row_end.cuh"

namespace cpms {

template <class Index>
struct RowColumns {
    const void* columns;
    CPMS_DEVICE Index operator()(u64, u64 slot) const {
        return load_word((const Index*)columns + slot, Streaming{});
    }
};

// Every `step`-th slot from `slot` on.
template <class V, int RV, class X, int RX, class Real, class Index, int N>
CPMS_DEVICE void walk_row(const Product& p, u64 slot, u64 end, u64 step, Real (&sum)[N]) {
    const RowColumns<Index> columns{p.columns};
#pragma unroll 1
    for (; slot + 3 * step < end; slot += 4 * step) {
        multiply<V, RV, X, RX, Real, Index, N, 4>(p, columns, 0, slot, step, sum);
    }
    if (slot + step < end) {
        multiply<V, RV, X, RX, Real, Index, N, 2>(p, columns, 0, slot, step, sum);
        slot += 2 * step;
    }
    if (slot < end) multiply<V, RV, X, RX, Real, Index, N, 1>(p, columns, 0, slot, step, sum);
}

template <int Threads, class V, int RV, class X, int RX, class Real, class Index, class Out, int N>
CPMS_DEVICE void product_rows(const Product& p) {
    const u64 row = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / Threads;
    const u32 lane = threadIdx.x % Threads;
    u64 begin = 0, end = 0;
    if (row < p.rows) {
        begin = load_at<Index>(p.starts, row);
        end = load_at<Index>(p.starts, row + 1);
    }
    const bool mine = row < p.rows;
    Real sum[N] = {};
    if (mine) walk_row<V, RV, X, RX, Real, Index, N>(p, begin + lane, end, Threads, sum);
    double wide[N];
    widen(sum, wide);
#pragma unroll
    for (int distance = Threads / 2; distance > 0; distance /= 2) {
#pragma unroll
        for (int j = 0; j < N; ++j) wide[j] += __shfl_xor_sync(all_lanes, wide[j], distance);
    }
    double dotted = 0.0;
    if (mine && lane == 0) dotted = finish_row<Out>(p, row, wide);
    if (p.dot) write_block_sum(dotted, p.sums, blockIdx.x);
}

}  // namespace cpms

#define CPMS_PRODUCT_ROWS(NAME, ...)         \
    CPMS_KERNEL(256) NAME(cpms::Product p) { \
        cpms::product_rows<__VA_ARGS__>(p);  \
    }
