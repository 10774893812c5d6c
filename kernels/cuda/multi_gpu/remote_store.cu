// One exchange as a launch: stores the values that other ranks read into their memory, signals, and waits for their
// signals. The block that arrives last signals for the whole grid.
#include "persistent/peer_signals.cuh"

namespace cpms {

template <class Word>
CPMS_DEVICE void remote_store(const PeerSignals& peers, const Word* own, const u64* values_to, const double* totals,
                              u32 count, const u64* totals_to) {
    peers.write_values(own, values_to, ReadOnly{});
    if (!peers.is_last_to_write()) return;
    peers.write_totals(totals, count, totals_to);
    const u32 now = peers.counts[1] + 1;
    __syncthreads();
    peers.signal_all(now);
    peers.await_all(now);
    if (threadIdx.x == 0) peers.counts[1] = now;
}

}  // namespace cpms

#define CPMS_REMOTE_STORE(NAME, WORD)                                                                \
    CPMS_KERNEL(256) NAME(const __grid_constant__ cpms::PeerSignals peers, const WORD* own,          \
                          const unsigned long long* values_to, const double* totals, unsigned count, \
                          const unsigned long long* totals_to) {                                     \
        cpms::remote_store<WORD>(peers, own, values_to, totals, count, totals_to);                   \
    }
