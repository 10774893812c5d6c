// Grid barrier and all-reduce of persistent kernels, and the device clock.
//
// A persistent kernel runs many sweeps in one launch; all of its blocks must be resident, which a cooperative launch
// guarantees. The barrier is one counter in global memory, and its halves (arrive, wait) are separate, so that a
// block can prefetch while it waits. A barrier costs one trip to the second-level cache for the arrival and one for
// the wait; an all-reduce adds a read of all partial values.
#pragma once
#include "base/warp.cuh"

namespace cpms {

constexpr int persistent_threads = 512;  // of a block, at most
constexpr int persistent_warps = persistent_threads / 32, min_persistent_warps = 12;
constexpr int max_reduced = 6, max_partials = 45;  // numbers of one GridReduce; of any other reduction over the grid
constexpr u32 line_words = 32;                     // 4-byte words in a cache line

#if defined(__CUDA_ARCH__)
// One-directional fences cost less: a release waits for stores, an acquire invalidates the first-level cache.
#if __CUDA_ARCH__ >= 900 && (__CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 8))
CPMS_DEVICE void release_memory() { asm volatile("fence.release.gpu;" ::: "memory"); }
CPMS_DEVICE void acquire_memory() { asm volatile("fence.acquire.gpu;" ::: "memory"); }
#else
CPMS_DEVICE void release_memory() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
CPMS_DEVICE void acquire_memory() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
#endif
CPMS_DEVICE void add_relaxed(u32* at, u32 number) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(number) : "memory");
}
CPMS_DEVICE u32 load_relaxed(const u32* word) {
    u32 found;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(word) : "memory");
    return found;
}
#else
CPMS_DEVICE void release_memory() {}
CPMS_DEVICE void acquire_memory() {}
CPMS_DEVICE void add_relaxed(u32* at, u32 number) { *at += number; }
CPMS_DEVICE u32 load_relaxed(const u32* word) {
    host::pass();
    return *word;
}
#endif

// A block barrier after a branch of one thread. ptxas 13 may let that thread arrive at the barrier alone and
// continue alone, and lose the values that its warp holds in uniform registers; the warp barrier prevents it.
CPMS_DEVICE void sync_block() {
    __syncwarp();
    __syncthreads();
}

// The barrier. The counter only grows, modulo 2^32 and from launch to launch, and a launch begins at the value at which
// the last one ended. Two halves of `partials` are used in turn, so that a block that is ahead does not overwrite
// values that another block still reads.
struct Grid {
    double* partials;  // two halves, of max_partials a block each
    u32* arrived;      // three lines: arrivals so far, arrivals when the last launch ended; the words of either half

    CPMS_DEVICE Grid(double* workspace, u32* counters) : partials(workspace), arrived(counters) {
        if (threadIdx.x == 0) state() = BarrierState{arrived[1], 0};
    }

    // Barrier: all writes before it, by any thread of the grid, are visible after it. `overlapped` runs between
    // arrival and wait and must not depend on these writes.
    template <class Overlapped>
    CPMS_DEVICE void sync(Overlapped overlapped) const {
        __syncthreads();
        if (threadIdx.x == 0) arrive();
        overlapped();
        if (threadIdx.x == 0) {
            const u32 all = advance();
            while (!all_arrived(all)) {
            }
            acquire_memory();
        }
        __syncthreads();
    }
    // The parts of the barrier. One thread arrives once its whole block has written; one thread advances the state,
    // and acquires memory once all_arrived() of the value returned. __syncthreads orders the writes of the block before
    // that thread's release, and releases are cumulative (causality order of the PTX memory consistency model), so one
    // release covers the block; likewise one acquire and a __syncthreads after it.
    CPMS_DEVICE void arrive() const {
        release_memory();
        add_relaxed(arrived, 1);
    }
    CPMS_DEVICE u32 advance() const {
        const u32 all = state().arrived + gridDim.x;
        state() = BarrierState{all, state().half ^ 1};
        return all;
    }
    CPMS_DEVICE bool all_arrived(u32 all) const { return (int)(load_relaxed(arrived) - all) >= 0; }
    CPMS_DEVICE u32 parity() const { return state().half; }
    // Words of one half to which blocks add as they arrive (see FixedPointAllReduce). Words that all blocks poll lie
    // on different cache lines.
    CPMS_DEVICE u64* words(u32 half) const { return (u64*)(arrived + line_words * (half + 1)); }
    // Valid between a __syncthreads and the next barrier.
    CPMS_DEVICE double* half() const { return partials + state().half * max_partials * gridDim.x; }
    // Once at the end of a kernel. All blocks have passed a barrier, if there was any, and so have read where they
    // began.
    CPMS_DEVICE void end() const {
        if (blockIdx.x == 0 && threadIdx.x == 0) arrived[1] = state().arrived;
    }

