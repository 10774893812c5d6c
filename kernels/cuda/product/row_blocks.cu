// Product with a matrix in CSR, a block of threads a block of whole rows (CSR-Adaptive: Greathouse and Daga, SC 2014).
//
// A block's entries lie without gaps, so its threads read values and columns in whole lines and put the terms into
// shared memory, whatever the lengths of its rows; then groups of threads add up a row each, more threads where rows
// are fewer. Where a row is far longer than the others of its block, a whole warp adds it up, so that the block does
// not wait for one thread. A row that is longer than a block is cut into parts, a block each, of which the last to end
// adds up the sums of all in a fixed order, as in base/last_block_reduce.cuh. Cost: each entry's value and column once,
// row starts, and x.
#include "product/row_end.cuh"

namespace cpms {

constexpr int entries_a_thread = 4;
// Of a block, at most; `BLOCK_ENTRIES` of cpms/backends/cuda/kernels/product.py is the same.
constexpr int block_entries = entries_a_thread * block_threads;
// Of a row in an uneven block that a thread adds up, at most.
constexpr u32 terms_a_thread = 32;

// Terms of the entries from `begin` to `end`, block_threads apart in each thread. Those beyond `end` repeat the last.
template <class T, class Index = typename T::Index>
CPMS_DEVICE void load_terms(const Product& p, Index begin, Index end, typename T::Real (&term)[entries_a_thread]) {
    constexpr int count = entries_a_thread;
    Index column[count];
    typename T::RawV value[count];
    typename T::RawX gathered[count];
#pragma unroll
    for (int c = 0; c < count; ++c) {
        const Index mine = begin + c * block_threads + threadIdx.x;
        const Index entry = mine < end ? mine : end - 1;
        column[c] = load_word((const Index*)p.columns + entry, Streaming{});
        value[c] = T::load_value(p, entry);
    }
#pragma unroll
    for (int c = 0; c < count; ++c) gathered[c] = T::load_x(p, column[c]);
#pragma unroll
    for (int c = 0; c < count; ++c) term[c] = T::times(p, value[c], gathered[c]);
}

// Where the terms of a row are in shared memory.
struct Terms {
    u32 begin = 0, end = 0;

    CPMS_DEVICE u32 count() const { return end - begin; }

