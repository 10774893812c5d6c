// Arnoldi's method on stored vectors without the host: classical Gram-Schmidt against the basis as it is stored, Givens
// rotations of the Hessenberg matrix, and the next vector, scaled and stored.
//
// A step is a product, dot products, their sums, a combination, a rotation and a store, one launch each for vectors of
// one format. How many vectors there are is read from device memory, and so is whether the launch is to do anything:
// the host queues steps ahead, and those behind the last one do nothing. A second pass of Gram-Schmidt consists of the
// same launches in another mode. Cost: the basis twice a pass, and five vectors of float64.
#include "base/last_block_reduce.cuh"
#include "product/encode_block.cuh"

namespace cpms {

constexpr int slab_vectors = 16;
constexpr int most_slabs = 16;
constexpr int any_mode = 3;

// What the steps know of each other, all numbers float64, so that the host reads them in one transfer.
struct ArnoldiState {
    double mode;     // 0: a first pass goes on; 1: a second pass is to be made; 2: the cycle has ended
    double columns;  // that are finished
    double square;   // of the 2-norm of w behind a pass
    double size;     // its 2-norm
    double side;     // of the least squares, whose size is that of the residual
    double enough;   // the size at which a cycle ends
    double cancelled;  // length after the first pass over the length before, below which a second pass follows
    double most;     // columns
};

// Of each column: size of the residual, passes, entry of the rotated right-hand side, and the rotation.
struct ArnoldiEntry {
    double residual, passes, right, cosine, sine;
};

// Fields of 8 bytes each; `ARNOLDI` in cpms/backends/cuda/krylov/arnoldi.py has the same in the same order.
struct Arnoldi {
    const u8* slab[most_slabs];  // of `slab_vectors` vectors each, from vector `first` on
    u64 stride;                  // bytes from vector to vector
    u64 first, end;              // vectors of this launch, as far as they exist
    u64 mode;                    // in which the launch does something
    u64 last;                    // whether no other combination follows
    u64 length;
    double* w;
    u8* out;                     // where the next vector is stored
    double* partials;
    double* parts;               // coefficients of a pass
    double* squares;             // of the 2-norms of the stored vectors
    double* columns;             // of the triangular matrix, `rows` apart
    u64 rows;
    ArnoldiState* state;
    ArnoldiEntry* entries;
    u32* counter;
};

CPMS_DEVICE bool idle(const Arnoldi& a) { return a.mode != any_mode && a.state->mode != (double)a.mode; }

// Behind the last vector of a launch.
CPMS_DEVICE u64 end_of(const Arnoldi& a) {
    const u64 there = a.mode == any_mode ? a.end : (u64)a.state->columns + 1;
    return a.end < there ? a.end : there;
}

// Sums of blocks of the dot products with w: of vector j, from partials[j * gridDim.x] on.
template <class V, int R>
CPMS_DEVICE void arnoldi_dots(const Arnoldi& a) {
    __shared__ double of_warps[slab_vectors][block_warps];
    if (idle(a)) return;
    const u64 end = end_of(a);
    for (u64 first = a.first, slab = 0; first < end; first += slab_vectors, ++slab) {
        const u64 last = (end - first < slab_vectors ? end - first : slab_vectors) - 1;
        const u8* vector[slab_vectors];  // those behind the last repeat it
#pragma unroll
        for (int j = 0; j < slab_vectors; ++j) vector[j] = a.slab[slab] + ((u64)j < last ? (u64)j : last) * a.stride;
        double sum[slab_vectors] = {};
        for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < a.length; i += (u64)gridDim.x * blockDim.x) {
            const double w = a.w[i];
#pragma unroll
            for (int j = 0; j < slab_vectors; ++j) sum[j] += w * number<V, R, double>(vector[j], i, a.length, ReadOnly{});
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < slab_vectors; ++j) {
            const double reduced = warp_reduce(sum[j], Add{});
            if (threadIdx.x % 32 == 0) of_warps[j][threadIdx.x / 32] = reduced;
        }
        __syncthreads();
        if (threadIdx.x <= last) {
            double all = 0.0;
            for (int warp = 0; warp < block_warps; ++warp) all += of_warps[threadIdx.x][warp];
            a.partials[(first + threadIdx.x) * gridDim.x + blockIdx.x] = all;
        }
    }
}