    // Shared memory of a reduction: one value a warp, and partial sums over the blocks.
    struct ReduceWorkspace {
        double warp_partials[max_reduced][persistent_warps], parts[max_reduced][4];
    };
    static CPMS_DEVICE ReduceWorkspace& reduce_workspace() {
        __shared__ ReduceWorkspace workspace;
        return workspace;
    }

  private:
    struct BarrierState {
        u32 arrived, half;  // arrivals at the last barrier
    };
    // Shared memory, since persistent kernels have no registers to spare.
    static CPMS_DEVICE BarrierState& state() {
        __shared__ BarrierState of_block;
        return of_block;
    }
};

// The device's nanosecond clock modulo 2^50; as a float64 all 64 bits would be rounded to 256 ns.
CPMS_DEVICE double nanoseconds() {
#if defined(__CUDA_ARCH__)
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return (double)(now & ((1ull << 50) - 1));
#else
    return 0.0;
#endif
}

// All-reduce of K values over the grid: sums, and for the last L of them maxima of numbers that are not negative. The
// order is fixed, so equal inputs give equal bits.
template <int K, int L>
struct GridReduce {
    double value[K];

    static CPMS_DEVICE double combine(u32 q, double a, double b) { return q < (u32)(K - L) ? a + b : Larger{}(a, b); }
    static CPMS_DEVICE double warp_reduced(u32 q, double number) {
        return q < (u32)(K - L) ? warp_reduce(number, Add{}) : warp_reduce(number, Larger{});
    }

    // Every thread contributes its values, waits for the grid, and receives the totals.
    CPMS_DEVICE void all_reduce(const Grid& grid) {
        all_reduce(grid, [] {});
    }
    template <class Overlapped>
    CPMS_DEVICE void all_reduce(const Grid& grid, Overlapped overlapped) {
        static_assert(K <= max_reduced, "too many totals");
        auto& workspace = Grid::reduce_workspace();
        const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
        for (u32 q = 0; q < K; ++q) {
            const double mine = warp_reduced(q, value[q]);
            if (lane == 0) workspace.warp_partials[q][warp] = mine;
        }
        __syncthreads();
        double* const partials = grid.half();
        if (warp < K) {
            const double mine = warp_reduced(warp, lane < blockDim.x / 32 ? workspace.warp_partials[warp][lane] : 0.0);
            if (lane == 0) partials[warp * gridDim.x + blockIdx.x] = mine;
        }
        grid.sync(overlapped);
        // A grid has hundreds of blocks, so several warps read the partial values of a total, with several loads in
        // flight.
        constexpr u32 parts = min_persistent_warps / K < 4 ? min_persistent_warps / K : 4, together = 4;
        const u32 q = warp / parts, part = warp % parts;
        if (q < K) {
            double mine = 0.0;
            for (u32 first = 32 * part + lane; first < gridDim.x; first += together * parts * 32) {
                double found[together];
#pragma unroll
                for (u32 j = 0; j < together; ++j) {
                    const u32 block = first + j * parts * 32;
                    found[j] = block < gridDim.x ? partials[q * gridDim.x + block] : 0.0;
                }
#pragma unroll
                for (u32 j = 0; j < together; ++j) mine = combine(q, mine, found[j]);
            }
            mine = warp_reduced(q, mine);
            if (lane == 0) workspace.parts[q][part] = mine;
        }
        __syncthreads();
#pragma unroll
        for (u32 q = 0; q < K; ++q) {
            value[q] = workspace.parts[q][0];
#pragma unroll
            for (u32 part = 1; part < parts; ++part) value[q] = combine(q, value[q], workspace.parts[q][part]);
        }
    }
};

// The ranks of a solve on one device: the grid's totals are those of all nodes, and no values are exchanged.
// pagerank/ranks.cuh has those of several devices.
struct OneDevice {
    static constexpr bool several = false;

    CPMS_DEVICE void begin() const {}
    CPMS_DEVICE void end() const {}
    template <class Word, class Totals, class Overlapped>
    CPMS_DEVICE void all_reduce(Totals& totals, const void*, const Grid& grid, Overlapped overlapped) const {
        totals.all_reduce(grid, overlapped);
    }
};

}  // namespace cpms
