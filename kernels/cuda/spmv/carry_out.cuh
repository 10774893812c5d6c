// Carry-out of rows that are split over tasks, as in merge-based CSR (Merrill and Garland, 2016).
//
// A task publishes its partial sum of the row that is open at its end; the task in which the row ends gathers the
// partial sums of the earlier ones, in their order. Sums do not depend on the order in which tasks run, and no second
// launch is needed. A row that is split over k tasks costs k words.
#pragma once
#include "base/tile_layout.cuh"

namespace cpms {

// One partial sum a task, in global memory. An absent one is a reserved NaN, so that a single 64-bit word carries
// both the value and its arrival, and no fence has to invalidate caches.
struct CarryOut {
    static constexpr u64 missing = ~0ull;
    volatile u64* bits;

    CPMS_DEVICE void publish(u32 task, double sum) const {
        const u64 published = bits_of(sum);
        bits[task] = published == missing ? published << 1 : published;  // another NaN
    }

    // Sum of the partial sums of tasks `from` to `task` - 1 over the warp, several loads a lane in flight. Marks them
    // absent for the next sweep; the grid barrier between sweeps, or the next launch, orders that before they are
    // published again.
    template <int together = 8>
    CPMS_DEVICE double gather(u32 from, u32 task, u32 lane) const {
        double sum = 0.0;
        for (u32 base = from + lane; base < task; base += 32 * together) {
            u64 partial[together];
            bool all;
            do {
                all = true;
#pragma unroll
                for (int j = 0; j < together; ++j) partial[j] = bits[smaller(base + 32 * j, task - 1)];
#pragma unroll
                for (int j = 0; j < together; ++j) all = all && partial[j] != missing;
                if (!all) back_off();
            } while (!all);
#pragma unroll
            for (int j = 0; j < together; ++j) sum += base + 32 * j < task ? value_of(partial[j]) : 0.0;
        }
        __syncwarp();
        for (u32 other = from + lane; other < task; other += 32) bits[other] = missing;
        return warp_reduce(sum, Add{});
    }
};

}  // namespace cpms
