// Arguments of all products, passed by value, and the end of a row: alpha A x + beta out + factor add, and a dot
// product.
//
// Sums over rows are those of the blocks, in an order that never changes; the host adds them up.
#pragma once
#include "base/last_block_reduce.cuh"
#include "product/block_float.cuh"

namespace cpms {

// `PRODUCT` of cpms/backends/cuda/kernels/structs.py has the same fields. A slot holds an entry or padding. Indices in
// `void` arrays have 32 or 64 bits, as the kernel's Index; those of long rows have 64.
struct Product {
    const void* starts;       // first slot of each row or slice, and the end
    const void* columns;      // of each slot
    const u8* values;         // of each slot, as stored
    const void* order;        // row at each place, or null where rows lie in order
    const short* exponents;   // power of two with which each row's values are stored; or null
    const u8* x;
    u8* out;
    const double* add;        // one a row, or null
    const double* dot;        // one a row, or null
    double* sums;             // part of the dot product with `dot` of each block, where that is not null
    const void* blocks;       // of rows in CSR, four indices each; see row_blocks.cu
    const void* long_rows;    // rows that are cut, or null
    const void* first_parts;  // block of the first part of each, and the end
    double* parts;            // sum of each block that is such a part
    const u32* bases;         // of compressed columns, where `columns` are offsets; see slices.cu
    const u32* far;           // of each slice: 0, or where its columns begin in `far_columns`; or null
    const u32* far_columns;
    double alpha, beta, factor;
    u64 slots, rows, slice_rows, length;  // length: values of x
    u64 stride;               // values from row to row in blocks of vectors
    u32* ended;               // parts of each long row that have ended; 0 before and after a launch
    u64 first_even;           // block in CSR behind those of uneven rows
    u64 base_stride;          // from slice to slice in `bases`; 0 where a slice has a base for each of its columns
};

// What a product is made of: formats and levels of matrix and vector, the type of sums, that of column numbers, and how
// many vectors are multiplied at a time.
template <class V_, int RV_, class X_, int RX_, class Real_, class Index_, int N_ = 1>
struct ProductTypes {
    using V = V_;
    using X = X_;
    using Real = Real_;
    using Index = Index_;
    static constexpr int RV = RV_, RX = RX_, N = N_;
    using RawV = decltype(Decode<V>::template raw<RV>((const u8*)nullptr, (u64)0, (u64)0, Streaming{}));
    using RawX = decltype(Decode<X>::template raw<RX>((const u8*)nullptr, (u64)0, (u64)0, ReadOnly{}));

    static CPMS_DEVICE RawV load_value(const Product& p, u64 slot) {
        return Decode<V>::template raw<RV>(p.values, slot, p.slots, Streaming{});
    }
    static CPMS_DEVICE RawX load_x(const Product& p, u64 i) {
        return Decode<X>::template raw<RX>(p.x, i, p.length, ReadOnly{});
    }
    static CPMS_DEVICE Real times(const Product& p, RawV value, RawX x) {
        return matrix_number<V, Real>(p.values, value) * number_of<X, Real>(p.x, x);
    }
};

// Column numbers as they are.
template <class Index>
struct PlainColumns {
    const void* columns;
    CPMS_DEVICE Index operator()(u64, u64 slot) const {
        return load_word((const Index*)columns + slot, Streaming{});
    }
};

template <class T>
CPMS_DEVICE T load_at(const void* array, u64 i) {
    return load_word((const T*)array + i, ReadOnly{});
}

CPMS_DEVICE double sum_in_block(double mine) { return InWarps::in_block(LastBlockReduce<1, false>{{mine}}).value[0]; }

// Sum over a block, of which thread 0 writes it for its block.
CPMS_DEVICE void write_block_sum(double mine, double* sums, u64 place) {
    const double sum = sum_in_block(mine);
    if (threadIdx.x == 0) sums[place] = sum;
}

// Writes a row; returns its part of the dot product. Vector j of a block lies beside vector 0.
template <class Out, int N>
CPMS_DEVICE double finish_row(const Product& p, u64 row, const double (&sum)[N]) {
    double dotted = 0.0;
#pragma unroll
    for (int j = 0; j < N; ++j) {
        Out* const to = (Out*)p.out + (N == 1 ? row : row * p.stride + j);
        double value = p.alpha * sum[j];
        if (p.exponents) value *= power_of_two(-p.exponents[row]);
        if (p.beta != 0.0) value += p.beta * (double)*to;
        if (p.add) value += p.factor * load_double(p.add + row);
        const Out stored = (Out)value;
        *to = stored;
        if (p.dot) dotted += (double)stored * load_double(p.dot + row);
    }
    return dotted;
}

// Gathers x and adds the products of the first `used` values to the sums: all loads before what waits for them, so that
// they overlap.
template <class T, int Count>
CPMS_DEVICE void add_products(const Product& p, const typename T::Index (&column)[Count],
                              const typename T::RawV (&value)[Count], int used, typename T::Real (&sum)[T::N]) {
    typename T::RawX gathered[Count][T::N];
#pragma unroll
    for (int c = 0; c < Count; ++c) {
#pragma unroll
        for (int j = 0; j < T::N; ++j) {
            const u64 i = T::N == 1 ? (u64)column[c] : column[c] * p.stride + j;
            if (c < used) gathered[c][j] = T::load_x(p, i);
        }
    }
#pragma unroll
    for (int c = 0; c < Count; ++c) {
#pragma unroll
        for (int j = 0; j < T::N; ++j) {
            if (c < used) sum[j] += T::times(p, value[c], gathered[c][j]);
        }
    }
}

// `Count` slots of a row from `slot` on, `step` apart; columns(k, slot) is the column of the row's k-th slot.
template <class T, int Count, class Columns>
CPMS_DEVICE void multiply(const Product& p, const Columns& columns, u64 k, u64 slot, u64 step,
                          typename T::Real (&sum)[T::N]) {
    typename T::Index column[Count];
    typename T::RawV value[Count];
#pragma unroll
    for (int c = 0; c < Count; ++c) column[c] = columns(k + c, slot + c * step);
#pragma unroll
    for (int c = 0; c < Count; ++c) value[c] = T::load_value(p, slot + c * step);
    add_products<T>(p, column, value, Count, sum);
}

template <class Real, int N>
CPMS_DEVICE void widen(const Real (&sum)[N], double (&wide)[N]) {
#pragma unroll
    for (int j = 0; j < N; ++j) wide[j] = sum[j];
}

}  // namespace cpms
