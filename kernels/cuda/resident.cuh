// For kernels that stay on the device for many sweeps: a barrier across the grid, sums across it, time.
// Their blocks must all be resident at once, which a cooperative launch makes sure of.
#pragma once
#include "warp.cuh"

namespace cpms {

constexpr int resident_threads = 512;
constexpr int resident_warps = resident_threads / 32;

// A word by which blocks order what they have written: all before `released` or `came` is seen by threads
// that have `acquired` the word after it, and by those that met one of them at a barrier since.
#if defined(__CUDA_ARCH__)
CPMS_DEVICE u32 came(u32* count, u32 last) {
    u32 before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(count), "r"(last) : "memory");
    return before;
}
CPMS_DEVICE u32 acquired(const u32* word) {
    u32 found;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(word) : "memory");
    return found;
}
// For waiting: it empties no cache.
CPMS_DEVICE u32 glimpsed(const u32* word) {
    u32 found;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(word) : "memory");
    return found;
}
CPMS_DEVICE void released(u32* word, u32 value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
#else
CPMS_DEVICE u32 came(u32* count, u32 last) { return atomicInc(count, last); }
CPMS_DEVICE u32 acquired(const u32* word) { return *word; }
CPMS_DEVICE u32 glimpsed(const u32* word) {
    host::pass();
    return *word;
}
CPMS_DEVICE void released(u32* word, u32 value) { *word = value; }
#endif

// `sync` is two words that are 0 before the first launch: how many have come, and how often all had.
CPMS_DEVICE void wait_for_grid(u32* sync) {
    __syncthreads();
    if (threadIdx.x == 0) {
        const u32 turn = glimpsed(sync + 1);
        if (came(sync, gridDim.x - 1) == gridDim.x - 1) {
            released(sync + 1, turn + 1);
        } else {
            while (glimpsed(sync + 1) == turn) {
            }
            acquired(sync + 1);
        }
    }
    __syncthreads();
}

// Nanoseconds on a clock of the device.
CPMS_DEVICE double nanoseconds() {
#if defined(__CUDA_ARCH__)
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return (double)now;
#else
    return 0.0;
#endif
}

// What blocks tell each other; `turn` says which half of `partials` is in use, so that a block that is
// ahead does not write what another still reads.
struct Grid {
    double* partials;  // twice most_totals a block
    u32* sync;
    u32 turn = 0;
};

constexpr int most_totals = 6;

// K numbers over the grid: sums, but for the last L, which are largest values. The order is fixed.
template <int K, int L>
struct Totals {
    double value[K];

    static CPMS_DEVICE double join(u32 q, double a, double b) { return q < (u32)(K - L) ? a + b : Larger{}(a, b); }
    static CPMS_DEVICE double joined(u32 q, double number) {
        return q < (u32)(K - L) ? over_warp(number, Add{}) : over_warp(number, Larger{});
    }

    // Every thread of the grid brings its own, waits for all, and gets the totals.
    CPMS_DEVICE void over_grid(Grid& grid) {
        static_assert(K <= most_totals, "too many totals");
        __shared__ double room[most_totals][resident_warps];
        __shared__ double total[most_totals];
        const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        double* const partials = grid.partials + (grid.turn++ % 2) * most_totals * gridDim.x;
#pragma unroll
        for (u32 q = 0; q < K; ++q) {
            const double mine = joined(q, value[q]);
            if (lane == 0) room[q][warp] = mine;
        }
        __syncthreads();
        if (warp < K) {
            const double mine = joined(warp, lane < resident_warps ? room[warp][lane] : 0.0);
            if (lane == 0) partials[blockIdx.x * K + warp] = mine;
        }
        wait_for_grid(grid.sync);
        if (warp < K) {
            double mine = 0.0;
            for (u32 block = lane; block < gridDim.x; block += 32) mine = join(warp, mine, partials[block * K + warp]);
            mine = joined(warp, mine);
            if (lane == 0) total[warp] = mine;
        }
        __syncthreads();
#pragma unroll
        for (u32 q = 0; q < K; ++q) value[q] = total[q];
    }
};

}  // namespace cpms
