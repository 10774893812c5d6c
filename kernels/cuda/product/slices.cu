// Product with a matrix in SELL-32 or ELL, a thread a row (Kreutzer et al., SIAM J. Sci. Comput. 36, 2014).
//
// Entries k of neighbouring rows lie side by side, so a warp's loads of values and columns are whole lines. Where all
// slices are equally wide, the width is compiled in (Width > 0): loops unroll, and no row starts are read; else columns
// are taken 8, 4, 2 and 1 at a time. Small values and offsets lie in groups of columns (column_groups.cuh), which one
// load of a thread reads: loads of a byte each would keep the load units busy, not the memory. The address of a
// compressed offset follows from the slot alone, so no load waits for another; such a wait costs more than the bytes
// that it would save. Cost: each slot's value and column once, and the misses of x in the second-level cache. Slices
// whose columns are too far apart for offsets are read twice, the second time with columns in full.
#include "product/column_groups.cuh"

namespace cpms {

// Compressed: a base for the 32 slots of column k of a slice, and an offset for each slot; see
// cpms/sparse/compressed_indices.py.
template <class Offset>
struct OffsetColumns {
    const u32* bases;  // of the slice
    const Offset* offsets;
    CPMS_DEVICE u32 operator()(u64 k, u64 slot) const {
        return load_word(bases + k, ReadOnly{}) + load_word(offsets + slot, Streaming{});
    }
};

// Columns `k` to `width` - 1 of a row, `Count` at a time, then half as many, and so on.
template <class T, int Count, class Columns>
CPMS_DEVICE void multiply_up_to(const Product& p, const Columns& columns, u64 k, u64 width, u64 slot, u64 step,
                                typename T::Real (&sum)[T::N]) {
    for (; k + Count <= width; k += Count) multiply<T, Count>(p, columns, k, slot + k * step, step, sum);
    if constexpr (Count > 1) multiply_up_to<T, Count / 2>(p, columns, k, width, slot, step, sum);
}

template <class T, int Width, class Columns>
CPMS_DEVICE void multiply_slice(const Product& p, const Columns& columns, u64 slot, u64 width, u64 step,
                                typename T::Real (&sum)[T::N]) {
    if constexpr (Width > 0) {
        constexpr int batches = (Width + 8) / 9;  // nearly equal, of nine loads in flight at most
        constexpr int count = (Width + batches - 1) / batches, rest = Width % count;
#pragma unroll
        for (int k = 0; k + count <= Width; k += count) {
            multiply<T, count>(p, columns, k, slot + k * step, step, sum);
        }
        if constexpr (rest > 0) {
            multiply<T, rest>(p, columns, Width - rest, slot + (Width - rest) * step, step, sum);
        }
    } else {
        multiply_up_to<T, 8>(p, columns, 0, width, slot, step, sum);
    }
}

// Bases of a slice's columns.
template <int Width>
CPMS_DEVICE const u32* bases_of(const Product& p, u64 slice, u64 begin) {
    if constexpr (Width > 0) return p.bases + slice * ((Width + 3) / 4 * 4);
    return p.bases + (p.base_stride ? slice * p.base_stride : begin / 32);
}

// Values in format V, of which RV segments are read; x in X, of which RX are; N vectors at a time. Columns are
// compressed where OffsetBits is not 0, and lie in groups where Group is not 1; Far says that some slices have them in
// full. C is 32 for slices of so many rows, 0 for one of all rows. A thread has the row at a place, in the order in
// which rows are stored; without groups entry k of its row is k * step slots after its first slot.
template <int C, int Width, int OffsetBits, bool Far, int Group, class V, int RV, class X, int RX, class Real,
          class Index, class Out, int N>
CPMS_DEVICE void product_slices(const Product& p) {
    using Types = ProductTypes<V, RV, X, RX, Real, Index, N>;
    const Index place = (Index)blockIdx.x * blockDim.x + threadIdx.x;  // its width saves registers
    double dotted = 0.0;
    if (place < p.rows) {
        const u64 step = C ? C : p.slice_rows;
        const Index slice = C ? place / (Index)C : 0;
        const u64 begin = Width > 0 ? (u64)slice * (Width * step) : (u64)load_at<Index>(p.starts, slice);
        const Index lane = C ? place % (Index)C : place;
        const u64 slot = begin + lane;
        const u64 width = Width > 0 ? Width : (load_at<Index>(p.starts, slice + 1) - begin) / step;
        Real sum[N] = {};
        if constexpr (OffsetBits == 0) {
            if constexpr (Group > 1) {
                multiply_grouped_slice<Types, Width, Group, 0>(p, p.columns, nullptr, width, begin, lane, sum);
            } else {
                const PlainColumns<Index> columns{p.columns};
                multiply_slice<Types, Width>(p, columns, slot, width, step, sum);
            }
        } else {
            using Offset = typename WordOf<OffsetBits>::Type;
            // A slice whose columns are too far apart for offsets has them in full, at 32 (far - 1) of far_columns.
            // Its sums by offsets are computed, too, and discarded: no slice then waits for `far`.
            u32 far = 0;
            if constexpr (Far) far = load_word(p.far + slice, ReadOnly{});
            const u32* const bases = bases_of<Width>(p, slice, begin);
            if constexpr (Group > 1) {
                multiply_grouped_slice<Types, Width, Group, OffsetBits>(p, p.columns, bases, width, begin, lane, sum);
            } else {
                const OffsetColumns<Offset> columns{bases, (const Offset*)p.columns};
                multiply_slice<Types, Width>(p, columns, slot, width, step, sum);
            }
            if (Far && far != 0) {  // the same for all of a warp
                // Less `begin`, since a slot of the whole matrix is added.
                const u32* const in_full = p.far_columns + (u64)(far - 1) * C - begin;
#pragma unroll
                for (int j = 0; j < N; ++j) sum[j] = 0;
                if constexpr (Group > 1) {
                    multiply_grouped_slice<Types, 0, Group, 0>(p, in_full, nullptr, width, begin, lane, sum);
                } else {
                    const PlainColumns<u32> columns{in_full};
                    multiply_slice<Types, 0>(p, columns, slot, width, step, sum);
                }
            }
        }
        double wide[N];
        widen(sum, wide);
        dotted = finish_row<Out>(p, p.order ? (u64)load_at<Index>(p.order, place) : place, wide);
    }
    if (p.dot) write_block_sum(dotted, p.sums, blockIdx.x);
}

}  // namespace cpms

// One block a multiprocessor is the least: else the compiler saves registers, by loading what it needs one after the
// other.
#define CPMS_PRODUCT_SLICES(NAME, ...)          \
    CPMS_KERNEL(256, 1) NAME(cpms::Product p) { \
        cpms::product_slices<__VA_ARGS__>(p);   \
    }