// A warp a vector: its dot product over its square is its coefficient, which is added to those of the pass before.
// `first` is the number of blocks that found sums.
CPMS_DEVICE void arnoldi_parts(const Arnoldi& a) {
    if (idle(a)) return;
    const u64 vector = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32, column = (u64)a.state->columns;
    if (vector > column) return;  // the whole warp
    double mine = 0.0;
    for (u64 block = threadIdx.x % 32; block < a.first; block += 32) mine += a.partials[vector * a.first + block];
    const double part = warp_reduce(mine, Add{}) / a.squares[vector];
    if (threadIdx.x % 32) return;
    a.parts[vector] = part;
    double& entry = a.columns[column * a.rows + vector];
    entry = a.mode == 1 ? entry + part : part;
}

// w less the vectors times their parts, and the square of its 2-norm.
template <class V, int R>
CPMS_DEVICE void arnoldi_combine(const Arnoldi& a) {
    __shared__ double part[most_slabs * slab_vectors];
    if (idle(a)) return;
    const u64 end = end_of(a), count = end > a.first ? end - a.first : 0;
    const u64 slabs = (count + slab_vectors - 1) / slab_vectors;
    if (threadIdx.x < slabs * slab_vectors) part[threadIdx.x] = threadIdx.x < count ? a.parts[a.first + threadIdx.x] : 0.0;
    __syncthreads();
    LastBlockReduce<1, false> mine{};
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < a.length; i += (u64)gridDim.x * blockDim.x) {
        double value = a.w[i];
        for (u64 slab = 0; slab < slabs; ++slab) {
            const u64 there = count - slab * slab_vectors, last = (there < slab_vectors ? there : slab_vectors) - 1;
#pragma unroll
            for (int j = 0; j < slab_vectors; ++j) {
                const u8* const vector = a.slab[slab] + ((u64)j < last ? (u64)j : last) * a.stride;
                value -= part[slab * slab_vectors + j] * number<V, R, double>(vector, i, a.length, ReadOnly{});
            }
        }
        a.w[i] = value;
        mine.value[0] += value * value;
    }
    if (a.last) reduce_in_last_block<OverWarps>(mine, a.partials, a.counter, &a.state->square);
}

CPMS_DEVICE bool finite(double value) { return fabs(value) <= 1.7976931348623157e308; }

