// For kernels that stay on the device for many sweeps: a barrier across the grid, sums across it, time.
// Their blocks must all be resident at once, which a cooperative launch makes sure of.
#pragma once
#include "base/warp.cuh"

namespace cpms {

constexpr int persistent_threads = 512;  // at most
constexpr int persistent_warps = persistent_threads / 32, min_persistent_warps = 12;
constexpr int max_reduced = 6, max_partials = 45;  // of `Totals`; of anything that is added up over the grid
constexpr u32 line_words = 32;                     // of a cache line

#if defined(__CUDA_ARCH__)
// Fences of one direction cost less: one waits for memory, the other makes the first-level cache forget.
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

// What blocks tell each other. They count as they come, on and on from launch to launch; a launch begins where the
// last one ended. Two halves of `partials` are in use in turn, so that a block that is ahead does not write what
// another still reads.
struct Grid {
    double* partials;  // twice most_partials a block
    u32* arrived;      // how many have come, and how many had when the last launch ended

    CPMS_DEVICE Grid(double* workspace, u32* counters) : partials(workspace), arrived(counters) {
        if (threadIdx.x == 0) state() = BarrierState{arrived[1], 0};
    }

    // What any thread of the grid wrote before is seen by all after. What goes on `meanwhile` must not need that.
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
    // Its parts, for who waits for more: one thread comes once all of its block wrote; one goes on, and acquires memory once
    // as many have come as that says.
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
    // Words that blocks add to as they come, of a half: see Counted. A cache line lies between those that all wait for.
    CPMS_DEVICE u64* words(u32 half) const { return (u64*)(arrived + line_words * (half + 1)); }
    // Between a __syncthreads and the next wait.
    CPMS_DEVICE double* half() const { return partials + state().half * max_partials * gridDim.x; }
    // At the end of a kernel: all blocks have come to a wait, if any did, and so know where they began.
    CPMS_DEVICE void end() const {
        if (blockIdx.x == 0 && threadIdx.x == 0) arrived[1] = state().arrived;
    }

    // Where warps of a block leave what they have of totals, and parts of what all blocks have; one for all that are added up.
    struct ReduceWorkspace {
        double warp_partials[max_reduced][persistent_warps], parts[max_reduced][4];
    };
    static CPMS_DEVICE ReduceWorkspace& reduce_workspace() {
        __shared__ ReduceWorkspace workspace;
        return workspace;
    }

  private:
    struct BarrierState {
        u32 arrived, half;  // how many have come to the last wait
    };
    // Not registers of each thread, which kernels of many sweeps lack.
    static CPMS_DEVICE BarrierState& state() {
        __shared__ BarrierState of_block;
        return of_block;
    }
};

// Nanoseconds on a clock of the device, of which 50 bits are kept: all of them would be rounded to 256 ns.
CPMS_DEVICE double nanoseconds() {
#if defined(__CUDA_ARCH__)
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return (double)(now & ((1ull << 50) - 1));
#else
    return 0.0;
#endif
}

// K numbers over the grid: sums, but for the last L, which are largest values. The order is fixed.
template <int K, int L>
struct GridReduce {
    double value[K];

    static CPMS_DEVICE double combine(u32 q, double a, double b) { return q < (u32)(K - L) ? a + b : Larger{}(a, b); }
    static CPMS_DEVICE double warp_reduced(u32 q, double number) {
        return q < (u32)(K - L) ? warp_reduce(number, Add{}) : warp_reduce(number, Larger{});
    }

    // Every thread of the grid brings its own, waits for all, and gets the totals.
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
        // Several warps a total, several loads on their way: a grid has hundreds of blocks.
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

}  // namespace cpms
