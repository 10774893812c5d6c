// Arnoldi's method on stored vectors without the host: classical Gram-Schmidt against the basis as it is stored, Givens
// rotations of the Hessenberg matrix, and the next vector, scaled and stored. cpms/solvers/linear/gmres.py has the
// method and its references.
//
// For vectors of one format, a step has five launches: product, dot products, their sums, combination with rotation,
// and store. The host enqueues steps ahead. Each launch reads from device memory whether it is to work, so launches
// after the end of a cycle do nothing. A second pass of Gram-Schmidt consists of the same launches in another mode. A
// pass costs two reads of the basis, and a step five passes over vectors of float64.
//
// A basis in layers stores a vector as a sum of vectors in block floating point, where each rounds what the layers
// before it leave over, as in cpms/solvers/linear/stored_basis.py. A vector has no more layers than the ones before it.
// The residual decides the digits that a column needs. Dot products skip a layer where the layers before it have enough
// digits. A combination skips it for each vector whose coefficient is so small that they have.
#include "krylov/stored_basis.cuh"

namespace cpms {

// Partial sums of the dot products with w, one a block: those of chosen array j begin at partials[j * gridDim.x].
// Arrays are in the order of vectors; with layers, the first layer of all vectors comes first, and so on.
template <class V, int R>
CPMS_DEVICE void arnoldi_dots(const Arnoldi& a) {
    __shared__ double of_warps[slab_vectors][block_warps];
    __shared__ Chosen chosen;
    if (idle(a)) return;
    if (threadIdx.x == 0) chosen.count = 0;
    const u64 layers = layers_of_dots(a);
    for (u64 layer = 0; layer < layers; ++layer)
        append(a, layer, chosen, [](u32) { return true; }, [](u32) { return 0.0; });
    pad(chosen);
    if (blockIdx.x == 0 && threadIdx.x == 0) a.state->read += (double)chosen.count;
    for (u32 begin = 0; begin < chosen.count; begin += slab_vectors) {
        const int count = chosen.count - begin < slab_vectors ? (int)(chosen.count - begin) : slab_vectors;
        double sum[slab_vectors] = {};
        for_each_warp_values(a.padded, [&](u64 first) {
            double w[4];
#pragma unroll
            for (int c = 0; c < 4; ++c) w[c] = a.w[FourStored<V, R>::place(first, c)];
            for_each_vector<V, R>(chosen.from + begin, first, a.padded, [&](int j, const double(&v)[4]) {
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
            a.partials[(a.first + begin + threadIdx.x) * gridDim.x + blockIdx.x] = all;
        }
    }
}

// Coefficients of the projection, one a warp: the sum of the dot products of a vector's layers over its squared 2-norm.
// The column of the Hessenberg matrix is the sum of the coefficients of both passes.
CPMS_KERNEL(256) arnoldi_parts(Arnoldi a) {
    if (idle(a)) return;
    const u64 vector = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32, column = (u64)a.state->columns;
    if (vector > column) return;  // the whole warp
    const u64 layers = layers_of_dots(a);
    double mine = 0.0;
    for (u64 layer = 0, place = vector; layer < layers; place += a.count[layer++]) {
        if (layer && vector >= a.count[layer]) break;
        for (u64 block = threadIdx.x % 32; block < a.blocks; block += 32) mine += a.partials[place * a.blocks + block];
    }
    const double part = warp_reduce(mine, Add{}) / a.squares[vector];
    if (threadIdx.x % 32) return;
    a.parts[vector] = part;
    double& entry = a.columns[column * a.rows + vector];
    entry = a.mode == 1 ? entry + part : part;
}

CPMS_DEVICE bool finite(double value) { return fabs(value) <= 1.7976931348623157e308; }

// Called by one block, whose launch has read `count` arrays. If the first pass cancelled most of w, it requests a
// second one. Otherwise it brings the new column to triangular form by Givens rotations, a tile of the column at a
// time, and decides whether the cycle ends.
CPMS_DEVICE void rotate(const Arnoldi& a, u32 count) {
    __shared__ double entry[block_threads + 1], cosine[block_threads], sine[block_threads];
    __syncthreads();  // the square has been written
    ArnoldiState& state = *a.state;
    const u64 column = (u64)state.columns;
    double* const mine = a.columns + column * a.rows;
    const double size = sqrt(state.square);
    if (threadIdx.x == 0) state.read += (double)count;
    LastBlockReduce<2, true> found{};  // sum of the squared coefficients of this pass, and the column's largest entry
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

// Called by a whole block: the 2-norm of w over `to_go`. Times the `reach_before` of a layer, it is the largest
// coefficient for which that layer can be skipped. The 2-norm of the column's coefficients, which are components of w,
// is used in place of that of w.
CPMS_DEVICE double least_part(const Arnoldi& a) {
    const u64 column = (u64)a.state->columns;
    LastBlockReduce<1, false> square{};
    for (u64 i = threadIdx.x; i <= column; i += block_threads) {
        const double entry = a.columns[column * a.rows + i];
        square.value[0] += entry * entry;
    }
    return sqrt(InWarps::in_block(square).value[0]) / to_go(a);
}

// Subtracts from w the vectors times their coefficients, and sums its squared 2-norm; the last block calls `rotate`.
template <class V, int R>
CPMS_DEVICE void arnoldi_combine(const Arnoldi& a) {
    __shared__ Chosen chosen;
    if (idle(a)) return;
    if (threadIdx.x == 0) chosen.count = 0;
    const double least = a.layers > 1 && a.mode != any_mode ? least_part(a) : 0.0;
    for (u64 layer = 0; layer < a.layers; ++layer) {
        const double enough = least * reach_before(a, layer);
        const auto part = [&](u32 vector) { return a.parts[a.first + vector]; };
        append(a, layer, chosen, [&](u32 vector) { return enough == 0.0 || fabs(part(vector)) > enough; }, part);
    }
    pad(chosen);
    const u32 count = chosen.count;
    LastBlockReduce<1, false> mine{};
    for_each_warp_values(a.padded, [&](u64 first) {
        double w[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) w[c] = a.w[FourStored<V, R>::place(first, c)];
        for (u32 begin = 0; begin < count; begin += slab_vectors) {
            for_each_vector<V, R>(chosen.from + begin, first, a.padded, [&](int j, const double(&v)[4]) {
                const double part = chosen.part[begin + j];
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

// Stores w over its 2-norm as the next vector, whole or in layers, and sums the squared 2-norm of the stored values.
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

#define CPMS_ARNOLDI_FORMAT(NAME, PASS, BLOCKS, ...)         \
    CPMS_KERNEL(256, BLOCKS) NAME(cpms::Arnoldi arguments) { \
        cpms::PASS<__VA_ARGS__>(arguments);                  \
    }
#define CPMS_ARNOLDI_DOTS(NAME, ...) CPMS_ARNOLDI_FORMAT(NAME, arnoldi_dots, 2, __VA_ARGS__)
#define CPMS_ARNOLDI_COMBINE(NAME, ...) CPMS_ARNOLDI_FORMAT(NAME, arnoldi_combine, 3, __VA_ARGS__)
#define CPMS_ARNOLDI_STORE(NAME, ...) CPMS_ARNOLDI_FORMAT(NAME, arnoldi_store, 4, __VA_ARGS__)
