// Values that other ranks read, written into their memory where they read them; and the wait for theirs.
#include "memory.cuh"

namespace cpms {

#if defined(__CUDA_ARCH__)
CPMS_DEVICE void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
CPMS_DEVICE void signal(u32* at, u32 number) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(number) : "memory");
}
CPMS_DEVICE u32 signalled(const u32* at) {
    u32 found;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(found) : "l"(at) : "memory");
    return found;
}
#else
CPMS_DEVICE void fence_system() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
CPMS_DEVICE void signal(u32* at, u32 number) { __atomic_store_n(at, number, __ATOMIC_RELEASE); }
CPMS_DEVICE u32 signalled(const u32* at) {
    host::pass_to_processes();
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
#endif

// The memory of all ranks, as addresses; what is this rank's own is not used.
struct Routes {
    const u64 *values, *told, *signals;  // of each rank: where this one's values, numbers and signals go
    u32 ranks, rank;
};

// Sends rank q the values at places[begins[q]] to places[begins[q + 1] - 1], in whole runs of 16 bytes, and `count`
// numbers; begins are multiples of 64. Exchanges are counted in counts[1], the same on all ranks.
template <class Word>
CPMS_DEVICE void push(const u32* places, const u32* begins, const Word* own, const double* told, u32 count,
                      const Routes& routes, const u32* signals, u32* counts) {
    constexpr int each = 16 / sizeof(Word);
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    const u32 runs = begins[routes.ranks] / each;
    for (u32 run = thread; run < runs; run += threads) {
        u32 to = 0;
        while (begins[to + 1] <= run * each) ++to;
        u32 from[each];
#pragma unroll
        for (int k = 0; k < each; ++k) from[k] = load_word(places + run * each + k, ReadOnly{});
        u8* const there = (u8*)routes.values[to] + (u64)(run * each - begins[to]) * sizeof(Word);
        store_run_bytes<16>(there, side_by_side(own, from));
    }
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        fence_system();
        last = atomicInc(counts, gridDim.x - 1) == gridDim.x - 1;  // back to 0 for the next launch
        fence_system();
    }
    __syncthreads();
    if (!last) return;
    for (u32 i = threadIdx.x; i < routes.ranks * count; i += blockDim.x) {
        if (i / count != routes.rank) ((double*)routes.told[i / count])[i % count] = told[i % count];
    }
    const u32 now = counts[1] + 1;
    __syncthreads();
    if (threadIdx.x < routes.ranks && threadIdx.x != routes.rank) {
        fence_system();
        signal((u32*)routes.signals[threadIdx.x], now);
        while ((int)(signalled(signals + threadIdx.x) - now) < 0) {
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) counts[1] = now;
}

}  // namespace cpms

#define CPMS_PUSH(NAME, WORD)                                                                         \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* places, const unsigned* begins, const WORD* own, const double* told,     \
             unsigned count, const unsigned long long* values_to, const unsigned long long* told_to,  \
             const unsigned long long* signals_to, unsigned ranks, unsigned rank,                     \
             const unsigned* signals, unsigned* counts) {                                             \
        const cpms::Routes routes{values_to, told_to, signals_to, ranks, rank};                       \
        cpms::push<WORD>(places, begins, own, told, count, routes, signals, counts);                  \
    }
