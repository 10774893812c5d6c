// Product with a matrix in SELL-32 or ELL, a thread a row (Kreutzer et al., SIAM J. Sci. Comput. 36, 2014).
//
// Entry k of neighbouring rows lies side by side, so a warp's loads of values and columns are whole lines. Where all slices
// are equally wide, the width is compiled in (Width > 0) and loops unroll; else columns are taken 8, 4, 2 and 1 at a time.
// Cost: each slot's value and column once, and what of x the second-level cache does not hold.
#include "product/row_end.cuh"

namespace cpms {

// Column numbers as they are.
template <class Index>
struct PlainColumns {
    const void* columns;
    CPMS_DEVICE Index operator()(u64, u64 slot) const {
        return load_word((const Index*)columns + slot, Streaming{});
    }
};

// Compressed: a base for each 32 slots, and an offset for each slot (cpms/sparse/compressed_indices.py).
template <class Offset>
struct OffsetColumns {
    const u32* bases;       // of the slice
    const Offset* offsets;  // of the slice
    u64 begin;              // its first slot
    CPMS_DEVICE u32 operator()(u64 k, u64 slot) const {
        return load_word(bases + k, ReadOnly{}) + load_word(offsets + (slot - begin), Streaming{});
    }
};

template <class V, int RV, class X, int RX, class Real, class Index, int N, int Count, int Width, class Columns>
CPMS_DEVICE void multiply_width(const Product& p, const Columns& columns, u64 slot, u64 step, Real (&sum)[N]) {
#pragma unroll
    for (int k = 0; k + Count <= Width; k += Count) {
        multiply<V, RV, X, RX, Real, Index, N, Count>(p, columns, k, slot + k * step, step, sum);
    }
    constexpr int rest = Width % Count;
    if constexpr (rest > 0) {
        multiply<V, RV, X, RX, Real, Index, N, rest>(p, columns, Width - rest, slot + (Width - rest) * step, step, sum);
    }
}

template <class V, int RV, class X, int RX, class Real, class Index, int N, int Count, class Columns>
CPMS_DEVICE void multiply_up_to(const Product& p, const Columns& columns, u64 k, u64 width, u64 slot, u64 step,
                                Real (&sum)[N]) {
    for (; k + Count <= width; k += Count) {
        multiply<V, RV, X, RX, Real, Index, N, Count>(p, columns, k, slot + k * step, step, sum);
    }
    if constexpr (Count > 1) {
        multiply_up_to<V, RV, X, RX, Real, Index, N, Count / 2>(p, columns, k, width, slot, step, sum);
    }
}

template <int Width, class V, int RV, class X, int RX, class Real, class Index, int N, class Columns>
CPMS_DEVICE void multiply_slice(const Product& p, const Columns& columns, u64 slot, u64 width, u64 step,
                                Real (&sum)[N]) {
    if constexpr (Width > 0) {
        constexpr int batches = (Width + 8) / 9;
        constexpr int count = (Width + batches - 1) / batches;
        multiply_width<V, RV, X, RX, Real, Index, N, count, Width>(p, columns, slot, step, sum);
    } else {
        multiply_up_to<V, RV, X, RX, Real, Index, N, 8>(p, columns, 0, width, slot, step, sum);
    }
}

// Values in format V, of which RV segments are read, x in X. C is 32 for slices of so many rows, 0 for one of all rows.
template <int C, int Width, bool Compressed, class V, int RV, class X, int RX, class Real, class Index, class Out, int N>
CPMS_DEVICE void product_slices(const Product& p) {
    const u64 place = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    double dotted = 0.0;
    if (place < p.rows) {
        const u64 step = C ? C : p.slice_rows, slice = C ? place / C : 0;
        const u64 begin = load_at<Index>(p.starts, slice);
        const u64 slot = begin + (C ? place % C : place);
        Real sum[N] = {};
        const u64 width = Width > 0 ? Width : (load_at<Index>(p.starts, slice + 1) - begin) / step;
        if constexpr (Compressed) {
            const u64 header = load_at<u64>(p.headers, slice);
            const u8* const offsets = (const u8*)p.columns + (header >> 2);
            const u32* const bases = p.bases + begin / C;
            // The same for all of a warp.
            if ((header & 3) == 0) {
                const OffsetColumns<u8> columns{bases, offsets, begin};
                multiply_slice<Width, V, RV, X, RX, Real, Index>(p, columns, slot, width, step, sum);
            } else if ((header & 3) == 1) {
                const OffsetColumns<u16> columns{bases, (const u16*)offsets, begin};
                multiply_slice<Width, V, RV, X, RX, Real, Index>(p, columns, slot, width, step, sum);
            } else {
                const OffsetColumns<u32> columns{bases, (const u32*)offsets, begin};
                multiply_slice<Width, V, RV, X, RX, Real, Index>(p, columns, slot, width, step, sum);
            }
        } else {
            const PlainColumns<Index> columns{p.columns};
            multiply_slice<Width, V, RV, X, RX, Real, Index>(p, columns, slot, width, step, sum);
        }
        double wide[N];
        widen(sum, wide);
        dotted = finish_row<Out>(p, p.order ? (u64)load_at<Index>(p.order, place) : place, wide);
    }
    if (p.dot) write_block_sum(dotted, p.sums, blockIdx.x);
}

}  // namespace cpms

#define CPMS_PRODUCT_SLICES(NAME, ...)                                           \
    extern "C" __global__ void __launch_bounds__(256) NAME(cpms::Product p) { \
        cpms::product_slices<__VA_ARGS__>(p);                                    \
    }
