// Reduction over a grid that needs no second launch. Each block reduces its own values and writes them; the block
// that arrives last, by an atomic counter, reduces the blocks' values in their order (the threadFenceReduction scheme
// of NVIDIA's samples). There are no atomic floating-point sums: equal inputs give equal bits.
#pragma once
#include "base/warp.cuh"

namespace cpms {

// Sums; where `Largest` holds, the last value is a maximum instead.
template <int Count, bool Largest>
struct LastBlockReduce {
    static constexpr int count = Count;
    double value[Count];

    static CPMS_DEVICE double combine(int q, double a, double b) {
        return Largest && q == Count - 1 ? Larger{}(a, b) : a + b;
    }
};

struct Combine {
    template <class Some>
    CPMS_DEVICE Some operator()(const Some& a, const Some& b) const {
        Some both{};
#pragma unroll
        for (int q = 0; q < Some::count; ++q) both.value[q] = Some::combine(q, a.value[q], b.value[q]);
        return both;
    }
};

// Block reduction by shuffles in warps, then in the order of the warps. All threads get the result.
struct InWarps {
    template <class Some>
    static CPMS_DEVICE Some in_block(const Some& mine) {
        __shared__ double of_warps[Some::count][block_warps];
        __syncthreads();
#pragma unroll
        for (int q = 0; q < Some::count; ++q) {
            const double reduced =
                warp_reduce(mine.value[q], [q](double a, double b) { return Some::combine(q, a, b); });
            if (threadIdx.x % 32 == 0) of_warps[q][threadIdx.x / 32] = reduced;
        }
        __syncthreads();
        Some all{};
#pragma unroll
        for (int q = 0; q < Some::count; ++q) {
            all.value[q] = of_warps[q][0];
#pragma unroll 1  // four totals at once would take the registers of four sums
            for (int warp = 1; warp < block_warps; ++warp)
                all.value[q] = Some::combine(q, all.value[q], of_warps[q][warp]);
        }
        return all;
    }
};

// The same of sums only, with the result in thread 0 alone. That saves registers: with InWarps, some passes of
// krylov/cg.cu would take 40 instead of 32 (sm_90), and a multiprocessor would hold fewer blocks.
struct OverWarps {
    template <class Some>
    static CPMS_DEVICE Some in_block(const Some& mine) {
        __shared__ Some of_warps[block_warps];
        Some sum = mine;
#pragma unroll
        for (int k = 0; k < Some::count; ++k) sum.value[k] = warp_reduce(mine.value[k], Add{});
        __syncthreads();
        if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int warp = 1; warp < block_warps; ++warp) sum = Combine{}(sum, of_warps[warp]);
        }
        return sum;
    }
};

// OverBlock::in_block(mine) returns the block's values, at least in thread 0, and may be called twice without a barrier
// in between. `partials` holds Some::count numbers a block. Returns whether this is the last block, whose thread 0 has
// written the result.
template <class OverBlock, class Some>
CPMS_DEVICE bool reduce_in_last_block(const Some& mine, double* partials, u32* counter, double* result) {
    __shared__ bool last;
    const Some of_block = OverBlock::in_block(mine);
    if (threadIdx.x == 0) {
        for (int q = 0; q < Some::count; ++q) partials[blockIdx.x * Some::count + q] = of_block.value[q];
        __threadfence();
        // atomicInc resets the counter to 0 for the next launch.
        last = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return false;
    __threadfence();
    Some all{};
    const volatile double* others = partials;
#pragma unroll 1
    for (u32 block = threadIdx.x; block < gridDim.x; block += blockDim.x) {
        Some other;
        for (int q = 0; q < Some::count; ++q) other.value[q] = others[block * Some::count + q];
        all = Combine{}(all, other);
    }
    const Some in_all = OverBlock::in_block(all);
    if (threadIdx.x == 0) {
        for (int q = 0; q < Some::count; ++q) result[q] = in_all.value[q];
    }
    return true;
}

}  // namespace cpms
