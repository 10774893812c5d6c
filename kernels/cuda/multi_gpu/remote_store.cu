// Values that other ranks read, written into their memory where they read them; and the wait for theirs.
#include "multi_gpu/peer_signals.cuh"

namespace cpms {

template <class Word>
CPMS_DEVICE void push(const Talk& talk, const Word* own, const u64* values_to, const double* told, u32 count,
                      const u64* told_to, bool with_values) {
    if (with_values) talk.write_values(own, values_to, ReadOnly{});
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        fence_system();
        last = atomicInc(talk.counts, gridDim.x - 1) == gridDim.x - 1;  // back to 0 for the next launch
        fence_system();
    }
    __syncthreads();
    if (!last) return;
    talk.write_told(told, count, told_to);
    const u32 now = talk.counts[1] + 1;
    __syncthreads();
    talk.signal_all(now);
    talk.await_all(now);
    if (threadIdx.x == 0) talk.counts[1] = now;
}

}  // namespace cpms

#define CPMS_PUSH(NAME, WORD)                                                                         \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* places, const unsigned* begins, const unsigned long long* signals_to,    \
             const unsigned* signals, unsigned* counts, unsigned ranks, unsigned rank,                \
             const WORD* own, const unsigned long long* values_to, const double* told,                \
             unsigned count, const unsigned long long* told_to, unsigned with_values) {               \
        const cpms::Talk talk{places, begins, signals_to, signals, counts, ranks, rank};              \
        cpms::push<WORD>(talk, own, values_to, told, count, told_to, with_values);                    \
    }
