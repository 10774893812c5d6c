// Arguments of all products, passed by value, and the end of a row: alpha A x + beta out + factor add, and a dot
// product.
//
// Sums over rows are those of the blocks, in an order that never changes; the host adds them up.
#pragma once
#include "base/last_block_reduce.cuh"
#include "product/block_float.cuh"

namespace cpms {

// Fields of 8 bytes each; `PRODUCT` of cpms/backends/cuda/product/launch.py has the same in the same order.
struct Product {
    const void* starts;   // slot of each row or slice, and the end
    const void* columns;  // of each slot
    const u8* values;     // of each slot, as stored
    const void* order;    // row at each place, or null where rows lie in order
    const short* exponents;  // row's values are stored times so many powers of two; or null
    const u8* x;
    u8* out;
    const double* add;    // or null
    const double* dot;    // or null
    double* sums;         // of each block, where `dot` is not null
    const void* blocks;   // of rows in CSR, four indices each; see row_blocks.cu
    const void* long_rows;    // rows that are cut, or null
    const void* first_parts;  // block of the first part of each, and the end
    double* parts;        // sum of each block that is such a part
    const u32* bases;     // of compressed columns, where `columns` are offsets; see slices.cu
    const u32* far;       // of each slice: 0, or where its columns begin in `far_columns`; or null
    const u32* far_columns;
    double alpha, beta, factor;
    u64 slots, rows, slice_rows, length;  // length: values of x
    u64 stride;           // from row to row in blocks of vectors
    u32* ended;           // parts of each long row that have ended; 0 before and after a launch
    u64 first_even;       // block in CSR behind those of uneven rows
    u64 base_stride;      // from slice to slice in `bases`; 0 where a slice has a base for each of its columns
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
        if (p.exponents) value *= value_of((u64)(1023 - p.exponents[row]) << 52);
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
template <class V, class X, int RX, class Real, class Index, int N, int Count, class Raw>
CPMS_DEVICE void add_products(const Product& p, const Index (&column)[Count], const Raw (&raw)[Count], int used,
                              Real (&sum)[N]) {
    decltype(Decode<X>::template raw<RX>(p.x, 0, p.length, ReadOnly{})) gathered[Count][N];
#pragma unroll
    for (int c = 0; c < Count; ++c) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const u64 i = N == 1 ? (u64)column[c] : column[c] * p.stride + j;
            if (c < used) gathered[c][j] = Decode<X>::template raw<RX>(p.x, i, p.length, ReadOnly{});
        }
    }
#pragma unroll
    for (int c = 0; c < Count; ++c) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
            if (c < used) sum[j] += matrix_number<V, Real>(p.values, raw[c]) * number_of<X, Real>(p.x, gathered[c][j]);
        }
    }
}

// `Count` slots of a row, `step` apart.
template <class V, int RV, class X, int RX, class Real, class Index, int N, int Count, class Columns>
CPMS_DEVICE void multiply(const Product& p, const Columns& columns, u64 k, u64 slot, u64 step, Real (&sum)[N]) {
    Index column[Count];
    decltype(Decode<V>::template raw<RV>(p.values, slot, p.slots, Streaming{})) raw[Count];
#pragma unroll
    for (int c = 0; c < Count; ++c) column[c] = columns(k + c, slot + c * step);
#pragma unroll
    for (int c = 0; c < Count; ++c) {
        raw[c] = Decode<V>::template raw<RV>(p.values, slot + c * step, p.slots, Streaming{});
    }
    add_products<V, X, RX>(p, column, raw, Count, sum);
}

template <class Real, int N>
CPMS_DEVICE void widen(const Real (&sum)[N], double (&wide)[N]) {
#pragma unroll
    for (int j = 0; j < N; ++j) wide[j] = sum[j];
}

}  // namespace cpms
