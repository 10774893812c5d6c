// Exchange between GPUs of one host by peer-to-peer stores and flags: each rank writes values and totals into the
// others' memory, then a flag with release semantics (one-sided communication, as in NVSHMEM). An exchange costs one
// remote write a value and one flag a pair of ranks.
#pragma once
#include "base/stores.cuh"

namespace cpms {

#if defined(__CUDA_ARCH__)
CPMS_DEVICE void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
CPMS_DEVICE void store_signal(u32* at, u32 epoch) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(epoch) : "memory");
}
// An acquire fence must follow.
CPMS_DEVICE u32 load_signal(const u32* at) {
    u32 found;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(found) : "l"(at) : "memory");
    return found;
}
#else
CPMS_DEVICE void fence_system() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
CPMS_DEVICE void store_signal(u32* at, u32 epoch) { __atomic_store_n(at, epoch, __ATOMIC_RELEASE); }
CPMS_DEVICE u32 load_signal(const u32* at) {
    host::pass_to_processes();
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}
#endif

// A rank's send list and its count of exchanges. Rank q receives the values at sent_indices[begins[q]] to
// sent_indices[begins[q + 1] - 1], in whole runs of 16 bytes; begins are multiples of 64.
struct PeerSignals {
    const u32 *sent_indices, *begins;
    const u64* signals_to;  // of each rank: where this rank's flags go
    const u32* signals;     // of each rank, in this rank's memory
    u32* counts;            // arrived blocks, and exchanges; the latter is equal on all ranks
    u32 ranks, rank;

    CPMS_DEVICE bool is_other(u32 rank_of) const { return rank_of < ranks && rank_of != rank; }

    // `values_to` holds the destination of this rank's values on each rank, less `offset` bytes. All threads of the
    // grid take part. A rank begins with the next rank's values: at any time each rank then writes to another one, as
    // in the pairwise all-to-all, and no rank's incoming link has to carry the values of several.
    template <class Word, class Policy>
    CPMS_DEVICE void write_values(const Word* own, const u64* values_to, Policy policy, u64 offset = 0) const {
        constexpr int each = 16 / sizeof(Word);
        const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
        const u32 runs = begins[ranks] / each, first = begins[rank] / each;
        for (u32 turn = thread; turn < runs; turn += threads) {
            const u32 run = turn + first < runs ? turn + first : turn + first - runs;
            u32 to = 0;
            while (begins[to + 1] <= run * each) ++to;
            const Run<4 * each> of_run = load_run_bytes<4 * each>((const u8*)(sent_indices + run * each), ReadOnly{});
            u8* const there = (u8*)values_to[to] + offset + (u64)(run * each - begins[to]) * sizeof(Word);
            store_run_bytes<16>(there, gather_run(own, of_run.word, policy));
        }
    }
    // Whether this block is the last one of the grid to have written its values; all of them are visible to it then.
    CPMS_DEVICE bool is_last_to_write() const {
        __shared__ bool last;
        __syncthreads();
        if (threadIdx.x == 0) {
            fence_system();
            last = atomicInc(counts, gridDim.x - 1) == gridDim.x - 1;  // atomicInc resets it to 0 for the next exchange
            fence_system();
        }
        __syncthreads();
        return last;
    }
    // Stores `count` totals at the destinations in `totals_to`. One block does it.
    CPMS_DEVICE void write_totals(const double* totals, u32 count, const u64* totals_to) const {
        for (u32 i = threadIdx.x; i < ranks * count; i += blockDim.x) {
            if (is_other(i / count)) ((double*)totals_to[i / count])[i % count] = totals[i % count];
        }
    }
    // Signals that all of this rank's data of exchange `epoch` are stored. One block does it, whose threads must all
    // know that.
    CPMS_DEVICE void signal_all(u32 epoch) const {
        if (is_other(threadIdx.x)) {
            fence_system();
            store_signal((u32*)signals_to[threadIdx.x], epoch);
        }
    }
    // Waits for the same signal of all other ranks. One block.
    CPMS_DEVICE void await_all(u32 epoch) const {
        if (is_other(threadIdx.x)) {
            while ((int)(load_signal(signals + threadIdx.x) - epoch) < 0) {
            }
            fence_system();
        }
        __syncthreads();
    }
};

}  // namespace cpms
