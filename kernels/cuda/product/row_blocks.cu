// Product with a matrix in CSR, a block of threads a block of whole rows (CSR-Adaptive: Greathouse and Daga, SC 2014).
//
// A block's entries lie without gaps, so its threads read values and columns in whole lines and put the terms into
// shared memory, whatever the lengths of its rows; then groups of threads add up a row each, more threads where rows
// are fewer. A long row is cut into blocks of its own, whose sums a second kernel joins in their order. Cost: each
// entry's value and column once, row starts, and x.
#include "product/row_end.cuh"

namespace cpms {

constexpr int entries_a_thread = 4;
// Of a block, at most; `BLOCK_ENTRIES` of cpms/backends/cuda/kernels/product.py is the same.
constexpr int block_entries = entries_a_thread * block_threads;

// Terms of the entries from `begin` to `end`, block_threads apart in each thread. Those beyond `end` repeat the last.
template <class V, int RV, class X, int RX, class Real, class Index>
CPMS_DEVICE void load_terms(const Product& p, Index begin, Index end, Real (&term)[entries_a_thread]) {
    constexpr int count = entries_a_thread;
    using OfMatrix = Decode<V>;
    using OfX = Decode<X>;
    Index column[count];
    decltype(OfMatrix::template raw<RV>(p.values, 0, p.slots, Streaming{})) raw[count];
    decltype(OfX::template raw<RX>(p.x, 0, p.length, ReadOnly{})) gathered[count];
#pragma unroll
    for (int c = 0; c < count; ++c) {
        const Index mine = begin + c * block_threads + threadIdx.x;
        const Index entry = mine < end ? mine : end - 1;
        column[c] = load_word((const Index*)p.columns + entry, Streaming{});
        raw[c] = OfMatrix::template raw<RV>(p.values, (u64)entry, p.slots, Streaming{});
    }
#pragma unroll
    for (int c = 0; c < count; ++c) {
        gathered[c] = OfX::template raw<RX>(p.x, (u64)column[c], p.length, ReadOnly{});
    }
#pragma unroll
    for (int c = 0; c < count; ++c) {
        term[c] = matrix_number<V, Real>(p.values, raw[c]) * number_of<X, Real>(p.x, gathered[c]);
    }
}

// The four indices of a block are its first row and the end of its rows, its first entry and the end of its entries. A
// part of a long row has no row of its own: the first two are equal.
template <class V, int RV, class X, int RX, class Real, class Index, class Out>
CPMS_DEVICE void product_row_blocks(const Product& p) {
    __shared__ Real terms[block_entries];
    const u64 at = 4 * (u64)blockIdx.x;
    const Index row = load_at<Index>(p.blocks, at), row_end = load_at<Index>(p.blocks, at + 1);
    const Index begin = load_at<Index>(p.blocks, at + 2), end = load_at<Index>(p.blocks, at + 3);
    Real term[entries_a_thread];
    if (begin < end) load_terms<V, RV, X, RX, Real, Index>(p, begin, end, term);
    if (row == row_end) {  // a part of a long row
        Real sum = 0;
#pragma unroll
        for (int c = 0; c < entries_a_thread; ++c) {
            sum += begin + c * block_threads + threadIdx.x < end ? term[c] : (Real)0;
        }
        write_block_sum(sum, p.parts, blockIdx.x);
        if (p.dot && threadIdx.x == 0) p.sums[blockIdx.x] = 0.0;  // product_join finishes the row and its dot product
        return;
    }
#pragma unroll
    for (int c = 0; c < entries_a_thread; ++c) terms[c * block_threads + threadIdx.x] = term[c];
    const Index rows = row_end - row;
    u32 threads = 1;  // of a row: as many as let all rows be summed at once, at most a warp
    while (threads < 32 && 2 * threads * rows <= block_threads) threads *= 2;
    const u32 lane = threadIdx.x % threads;
    __syncthreads();
    double dotted = 0.0;
    for (Index first = 0; first < rows; first += block_threads / threads) {
        const Index mine = row + first + threadIdx.x / threads;
        Real sum = 0;
        if (mine < row_end) {
            const u32 stop = (u32)(load_at<Index>(p.starts, mine + 1) - begin);
            for (u32 k = (u32)(load_at<Index>(p.starts, mine) - begin) + lane; k < stop; k += threads) sum += terms[k];
        }
        double wide[1] = {sum};
        for (u32 distance = threads / 2; distance > 0; distance /= 2) {
            wide[0] += __shfl_xor_sync(all_lanes, wide[0], distance);
        }
        if (mine < row_end && lane == 0) dotted += finish_row<Out>(p, mine, wide);
    }
    if (p.dot) write_block_sum(dotted, p.sums, blockIdx.x);
}

// A thread a long row: joins the sums of its parts, after product_row_blocks.
template <class Out>
CPMS_DEVICE void product_join(const Product& p) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    double dotted = 0.0;
    if (i < p.long_count) {
        double sum[1] = {0.0};
        const u64 end = load_at<u64>(p.first_parts, i + 1);
        for (u64 part = load_at<u64>(p.first_parts, i); part < end; ++part) sum[0] += load_double(p.parts + part);
        dotted = finish_row<Out>(p, load_at<u64>(p.long_rows, i), sum);
    }
    if (p.dot) write_block_sum(dotted, p.sums, p.first_sum + blockIdx.x);
}

}  // namespace cpms

#define CPMS_PRODUCT_ROW_BLOCKS(NAME, ...)        \
    CPMS_KERNEL(256) NAME(cpms::Product p) {      \
        cpms::product_row_blocks<__VA_ARGS__>(p); \
    }
#define CPMS_PRODUCT_JOIN(NAME, ...)         \
    CPMS_KERNEL(256) NAME(cpms::Product p) { \
        cpms::product_join<__VA_ARGS__>(p);  \
    }
