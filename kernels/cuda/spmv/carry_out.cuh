// What tasks leave of rows that go on in the next.
#pragma once
#include "base/tile_layout.cuh"

namespace cpms {

// The pieces of open rows, one a task, in device memory that other warps write and read. A piece that
// is not there is a NaN of its own, so that one word tells all and no fence empties the caches.
struct CarryOut {
    static constexpr u64 missing = ~0ull;
    volatile u64* bits;

    CPMS_DEVICE void publish(u32 task, double sum) const {
        const u64 published = bits_of(sum);
        bits[task] = published == missing ? published << 1 : published;
    }

    // Sum of those of tasks `from` to `task` - 1, over the warp, some a lane on their way together; takes
    // them away.
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
