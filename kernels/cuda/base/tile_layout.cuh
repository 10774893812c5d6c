// The layout of entries in tiles: a tile is 256 consecutive entries of padded CSR, eight consecutive ones for each
// lane of a warp. Segmented sums over a warp follow.
#pragma once
#include "base/warp.cuh"

namespace cpms {

constexpr u32 none = ~0u;
constexpr int lane_entries = 8;
constexpr int tile_entries = 32 * lane_entries;

// The index of a lane's part of a tile. Entries are fewer than 2^32; cpms/backends/cuda/spmv/padded_csr.py checks that.
CPMS_DEVICE u32 lane_part(u32 tile) { return tile * 32 + threadIdx.x % 32; }

CPMS_DEVICE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }
CPMS_DEVICE u32 larger(u32 a, u32 b) { return a > b ? a : b; }

// Segmented inclusive scan over a warp (Blelloch, 1993): the sum of a lane's value and those of the lanes before it,
// back to the last lane in which a row ended.
CPMS_DEVICE double segmented_scan(double value, u32 lane, bool has_end) {
    // Bit L of `inside`: lanes L - distance + 1 to L belong to one row with the lane before them.
    u32 inside = ~__ballot_sync(all_lanes, has_end) & ~1u;
    for (u32 distance = 1; inside; distance *= 2) {
        const double earlier = __shfl_up_sync(all_lanes, value, distance);
        if (inside >> lane & 1) value += earlier;
        inside &= inside << distance;
    }
    return value;
}

}  // namespace cpms
