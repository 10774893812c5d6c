// Dangling mass and distance of two vectors, by a tree in shared memory in each block.
#include "spmv/vector_sums.cuh"

namespace cpms {

// Halves join, side by side so that lanes meet different banks; the last warp goes on in registers, unrolled.
struct Tree {
    template <class Some>
    static CPMS_DEVICE Some joined(const Some& mine) {
        __shared__ double room[Some::count][block_threads];
        const u32 thread = threadIdx.x;
#pragma unroll
        for (int q = 0; q < Some::count; ++q) room[q][thread] = mine.value[q];
        __syncthreads();
#pragma unroll
        for (u32 half = block_threads / 2; half > 32; half /= 2) {
            if (thread < half) {
#pragma unroll
                for (int q = 0; q < Some::count; ++q) {
                    room[q][thread] = Some::join(q, room[q][thread], room[q][thread + half]);
                }
            }
            __syncthreads();
        }
        Some all{};
        if (thread < 32) {
#pragma unroll
            for (int q = 0; q < Some::count; ++q) {
                const auto join = [q](double a, double b) { return Some::join(q, a, b); };
                all.value[q] = over_warp(join(room[q][thread], room[q][thread + 32]), join);
            }
        }
        __syncthreads();
        return all;
    }
};

}  // namespace cpms

#define CPMS_COO_DANGLING(NAME, REAL) CPMS_DANGLING_MASS(NAME, cpms::Tree, REAL)
#define CPMS_COO_DISTANCE(NAME, REAL) CPMS_DISTANCE(NAME, cpms::Tree, REAL)