// One block: asks for a second pass where the first one cancelled most of w, or else brings the new column to
// triangular form by Givens rotations, tile by tile, and ends the cycle where that is due.
CPMS_DEVICE void arnoldi_rotate(const Arnoldi& a) {
    __shared__ double entry[block_threads + 1], cosine[block_threads], sine[block_threads];
    if (idle(a)) return;
    ArnoldiState& state = *a.state;
    const u64 column = (u64)state.columns;
    double* const mine = a.columns + column * a.rows;
    const double size = sqrt(state.square);
    LastBlockReduce<2, true> found{};  // squares of this pass, and the largest entry
    for (u64 i = threadIdx.x; i <= column; i += block_threads) {
        found.value[0] += a.parts[i] * a.parts[i];
        found.value[1] = Larger{}(found.value[1], fabs(mine[i]));
    }
    found = InWarps::in_block(found);
    if (!finite(size) || !finite(found.value[1])) {
        if (threadIdx.x == 0) state.mode = 2.0;
        return;
    }
    if (a.mode == 0 && size < state.cancelled * sqrt(state.square + found.value[0])) {
        if (threadIdx.x == 0) state.mode = 1.0;
        return;
    }
    double carried = mine[0];
    for (u64 begin = 0; begin < column; begin += block_threads) {
        const u64 i = begin + threadIdx.x, count = column - begin < block_threads ? column - begin : block_threads;
        __syncthreads();
        if (i < column) {
            entry[threadIdx.x + 1] = mine[i + 1];
            cosine[threadIdx.x] = a.entries[i].cosine;
            sine[threadIdx.x] = a.entries[i].sine;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (u64 k = 0; k < count; ++k) {
                const double lower = entry[k + 1];
                entry[k] = cosine[k] * carried + sine[k] * lower;
                carried = cosine[k] * lower - sine[k] * carried;
            }
        }
        __syncthreads();
        if (i < column) mine[i] = entry[threadIdx.x];
    }
    if (threadIdx.x != 0) return;
    const double length = hypot(carried, size);
    const double c = length > 0.0 ? carried / length : 1.0, s = length > 0.0 ? size / length : 0.0;
    mine[column] = length;
    a.entries[column] = {fabs(s * state.side), a.mode == 1 ? 2.0 : 1.0, c * state.side, c, s};
    state.side = -s * state.side;
    state.size = size;
    state.columns = (double)(column + 1);
    const bool ends = fabs(state.side) <= state.enough || size <= 1e-15 * found.value[1] || column + 1 >= state.most;
    state.mode = ends ? 2.0 : 0.0;
}

template <class F, int W>
struct StoreVector {
    static CPMS_DEVICE double store(u8* out, u64 i, u64 n, double value, bool inside) {
        return inside ? cpms::store<F, W>(out, i, n, value, 0) : 0.0;
    }
};
template <int Width, int W>
struct StoreVector<BlockFloat<Width>, W> {
    static CPMS_DEVICE double store(u8* out, u64 i, u64 n, double value, bool inside) {
        return store_block<Width>(out, i / 32, n, value, inside);
    }
};

// The next vector: w over its size, in a format, and the square of what is stored.
template <class V, int W>
CPMS_DEVICE void arnoldi_store(const Arnoldi& a) {
    if (idle(a)) return;
    const double factor = 1.0 / a.state->size;
    LastBlockReduce<1, false> mine{};
    const u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i / 32 * 32 < a.length; i += threads) {
        const bool inside = i < a.length;
        const double value = StoreVector<V, W>::store(a.out, i, a.length, inside ? a.w[i] * factor : 0.0, inside);
        mine.value[0] += value * value;
    }
    reduce_in_last_block<OverWarps>(mine, a.partials, a.counter, a.squares + (u64)a.state->columns);
}

}  // namespace cpms

#define CPMS_ARNOLDI_KERNEL(NAME, PASS)                                                \
    extern "C" __global__ void __launch_bounds__(256) NAME(cpms::Arnoldi arguments) { \
        cpms::PASS(arguments);                                                         \
    }
#define CPMS_ARNOLDI_FORMAT(NAME, PASS, ...)                                           \
    extern "C" __global__ void __launch_bounds__(256) NAME(cpms::Arnoldi arguments) { \
        cpms::PASS<__VA_ARGS__>(arguments);                                            \
    }
#define CPMS_ARNOLDI_DOTS(NAME, ...) CPMS_ARNOLDI_FORMAT(NAME, arnoldi_dots, __VA_ARGS__)
#define CPMS_ARNOLDI_COMBINE(NAME, ...) CPMS_ARNOLDI_FORMAT(NAME, arnoldi_combine, __VA_ARGS__)
#define CPMS_ARNOLDI_STORE(NAME, ...) CPMS_ARNOLDI_FORMAT(NAME, arnoldi_store, __VA_ARGS__)
#define CPMS_ARNOLDI_PARTS(NAME) CPMS_ARNOLDI_KERNEL(NAME, arnoldi_parts)
#define CPMS_ARNOLDI_ROTATE(NAME) CPMS_ARNOLDI_KERNEL(NAME, arnoldi_rotate)
