// Dot products and linear combinations of a block of stored vectors with one vector, sixteen at a time, and an update
// with the norms of its result. The one vector is read once for sixteen of the block, which may have few bits; sums are
// float64.
#include "product/row_end.cuh"

namespace cpms {

constexpr int block_vectors = 16;

// `VECTOR_BLOCK` of cpms/backends/cuda/kernels/structs.py has the same fields.
struct VectorBlock {
    const u8* vector[block_vectors];  // those beyond `count` repeat the last
    double factor[block_vectors];     // to real values, and in `combine` times the coefficient; 0 beyond `count`
    u8* w;
    double* sums;                // `block_vectors` of each block
    u64 length;
};

template <class V, int R, class Real>
CPMS_DEVICE void vector_dots(const VectorBlock& b) {
    double sum[block_vectors] = {};
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < b.length; i += (u64)gridDim.x * blockDim.x) {
        const double w = (double)((const Real*)b.w)[i];
#pragma unroll
        for (int j = 0; j < block_vectors; ++j) {
            sum[j] += w * number<V, R, double>(b.vector[j], i, b.length, ReadOnly{});
        }
    }
#pragma unroll
    for (int j = 0; j < block_vectors; ++j) {
        write_block_sum(b.factor[j] * sum[j], b.sums, (u64)blockIdx.x * block_vectors + j);
    }
}

template <class V, int R, class Real>
CPMS_DEVICE void vector_combine(const VectorBlock& b) {
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < b.length; i += (u64)gridDim.x * blockDim.x) {
        double value = (double)((const Real*)b.w)[i];
#pragma unroll
        for (int j = 0; j < block_vectors; ++j) {
            if (b.factor[j] != 0.0) value += b.factor[j] * number<V, R, double>(b.vector[j], i, b.length, ReadOnly{});
        }
        ((Real*)b.w)[i] = (Real)value;
    }
}

// y += alpha x. Of each block: the sum of the new values' sizes, of their squares, and the largest.
template <class Real, class Added>
CPMS_DEVICE void vector_update(u8* y, double alpha, const u8* x, u64 length, double* sums) {
    double sizes = 0.0, squares = 0.0, largest = 0.0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < length; i += (u64)gridDim.x * blockDim.x) {
        const Real value = (Real)((double)((const Real*)y)[i] + alpha * (double)((const Added*)x)[i]);
        ((Real*)y)[i] = value;
        const double size = fabs((double)value);
        sizes += size;
        squares += size * size;
        largest = Larger{}(largest, size);
    }
    const auto found = InWarps::in_block(LastBlockReduce<3, true>{{sizes, squares, largest}});
    if (threadIdx.x == 0) {
        for (int q = 0; q < 3; ++q) sums[(u64)blockIdx.x * 3 + q] = found.value[q];
    }
}

}  // namespace cpms

#define CPMS_VECTOR_DOTS(NAME, ...)              \
    CPMS_KERNEL(256) NAME(cpms::VectorBlock b) { \
        cpms::vector_dots<__VA_ARGS__>(b);       \
    }
#define CPMS_VECTOR_COMBINE(NAME, ...)           \
    CPMS_KERNEL(256) NAME(cpms::VectorBlock b) { \
        cpms::vector_combine<__VA_ARGS__>(b);    \
    }
#define CPMS_VECTOR_UPDATE(NAME, ...)                                                                        \
    CPMS_KERNEL(256) NAME(unsigned char* y, double alpha, const unsigned char* x, unsigned long long length, \
                          double* sums) {                                                                    \
        cpms::vector_update<__VA_ARGS__>(y, alpha, x, length, sums);                                         \
    }
