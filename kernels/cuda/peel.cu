// Which nodes no cycle leads to, and which lead to none: level by level, a look at all nodes each.
#include "warp.cuh"

namespace cpms {

// A node's level: 0, 1, … of those that no cycle leads to; last_level - 0, last_level - 1, … of those that lead to
// none, from the far end; no_level of all others.
constexpr u32 no_level = 0x7FFFFFFFu, last_level = 0xFFFFFFFFu;

struct Looked {
    const u32 *indptr, *sources;
    u32* level;
    u32 nodes, most;  // rows of more entries than `most` stay what they are
};

CPMS_DEVICE u64 over_warp(u64 count) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) count += __shfl_xor_sync(all_lanes, count, distance);
    return count;
}

// Gives nodes the level `now` where joins(row, begin, end) says so; adds these and their entries to `found`.
template <class Joins>
CPMS_DEVICE void look(const Looked& at, u32 now, u64* found, Joins joins) {
    u64 rows = 0, entries = 0;
    const u32 threads = gridDim.x * blockDim.x;
    for (u64 row = blockIdx.x * blockDim.x + threadIdx.x; row < at.nodes; row += threads) {
        if (at.level[row] != no_level) continue;
        const u32 begin = at.indptr[row], end = at.indptr[row + 1];
        if (end - begin > at.most || !joins((u32)row, begin, end)) continue;
        at.level[row] = now;
        ++rows;
        entries += end - begin;
    }
    rows = over_warp(rows);
    entries = over_warp(entries);
    if (threadIdx.x % 32 == 0 && rows > 0) {
        atomicAdd(found, rows);
        atomicAdd(found + 1, entries);
    }
}

// All its edges come from lower levels. Levels that others set meanwhile are not lower.
CPMS_DEVICE void peel_before(const Looked& at, u32 now, u64* found) {
    look(at, now, found, [&](u32, u32 begin, u32 end) {
        for (u32 k = begin; k < end; ++k) {
            if (!(at.level[at.sources[k]] < now)) return false;
        }
        return true;
    });
}

// None of its edges goes to what is left.
CPMS_DEVICE void peel_behind(const Looked& at, const u32* left, u32 now, u64* found) {
    look(at, now, found, [&](u32 row, u32, u32) { return left[row] == 0; });
}

// One edge less is left of sources whose target has the level `now`.
CPMS_DEVICE void peel_edges(const Looked& at, u32* left, u32 now) {
    const u32 threads = gridDim.x * blockDim.x;
    for (u64 row = blockIdx.x * blockDim.x + threadIdx.x; row < at.nodes; row += threads) {
        if (at.level[row] != now) continue;
        for (u32 k = at.indptr[row]; k < at.indptr[row + 1]; ++k) atomicAdd(left + at.sources[k], 0xFFFFFFFFu);
    }
}

}  // namespace cpms

#define CPMS_PEEL_BEFORE(NAME)                                                                        \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* indptr, const unsigned* sources, unsigned* level, unsigned nodes,        \
             unsigned most, unsigned now, unsigned long long* found) {                                \
        cpms::peel_before(cpms::Looked{indptr, sources, level, nodes, most}, now, found);             \
    }
#define CPMS_PEEL_BEHIND(NAME)                                                                        \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* indptr, const unsigned* sources, unsigned* level, unsigned nodes,        \
             unsigned most, const unsigned* left, unsigned now, unsigned long long* found) {          \
        cpms::peel_behind(cpms::Looked{indptr, sources, level, nodes, most}, left, now, found);       \
    }
#define CPMS_PEEL_EDGES(NAME)                                                                         \
    extern "C" __global__ void __launch_bounds__(256)                                                 \
        NAME(const unsigned* indptr, const unsigned* sources, unsigned* level, unsigned nodes,        \
             unsigned most, unsigned* left, unsigned now) {                                           \
        cpms::peel_edges(cpms::Looked{indptr, sources, level, nodes, most}, left, now);               \
    }
