// Dangling mass and distance of two vectors, each block by a tree reduction in shared memory (Harris, 2007).
#include "spmv/vector_sums.cuh"

namespace cpms {

// The lower half of the threads adds the values of the upper half, at adjacent addresses, so that lanes meet
// different banks. The last warp continues in registers, unrolled.
struct Tree {
    template <class Some>
    static CPMS_DEVICE Some in_block(const Some& mine) {
        __shared__ double workspace[Some::count][block_threads];
        const u32 thread = threadIdx.x;
#pragma unroll
        for (int q = 0; q < Some::count; ++q) workspace[q][thread] = mine.value[q];
        __syncthreads();
#pragma unroll
        for (u32 half = block_threads / 2; half > 32; half /= 2) {
            if (thread < half) {
#pragma unroll
                for (int q = 0; q < Some::count; ++q) {
                    workspace[q][thread] = Some::combine(q, workspace[q][thread], workspace[q][thread + half]);
                }
            }
            __syncthreads();
        }
        Some all{};
        if (thread < 32) {
#pragma unroll
            for (int q = 0; q < Some::count; ++q) {
                const auto combine = [q](double a, double b) { return Some::combine(q, a, b); };
                all.value[q] = warp_reduce(combine(workspace[q][thread], workspace[q][thread + 32]), combine);
            }
        }
        __syncthreads();
        return all;
    }
};

}  // namespace cpms

#define CPMS_COO_DANGLING(NAME, REAL) CPMS_DANGLING_MASS(NAME, cpms::Tree, REAL)
#define CPMS_COO_DISTANCE(NAME, REAL) CPMS_DISTANCE(NAME, cpms::Tree, REAL)