    template <class Index>
    static CPMS_DEVICE Terms of_row(const Product& p, Index row, Index block_begin) {
        const Index begin = load_at<Index>(p.starts, row), end = load_at<Index>(p.starts, row + 1);
        return {(u32)(begin - block_begin), (u32)(end - block_begin)};
    }
};

// Ends a block of even rows: as many threads a row as let all rows be summed at once, at most a warp. Returns a
// thread's part of the dot product.
template <class Out, class Real, class Index>
CPMS_DEVICE double finish_even_rows(const Product& p, const Real* terms, Index row, Index row_end, Index begin) {
    u32 threads = 1;
    while (threads < 32 && 2 * threads * (row_end - row) <= block_threads) threads *= 2;
    const u32 lane = threadIdx.x % threads;
    double dotted = 0.0;
    for (Index first = row; first < row_end; first += block_threads / threads) {
        const Index mine = first + threadIdx.x / threads;
        Real sum = 0;
        if (mine < row_end) {
            const Terms of = Terms::of_row(p, mine, begin);
            for (u32 k = of.begin + lane; k < of.end; k += threads) sum += terms[k];
        }
        double wide[1] = {sum};
        for (u32 distance = threads / 2; distance > 0; distance /= 2) {
            wide[0] += __shfl_xor_sync(all_lanes, wide[0], distance);
        }
        if (mine < row_end && lane == 0) dotted += finish_row<Out>(p, mine, wide);
    }
    return dotted;
}

// The same of uneven rows: a thread adds up a short row, and a warp a longer one.
template <class Out, class Real, class Index>
CPMS_DEVICE double finish_uneven_rows(const Product& p, const Real* terms, Index row, Index row_end, Index begin) {
    const u32 lane = threadIdx.x % 32;
    double dotted = 0.0;
    for (Index first = row + threadIdx.x / 32 * 32; first < row_end; first += block_threads) {
        const Index own = first + lane;
        const Terms mine = own < row_end ? Terms::of_row(p, own, begin) : Terms{};
        if (own < row_end && mine.count() <= terms_a_thread) {
            Real sum = 0;
            for (u32 k = mine.begin; k < mine.end; ++k) sum += terms[k];
            const double wide[1] = {sum};
            dotted += finish_row<Out>(p, own, wide);
        }
        for (u32 waiting = __ballot_sync(all_lanes, mine.count() > terms_a_thread); waiting; waiting &= waiting - 1) {
            const int of_lane = __ffs((int)waiting) - 1;
            const u32 end = __shfl_sync(all_lanes, mine.end, of_lane);
            Real sum = 0;
            for (u32 k = __shfl_sync(all_lanes, mine.begin, of_lane) + lane; k < end; k += 32) sum += terms[k];
            const double wide[1] = {warp_reduce((double)sum, Add{})};
            if (lane == 0) dotted += finish_row<Out>(p, first + of_lane, wide);
        }
    }
    return dotted;
}

// Adds up a part of the long row with this number. The part that ends last adds up the sums of all parts and writes the
// row; its part of the dot product stands where that of the row's first part would.
template <class T, class Out, class Index = typename T::Index, class Real = typename T::Real>
CPMS_DEVICE void finish_part(const Product& p, u64 number, Index begin, Index end) {
    double mine = 0.0;
    for (Index at = begin; at < end; at += block_entries) {
        Real term[entries_a_thread];
        load_terms<T>(p, at, end, term);
        Real sum = 0;
#pragma unroll
        for (int c = 0; c < entries_a_thread; ++c) {
            sum += at + c * block_threads + threadIdx.x < end ? term[c] : (Real)0;
        }
        mine += sum;
    }
    double row_sum[1] = {sum_in_block(mine)};
    const u64 first = load_at<u64>(p.first_parts, number);
    const u32 others = (u32)(load_at<u64>(p.first_parts, number + 1) - first - 1);
    if (others > 0) {
        __shared__ bool last;
        if (threadIdx.x == 0) {
            p.parts[blockIdx.x] = row_sum[0];
            if (p.dot) p.sums[blockIdx.x] = 0.0;
            __threadfence();
            last = atomicInc(p.ended + number, others) == others;  // the last one resets the counter to 0
        }
        __syncthreads();
        if (!last) return;
        __threadfence();
        const volatile double* parts = p.parts;
        double sum = 0.0;
        for (u32 part = threadIdx.x; part <= others; part += block_threads) sum += parts[first + part];
        row_sum[0] = sum_in_block(sum);
    }
    if (threadIdx.x > 0) return;
    const double dotted = finish_row<Out>(p, load_at<u64>(p.long_rows, number), row_sum);
    if (p.dot) p.sums[first] = dotted;
}

// The four indices of a block are its first row and the end of its rows, its first entry and the end of its entries. A
// part of a long row has no row of its own: the first two are the number of the long row. Parts of long rows come
// first, then blocks of uneven rows.
template <class V, int RV, class X, int RX, class Real, class Index, class Out>
CPMS_DEVICE void product_row_blocks(const Product& p) {
    using Types = ProductTypes<V, RV, X, RX, Real, Index>;
    __shared__ Real terms[block_entries];
    const u64 at = 4 * (u64)blockIdx.x;
    const Index row = load_at<Index>(p.blocks, at), row_end = load_at<Index>(p.blocks, at + 1);
    const Index begin = load_at<Index>(p.blocks, at + 2), end = load_at<Index>(p.blocks, at + 3);
    if (row == row_end) return finish_part<Types, Out>(p, row, begin, end);
    Real term[entries_a_thread];
    if (begin < end) load_terms<Types>(p, begin, end, term);
#pragma unroll
    for (int c = 0; c < entries_a_thread; ++c) terms[c * block_threads + threadIdx.x] = term[c];
    __syncthreads();
    const bool is_even = blockIdx.x >= p.first_even;
    const double dotted = is_even ? finish_even_rows<Out>(p, terms, row, row_end, begin)
                                  : finish_uneven_rows<Out>(p, terms, row, row_end, begin);
    if (p.dot) write_block_sum(dotted, p.sums, blockIdx.x);
}

}  // namespace cpms

#define CPMS_PRODUCT_ROW_BLOCKS(NAME, ...)        \
    CPMS_KERNEL(256) NAME(cpms::Product p) {      \
        cpms::product_row_blocks<__VA_ARGS__>(p); \
    }
