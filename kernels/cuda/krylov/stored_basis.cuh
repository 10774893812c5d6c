// The stored basis of Arnoldi's method: the arguments of a launch, the choice of the vectors and layers that it reads,
// and loops over these. cpms/backends/cuda/krylov/basis.py allocates the memory.
#pragma once
#include "base/last_block_reduce.cuh"
#include "krylov/stored_values.cuh"

namespace cpms {

constexpr int slab_vectors = 16;
constexpr int most_slabs = 16;  // slab_vectors * most_slabs are the threads of a block: `append` has one a vector
constexpr int most_layers = 4;
constexpr int most_chosen = 2 * most_slabs * slab_vectors;  // layers of vectors of a launch
constexpr int any_mode = 3;

// State of a cycle that one launch passes to the next. All fields are float64, so that the host reads them in one
// transfer.
struct ArnoldiState {
    double mode;     // 0: launches of first passes work; 1: launches of second passes work; 2: the cycle has ended
    double columns;  // finished columns of the Hessenberg matrix
    double square;   // squared 2-norm of w after a pass
    double size;     // 2-norm of w after the last pass of the column
    double side;     // last entry of the rotated right-hand side; its absolute value is the residual
    double enough;   // residual at which the cycle ends
    double cancelled;  // 2-norm after the first pass over the one before, below which a second pass follows
    double most;     // most columns of the cycle
    double floor;    // residual that the cycle is to reach, times 2^-8 for the spare digits
    double read;     // layers of vectors that the column has read so far
};

// Results of a column: residual, passes, entry of the rotated right-hand side, Givens rotation, and layers read.
struct ArnoldiEntry {
    double residual, passes, right, cosine, sine, read;
};

// `ARNOLDI` of cpms/backends/cuda/kernels/structs.py has the same fields.
struct Arnoldi {
    const u8* slab[most_layers][most_slabs];  // memory of `slab_vectors` vectors each, from vector `first` on
    u64 count[most_layers];      // vectors of this launch that have each layer
    u64 layers;                  // most layers of a vector: 1 for vectors that are stored whole
    u64 width;                   // bits of a value in a layer
    u64 spared;                  // digits fewer that dot products need than combinations
    u64 stride;                  // bytes from vector to vector
    u64 first;                   // index of this launch's first vector
    u64 mode;                    // the launch works in this mode of the state alone
    u64 last;                    // 1 if no other combination of this pass follows
    u64 padded;                  // values of a vector, rounded up to a multiple of 256
    double* w;                   // the vector that is orthogonalised
    u8* out[most_layers];        // addresses of the next vector's layers
    double* sum;                 // the sum of these layers; null for vectors that are stored whole
    double* partials;            // sums of blocks
    u64 blocks;                  // blocks of the launch that wrote the partial sums of dot products
    double* parts;               // coefficients of a pass
    double* squares;             // squared 2-norms of the stored vectors
    double* columns;             // the triangular matrix; columns begin `rows` apart
    u64 rows;
    ArnoldiState* state;
    ArnoldiEntry* entries;
    u32* counter;
};

CPMS_DEVICE bool idle(const Arnoldi& a) { return a.mode != any_mode && a.state->mode != (double)a.mode; }

// The factor by which the residual of the cycle has yet to fall, times 2^8 for the spare digits. Its binary logarithm
// is the number of digits that a vector needs.
CPMS_DEVICE double to_go(const Arnoldi& a) { return fabs(a.state->side) / a.state->floor; }
// The factor whose binary logarithm is the number of digits of the layers before this one.
CPMS_DEVICE double reach_before(const Arnoldi& a, u64 layer) {
    return layer ? value_of((1023 + layer * a.width - 1) << 52) : 0.0;
}
// The number of layers that dot products read of each vector.
CPMS_DEVICE u64 layers_of_dots(const Arnoldi& a) {
    u64 layers = 1;
    while (layers < a.layers && to_go(a) > reach_before(a, layers) * (double)(1 << a.spared)) ++layers;
    return layers;
}

// The arrays that a launch reads, each of them a vector or a layer of one: addresses, and for combinations
// coefficients. The last array is repeated, with a coefficient of 0, up to a multiple of `slab_vectors`.
struct Chosen {
    const u8* from[most_chosen];
    double part[most_chosen];
    u32 count;
};

// Called by a whole block: appends a layer of those vectors of this launch for which wanted(vector) holds, in order.
template <class Wanted, class Part>
CPMS_DEVICE void append(const Arnoldi& a, u64 layer, Chosen& chosen, Wanted wanted, Part part) {
    __shared__ u32 of_warps[block_warps];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool mine = threadIdx.x < a.count[layer] && wanted(threadIdx.x);
    const u32 those = __ballot_sync(all_lanes, mine);
    __syncthreads();  // chosen.count holds the layers before
    if (lane == 0) of_warps[warp] = __popc(those);
    u32 place = chosen.count + __popc(those & ((1u << lane) - 1)), count = chosen.count;
    __syncthreads();
    for (u32 other = 0; other < block_warps; ++other) {
        if (other < warp) place += of_warps[other];
        count += of_warps[other];
    }
    if (mine) {
        chosen.from[place] = a.slab[layer][threadIdx.x / slab_vectors] + threadIdx.x % slab_vectors * a.stride;
        chosen.part[place] = part(threadIdx.x);
    }
    if (threadIdx.x == 0) chosen.count = count;
    __syncthreads();
}

// Called by a whole block after the last `append`.
CPMS_DEVICE void pad(Chosen& chosen) {
    const u32 place = chosen.count + threadIdx.x;
    if (chosen.count && place < (chosen.count + slab_vectors - 1) / slab_vectors * slab_vectors) {
        chosen.from[place] = chosen.from[chosen.count - 1];
        chosen.part[place] = 0.0;
    }
    __syncthreads();
}

// Calls work(j, values) for the sixteen vectors at from[0] to from[15]. Several are loaded before the first of them is
// used, so that their loads overlap.
template <class V, int R, class Work>
CPMS_DEVICE void for_each_vector(const u8* const* from, u64 first, u64 padded, Work work) {
    constexpr int together = sizeof(FourStored<V, R>) <= 12 ? 16 : sizeof(FourStored<V, R>) <= 24 ? 8 : 4;
#pragma unroll
    for (int begin = 0; begin < slab_vectors; begin += together) {
        FourStored<V, R> stored[together];
#pragma unroll
        for (int j = 0; j < together; ++j) stored[j].load(from[begin + j], first, padded);
#pragma unroll
        for (int j = 0; j < together; ++j) {
            double v[4];
            stored[j].values(v);
            work(begin + j, v);
        }
    }
}

// Sums sixteen numbers over the lanes of a warp, and returns sum l / 2 in lane l. Each exchange halves the numbers of a
// lane, so that there are 16 shuffles in place of 80.
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

}  // namespace cpms
