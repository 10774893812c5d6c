// Rows as slots: sums of rows that lie across lanes, and across tasks.
#pragma once
#include "warp.cuh"

namespace cpms {

constexpr int slots_each = 8;
constexpr int step_slots = 32 * slots_each;

CPMS_DEVICE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }

// Sum of a lane's value and those of the lanes before it, back to the last one where a row ended.
CPMS_DEVICE double joined(double value, u32 lane, bool has_end) {
    // Bit L of `inside`: lanes L - distance + 1 to L are in one row with the lane before them.
    u32 inside = ~__ballot_sync(all_lanes, has_end) & ~1u;
    for (u32 distance = 1; inside; distance *= 2) {
        const double earlier = __shfl_up_sync(all_lanes, value, distance);
        if (inside >> lane & 1) value += earlier;
        inside &= inside << distance;
    }
    return value;
}

// The pieces of an open row, a word each in device memory that other warps read and write.
struct Pieces {
    volatile double* value;
    volatile u32* ready;

    CPMS_DEVICE void leave(u32 task, double sum) const {
        value[task] = sum;
        __threadfence();
        ready[task] = 1;
    }

    // Sum of those of tasks `from` to `task` - 1, over the warp; eight a lane on their way together.
    CPMS_DEVICE double collect(u32 from, u32 task, u32 lane) const {
        constexpr u32 together = 8;
        double sum = 0.0;
        for (u32 base = from + lane; base < task; base += 32 * together) {
            bool all;
            do {
                all = true;
#pragma unroll
                for (u32 j = 0; j < together; ++j) all &= ready[smaller(base + 32 * j, task - 1)] != 0;
                if (!all) wait_a_little();
            } while (!all);
            __threadfence();
#pragma unroll
            for (u32 j = 0; j < together; ++j) {
                const u32 other = base + 32 * j;
                const double piece = value[smaller(other, task - 1)];
                sum += other < task ? piece : 0.0;
            }
        }
        __syncwarp();
        for (u32 other = from + lane; other < task; other += 32) ready[other] = 0;
        return over_warp(sum, Add{});
    }
};

}  // namespace cpms
