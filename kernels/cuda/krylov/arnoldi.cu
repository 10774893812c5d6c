// Arnoldi's method on stored vectors without the host: classical Gram-Schmidt against the basis as it is stored, Givens
// rotations of the Hessenberg matrix, and the next vector, scaled and stored.
//
// A step is a product, dot products, their sums, a combination with a rotation, and a store, one launch each for
// vectors of one format. How many vectors there are is read from device memory, and so is whether the launch is to do
// anything: the host queues steps ahead, and those after the last one do nothing. A second pass of Gram-Schmidt
// consists of the same launches in another mode. Cost: the basis twice a pass, and five vectors of float64.
//
// A basis in layers stores a vector as a sum of vectors in block floating point, each of which holds what the ones
// before it leave, as cpms/solvers/linear/stored_basis.py does. Layer k of the vectors is a launch of its own, and a
// vector has no more layers than the ones before it. The digits that a column needs follow the residual, so launches
// of later layers do nothing where the layers before them are enough; a combination leaves out the vectors of which
// that is true given the sizes of their coefficients.
#include "base/last_block_reduce.cuh"
#include "krylov/stored_values.cuh"

namespace cpms {

constexpr int slab_vectors = 16;
constexpr int most_slabs = 16;  // `slab_vectors` times as many are the threads of a block
constexpr int most_layers = 4;
constexpr int any_mode = 3;

// What the steps know of each other, all numbers float64, so that the host reads them in one transfer.
struct ArnoldiState {
    double mode;     // 0: a first pass goes on; 1: a second pass is to be made; 2: the cycle has ended
    double columns;  // that are finished
    double square;   // of the 2-norm of w after a pass
    double size;     // its 2-norm
    double side;     // of the least squares, whose size is that of the residual
    double enough;   // the size at which a cycle ends
    double cancelled;  // length after the first pass over the length before, below which a second pass follows
    double most;     // columns
    double floor;    // the residual that a cycle is to reach, times the rounding error that digits beyond it spare
    double read;     // layers of vectors that the column has read so far
};

// Of each column: size of the residual, passes, entry of the rotated right-hand side, the rotation, and layers read.
struct ArnoldiEntry {
    double residual, passes, right, cosine, sine, read;
};

// Fields of 8 bytes each; `ARNOLDI` in cpms/backends/cuda/krylov/arnoldi.py has the same in the same order.
struct Arnoldi {
    const u8* slab[most_slabs];  // of `slab_vectors` vectors each, from vector `first` on
    u64 stride;                  // bytes from vector to vector
    u64 first, end;              // vectors of this launch
    u64 mode;                    // in which the launch does something
    u64 last;                    // whether no other combination follows
    u64 padded;                  // values of a vector, to whole multiples of 256
    u64 kept;                    // digits at which the layers before this one are enough; 0 in the first layer
    double* w;
    u8* out[most_layers];        // where the layers of the next vector are stored
    u64 layers;
    double* sum;                 // of these layers; null where there are none
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

// The relative residual of the cycle over the one that it is to reach; its binary logarithm is the digits needed.
CPMS_DEVICE double to_go(const Arnoldi& a) { return fabs(a.state->side) / a.state->floor; }
CPMS_DEVICE double power_of_two(u64 exponent) { return value_of((1023 + exponent) << 52); }

// By one thread of a launch: `count` layers of vectors are read.
CPMS_DEVICE void add_read(const Arnoldi& a, u64 count) {
    if (blockIdx.x == 0 && threadIdx.x == 0) a.state->read += (double)count;
}

// Calls work(j, values) for up to sixteen vectors, some at a time, which are loaded before the first of them is used;
// those after the last repeat it. from(j) is where vector j begins.
template <class V, int R, class From, class Work>
CPMS_DEVICE void for_each_vector(From from, int count, u64 first, u64 padded, Work work) {
    constexpr int together = sizeof(FourStored<V, R>) <= 24 ? 8 : 4;
#pragma unroll
    for (int begin = 0; begin < slab_vectors; begin += together) {
        if (begin >= count) break;
        FourStored<V, R> stored[together];
#pragma unroll
        for (int j = 0; j < together; ++j) {
            const int vector = begin + j < count ? begin + j : count - 1;
            stored[j].load(from(vector), first, padded);
        }
#pragma unroll
        for (int j = 0; j < together; ++j) {
            double v[4];
            stored[j].values(v);
            work(begin + j, v);
        }
    }
}

// Sums over the lanes of a warp of sixteen numbers each; returns sum l / 2 in lane l. Each exchange halves the numbers
// that a lane has, so they are 16 in place of 80.
template <int Half = slab_vectors / 2>
CPMS_DEVICE double sums_over_warp(double (&sum)[slab_vectors]) {
    const bool upper = threadIdx.x & (2 * Half);
#pragma unroll
    for (int j = 0; j < Half; ++j) {
        const double given = upper ? sum[j] : sum[j + Half], kept = upper ? sum[j + Half] : sum[j];
        sum[j] = kept + __shfl_xor_sync(all_lanes, given, 2 * Half);
    }
    if constexpr (Half > 1) return sums_over_warp<Half / 2>(sum);
    return sum[0] + __shfl_xor_sync(all_lanes, sum[0], 1);
}

// Sums of blocks of the dot products with w: of vector j, from partials[j * gridDim.x] on. Those of a later layer are
// added to the ones of the layers before.
template <class V, int R>
CPMS_DEVICE void arnoldi_dots(const Arnoldi& a) {
    __shared__ double of_warps[slab_vectors][block_warps];
    if (idle(a) || (a.kept && to_go(a) <= power_of_two(a.kept))) return;
    add_read(a, a.end - a.first);
    for (u64 begin = a.first, slab = 0; begin < a.end; begin += slab_vectors, ++slab) {
        const int count = (int)(a.end - begin < slab_vectors ? a.end - begin : slab_vectors);
        double sum[slab_vectors] = {};
        for_each_warp_values(a.padded, [&](u64 first) {
            double w[4];
#pragma unroll
            for (int c = 0; c < 4; ++c) w[c] = a.w[FourStored<V, R>::place(first, c)];
            const auto from = [&](int j) { return a.slab[slab] + (u64)j * a.stride; };
            for_each_vector<V, R>(from, count, first, a.padded, [&](int j, const double(&v)[4]) {
#pragma unroll
                for (int c = 0; c < 4; ++c) sum[j] += w[c] * v[c];
            });
        });
        const double mine = sums_over_warp(sum);
        __syncthreads();
        if (threadIdx.x % 2 == 0) of_warps[threadIdx.x % 32 / 2][threadIdx.x / 32] = mine;
        __syncthreads();
        if (threadIdx.x < count) {
            double all = 0.0;
            for (int warp = 0; warp < block_warps; ++warp) all += of_warps[threadIdx.x][warp];
            double& partial = a.partials[(begin + threadIdx.x) * gridDim.x + blockIdx.x];
            partial = a.kept ? partial + all : all;
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

CPMS_DEVICE bool finite(double value) { return fabs(value) <= 1.7976931348623157e308; }

// By one block, whose launch has read `count` vectors: asks for a second pass where the first one cancelled most of w,
// or else brings the new column to triangular form by Givens rotations, tile by tile, and ends the cycle where that is
// due.
CPMS_DEVICE void rotate(const Arnoldi& a, u32 count) {
    __shared__ double entry[block_threads + 1], cosine[block_threads], sine[block_threads];
    __syncthreads();  // the square has been written
    ArnoldiState& state = *a.state;
    const u64 column = (u64)state.columns;
    double* const mine = a.columns + column * a.rows;
    const double size = sqrt(state.square);
    if (threadIdx.x == 0) state.read += (double)count;
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
        const u64 i = begin + threadIdx.x, here = column - begin < block_threads ? column - begin : block_threads;
        __syncthreads();
        if (i < column) {
            entry[threadIdx.x + 1] = mine[i + 1];
            cosine[threadIdx.x] = a.entries[i].cosine;
            sine[threadIdx.x] = a.entries[i].sine;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (u64 k = 0; k < here; ++k) {
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
    a.entries[column] = {fabs(s * state.side), a.mode == 1 ? 2.0 : 1.0, c * state.side, c, s, state.read};
    state.read = 0.0;
    state.side = -s * state.side;
    state.size = size;
    state.columns = (double)(column + 1);
    const bool ends = fabs(state.side) <= state.enough || size <= 1e-15 * found.value[1] || column + 1 >= state.most;
    state.mode = ends ? 2.0 : 0.0;
}

// The vectors of a combination, one after the other: where they begin, and their coefficients.
struct Chosen {
    const u8* from[most_slabs * slab_vectors];
    double part[most_slabs * slab_vectors];
    u32 count;
};

// By a block: chooses the vectors of which more is needed than the layers before have. A term is smaller than w by its
// coefficient, so it needs fewer digits; w is at least as large as its coefficients together.
CPMS_DEVICE void choose(const Arnoldi& a, Chosen& chosen) {
    __shared__ u32 of_warps[block_warps];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double least = 0.0;
    if (a.kept && a.mode != any_mode) {
        const u64 column = (u64)a.state->columns;
        LastBlockReduce<1, false> square{};
        for (u64 i = threadIdx.x; i <= column; i += block_threads) {
            const double entry = a.columns[column * a.rows + i];
            square.value[0] += entry * entry;
        }
        least = sqrt(InWarps::in_block(square).value[0]) * power_of_two(a.kept) / to_go(a);
    }
    const bool exists = threadIdx.x < a.end - a.first;
    const double part = exists ? a.parts[a.first + threadIdx.x] : 0.0;
    const bool mine = exists && !(least > 0.0 && fabs(part) <= least);
    const u32 those = __ballot_sync(all_lanes, mine);
    if (lane == 0) of_warps[warp] = __popc(those);
    __syncthreads();
    u32 place = __popc(those & ((1u << lane) - 1)), count = 0;
    for (u32 other = 0; other < block_warps; ++other) {
        if (other < warp) place += of_warps[other];
        count += of_warps[other];
    }
    if (mine) {
        chosen.from[place] = a.slab[threadIdx.x / slab_vectors] + threadIdx.x % slab_vectors * a.stride;
        chosen.part[place] = part;
    }
    if (threadIdx.x == 0) chosen.count = count;
    __syncthreads();
}

// w less the vectors times their parts, and the square of its 2-norm; the last block rotates the column.
template <class V, int R>
CPMS_DEVICE void arnoldi_combine(const Arnoldi& a) {
    __shared__ Chosen chosen;
    if (idle(a)) return;
    choose(a, chosen);
    const u32 count = chosen.count;
    if (a.kept && count == 0) return;
    if (!a.last) add_read(a, count);
    LastBlockReduce<1, false> mine{};
    for_each_warp_values(a.padded, [&](u64 first) {
        double w[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) w[c] = a.w[FourStored<V, R>::place(first, c)];
        for (u32 begin = 0; begin < count; begin += slab_vectors) {
            const int here = count - begin < slab_vectors ? (int)(count - begin) : slab_vectors;
            const auto from = [&](int j) { return chosen.from[begin + j]; };
            for_each_vector<V, R>(from, here, first, a.padded, [&](int j, const double(&v)[4]) {
                const double part = begin + j < count ? chosen.part[begin + j] : 0.0;
#pragma unroll
                for (int c = 0; c < 4; ++c) w[c] -= part * v[c];
            });
        }
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            a.w[FourStored<V, R>::place(first, c)] = w[c];
            mine.value[0] += w[c] * w[c];
        }
    });
    if (a.last && reduce_in_last_block<OverWarps>(mine, a.partials, a.counter, &a.state->square)) rotate(a, count);
}

// The next vector: w over its size, in a format or in layers of one, and the square of what is stored.
template <class V, int R>
CPMS_DEVICE void arnoldi_store(const Arnoldi& a) {
    if (idle(a)) return;
    const double factor = 1.0 / a.state->size;
    LastBlockReduce<1, false> mine{};
    for_each_warp_values(a.padded, [&](u64 first) {
        double left[4], sum[4] = {};
#pragma unroll
        for (int c = 0; c < 4; ++c) left[c] = a.w[FourStored<V, R>::Writer::place(first, c)] * factor;
        for (u64 layer = 0; layer < a.layers; ++layer) {
            double v[4];
#pragma unroll
            for (int c = 0; c < 4; ++c) v[c] = left[c];
            FourStored<V, R>::store(a.out[layer], first, a.padded, v);
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                sum[c] += v[c];
                left[c] -= v[c];
            }
        }
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            if (a.sum) a.sum[FourStored<V, R>::Writer::place(first, c)] = sum[c];
            mine.value[0] += sum[c] * sum[c];
        }
    });
    reduce_in_last_block<OverWarps>(mine, a.partials, a.counter, a.squares + (u64)a.state->columns);
}

}  // namespace cpms

#define CPMS_ARNOLDI_FORMAT(NAME, PASS, BLOCKS, ...)                                           \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS) NAME(cpms::Arnoldi arguments) { \
        cpms::PASS<__VA_ARGS__>(arguments);                                                    \
    }
#define CPMS_ARNOLDI_DOTS(NAME, ...) CPMS_ARNOLDI_FORMAT(NAME, arnoldi_dots, 2, __VA_ARGS__)
#define CPMS_ARNOLDI_COMBINE(NAME, ...) CPMS_ARNOLDI_FORMAT(NAME, arnoldi_combine, 3, __VA_ARGS__)
#define CPMS_ARNOLDI_STORE(NAME, ...) CPMS_ARNOLDI_FORMAT(NAME, arnoldi_store, 4, __VA_ARGS__)
#define CPMS_ARNOLDI_PARTS(NAME)                                                      \
    extern "C" __global__ void __launch_bounds__(256) NAME(cpms::Arnoldi arguments) { \
        cpms::arnoldi_parts(arguments);                                               \
    }
